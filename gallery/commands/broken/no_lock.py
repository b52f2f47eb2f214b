"""DELETE and INSERT in one transaction, but nothing keeps two runs of an empty day apart.

Table: sales (id int, d date, customer text, amount numeric)
Caught by: two-at-once
Cause: both-wrote
"""

import os
import sys

import psycopg

day = [sys.argv[1]]
with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute("DELETE FROM sales WHERE d = %s", day)
    db.execute("INSERT INTO sales SELECT id, d, customer, amount FROM orders WHERE d = %s", day)
