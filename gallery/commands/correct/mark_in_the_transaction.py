"""A high-water mark that moves in the transaction of its rows.

Table: sales (id int, updated_at timestamp, amount numeric)
Table: marks (name text PRIMARY KEY, at timestamp, id int)
Before: INSERT INTO marks VALUES ('sales', '1900-01-01', 0)
Passes: twice, killed, two-at-once
"""

import os

import psycopg

with psycopg.connect(os.environ["SHOP"]) as db:
    mark = db.execute("SELECT at, id FROM marks WHERE name = 'sales' FOR UPDATE").fetchone()
    db.execute(
        "WITH fresh AS (SELECT id, updated_at, amount FROM orders WHERE (updated_at, id) > (%s, %s)"
        "), stored AS (INSERT INTO sales SELECT * FROM fresh) UPDATE marks SET (at, id) = "
        "(SELECT updated_at, id FROM fresh ORDER BY updated_at DESC, id DESC LIMIT 1) "
        "WHERE name = 'sales' AND EXISTS (SELECT 1 FROM fresh)",
        mark,
    )
