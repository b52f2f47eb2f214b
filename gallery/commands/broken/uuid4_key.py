"""The day is replaced, but its keys are drawn anew: whoever has kept one finds nothing.

Table: sales (sale uuid, id int, d date, amount numeric)
Caught by: twice
Cause: random
"""

import os
import sys
import uuid

import psycopg

day = [sys.argv[1]]
with psycopg.connect(os.environ["SHOP"]) as db:
    rows = db.execute("SELECT id, d, amount FROM orders WHERE d = %s", day).fetchall()
    db.execute("DELETE FROM sales WHERE d = %s", day)
    for row in rows:
        db.execute("INSERT INTO sales VALUES (%s, %s, %s, %s)", (uuid.uuid4(), *row))
