"""Names that are joined in the order of a set: texts have another hash in every process.

Table: customers (d date PRIMARY KEY, names text)
Caught by: surroundings
Cause: hash_seed
"""

import os
import sys

import psycopg

day = sys.argv[1]
with psycopg.connect(os.environ["SHOP"]) as db:
    rows = db.execute("SELECT reference FROM orders WHERE reference IS NOT NULL AND d = %s", [day])
    names = {name for (name,) in rows.fetchall()}
    db.execute("DELETE FROM customers WHERE d = %s", [day])
    db.execute("INSERT INTO customers VALUES (%s, %s)", (day, ", ".join(names)))
