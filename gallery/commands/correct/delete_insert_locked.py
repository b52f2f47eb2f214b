"""DELETE and INSERT in one transaction, behind a lock that two runs cannot have at once.

Table: sales (id int, d date, customer text, amount numeric)
Passes: twice, killed, two-at-once, neighbours, order, surroundings
"""

import os
import sys

import psycopg

day = [sys.argv[1]]
with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute("SELECT pg_advisory_xact_lock(hashtext('sales'))")
    db.execute("DELETE FROM sales WHERE d = %s", day)
    db.execute("INSERT INTO sales SELECT id, d, customer, amount FROM orders WHERE d = %s", day)
