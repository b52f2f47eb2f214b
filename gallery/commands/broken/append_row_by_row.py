"""Every row is a commit of its own: a crash leaves the first ones, and the retry adds all of them.

Table: sales (id int, d date, customer text, amount numeric)
Caught by: killed
Cause: attempt-left-behind
"""

import os
import sys

import psycopg

with psycopg.connect(os.environ["SHOP"], autocommit=True) as db:
    read = db.execute("SELECT id, d, customer, amount FROM orders WHERE d = %s", [sys.argv[1]])
    for row in read.fetchall():
        db.execute("INSERT INTO sales VALUES (%s, %s, %s, %s)", row)
