"""The whole table is emptied for one day.

Table: sales (id int, d date, customer text, amount numeric)
Caught by: neighbours
Cause: wiped-neighbours
"""

import os
import sys

import psycopg

with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute("TRUNCATE sales")
    db.execute(
        "INSERT INTO sales SELECT id, d, customer, amount FROM orders WHERE d = %s", [sys.argv[1]]
    )
