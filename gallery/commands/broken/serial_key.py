"""A serial key: the day is replaced, and its rows get the next numbers.

Table: sales (number serial PRIMARY KEY, id int, d date, amount numeric)
Caught by: twice
Cause: serial
"""

import os
import sys

import psycopg

day = [sys.argv[1]]
with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute("DELETE FROM sales WHERE d = %s", day)
    db.execute(
        "INSERT INTO sales (id, d, amount) SELECT id, d, amount FROM orders WHERE d = %s", day
    )
