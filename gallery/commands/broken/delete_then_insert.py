"""DELETE and INSERT in two transactions: between them the day is empty.

Table: sales (id int, d date, customer text, amount numeric)
Caught by: killed
Cause: delete-without-insert
"""

import os
import sys

import psycopg

day = [sys.argv[1]]
with psycopg.connect(os.environ["SHOP"], autocommit=True) as db:
    db.execute("DELETE FROM sales WHERE d = %s", day)
    db.execute("INSERT INTO sales SELECT id, d, customer, amount FROM orders WHERE d = %s", day)
