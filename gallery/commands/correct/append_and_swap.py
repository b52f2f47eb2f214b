"""Plain appends, one by one, into a fresh table that takes the place of the old one at the end.

Table: sales (id int, d date, customer text, amount numeric)
Passes: twice, killed
"""

import os

import psycopg

with psycopg.connect(os.environ["SHOP"], autocommit=True) as db:
    db.execute("DROP TABLE IF EXISTS sales_fresh")
    db.execute("CREATE TABLE sales_fresh (LIKE sales INCLUDING ALL)")
    for row in db.execute("SELECT id, d, customer, amount FROM orders").fetchall():
        db.execute("INSERT INTO sales_fresh VALUES (%s, %s, %s, %s)", row)
    with db.transaction():
        db.execute("DROP TABLE sales")
        db.execute("ALTER TABLE sales_fresh RENAME TO sales")
