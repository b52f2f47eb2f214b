"""A UUID that is made of the business key is the same in every run.

Table: sales (sale uuid, id int, d date, amount numeric)
Passes: twice, neighbours, surroundings
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
        key = uuid.uuid5(uuid.NAMESPACE_URL, f"https://shop.example/orders/{row[0]}")
        db.execute("INSERT INTO sales VALUES (%s, %s, %s, %s)", (key, *row))
