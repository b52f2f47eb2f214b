"""A set whose members are sorted before they are joined; seeded randomness per row.

Table: customers (d date PRIMARY KEY, names text, lucky int)
Passes: twice, surroundings
"""

import os
import random
import sys

import psycopg

day = sys.argv[1]
with psycopg.connect(os.environ["SHOP"]) as db:
    rows = db.execute("SELECT reference FROM orders WHERE reference IS NOT NULL AND d = %s", [day])
    names = sorted({name for (name,) in rows.fetchall()})
    lucky = random.Random(day).randrange(1_000_000)
    db.execute("DELETE FROM customers WHERE d = %s", [day])
    db.execute("INSERT INTO customers VALUES (%s, %s, %s)", (day, ", ".join(names), lucky))
