"""A mark in a file, saved after the rows; but the load goes back a little, and it is an upsert.

Table: sales (id int PRIMARY KEY, updated_at timestamp, amount numeric)
State: mark.txt
Passes: twice, killed, two-at-once
"""

import os
from pathlib import Path

import psycopg

mark = Path("mark.txt")
last = mark.read_text() if mark.exists() else "-infinity"
with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute(
        "INSERT INTO sales SELECT id, updated_at, amount FROM orders "
        "WHERE updated_at >= %s::timestamp - interval '1 hour' ORDER BY id "
        "ON CONFLICT (id) DO UPDATE SET amount = excluded.amount, updated_at = excluded.updated_at",
        [last],
    )
    (newest,) = db.execute("SELECT max(updated_at) FROM sales").fetchone()
mark.write_text(str(newest))
