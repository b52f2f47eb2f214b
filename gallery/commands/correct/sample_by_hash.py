"""A sample by a hash of the key draws the same rows every time.

Table: sales (id int, d date, customer text, amount numeric)
Passes: twice, surroundings
"""

import hashlib
import os
import sys

import psycopg

day = [sys.argv[1]]
with psycopg.connect(os.environ["SHOP"]) as db:
    rows = db.execute("SELECT id, d, customer, amount FROM orders WHERE d = %s", day).fetchall()
    db.execute("DELETE FROM sales WHERE d = %s", day)
    for row in rows:
        if hashlib.sha256(str(row[0]).encode()).digest()[0] < 128:
            db.execute("INSERT INTO sales VALUES (%s, %s, %s, %s)", row)
