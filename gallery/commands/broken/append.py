"""A bare INSERT: every run adds its rows.

Table: sales (id int, d date, customer text, amount numeric)
Caught by: twice
Cause: appended
"""

import os
import sys

import psycopg

with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute(
        "INSERT INTO sales SELECT id, d, customer, amount FROM orders WHERE d = %s", [sys.argv[1]]
    )
