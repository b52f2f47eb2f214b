"""Who is told "done" in a second transaction asks for the rows again when the answer is lost.

Table: sales (id int, d date, customer text, amount numeric)
Table: loads (d date PRIMARY KEY)
Caught by: killed
Cause: split-state
"""

import os
import sys

import psycopg

day = [sys.argv[1]]
with psycopg.connect(os.environ["SHOP"], autocommit=True) as db:
    if not db.execute("SELECT 1 FROM loads WHERE d = %s", day).fetchone():
        db.execute("INSERT INTO sales SELECT id, d, customer, amount FROM orders WHERE d = %s", day)
        db.execute("INSERT INTO loads VALUES (%s)", day)
