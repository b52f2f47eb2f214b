"""hash() of a text as a bucket: another one in every process.

Table: sales (id int PRIMARY KEY, d date, bucket int)
Caught by: surroundings
Cause: hash_seed
"""

import os
import sys

import psycopg

day = [sys.argv[1]]
with psycopg.connect(os.environ["SHOP"]) as db:
    rows = db.execute("SELECT id, d, sku FROM orders WHERE d = %s", day).fetchall()
    db.execute("DELETE FROM sales WHERE d = %s", day)
    for id, d, sku in rows:
        db.execute("INSERT INTO sales VALUES (%s, %s, %s)", (id, d, hash(sku) % 1000))
