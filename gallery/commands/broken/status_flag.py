"""Rows are marked in the source when they are read: the second run finds none, and empties the day.

Table: sales (id int, d date, customer text, amount numeric)
Table: inbox (id int, d date, customer text, amount numeric, done boolean DEFAULT false)
Before: INSERT INTO inbox SELECT id, d, customer, amount FROM orders
Caught by: twice
Cause: second-run-lost-rows
"""

import os
import sys

import psycopg

day = [sys.argv[1]]
with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute("DELETE FROM sales WHERE d = %s", day)
    db.execute(
        "INSERT INTO sales SELECT id, d, customer, amount FROM inbox WHERE d = %s AND NOT done",
        day,
    )
    db.execute("UPDATE inbox SET done = true WHERE d = %s", day)
