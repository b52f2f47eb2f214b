"""Who ran it becomes data.

Table: sales (id int PRIMARY KEY, d date, loaded_by text)
Caught by: surroundings
Cause: environment
"""

import os
import sys

import psycopg

day = [sys.argv[1]]
by = os.environ.get("USER", "nobody")
with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute("DELETE FROM sales WHERE d = %s", day)
    db.execute("INSERT INTO sales SELECT id, d, %s FROM orders WHERE d = %s", [by, *day])
