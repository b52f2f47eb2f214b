"""_loaded_at in an upsert makes a change of every row that did not change.

Table: sales (id int PRIMARY KEY, d date, amount numeric, _loaded_at timestamptz)
Caught by: twice
Cause: clock
"""

import os
import sys
from datetime import datetime, timezone

import psycopg

with psycopg.connect(os.environ["SHOP"]) as db:
    rows = db.execute("SELECT id, d, amount FROM orders WHERE d = %s", [sys.argv[1]]).fetchall()
    for row in rows:
        db.execute(
            "INSERT INTO sales VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE "
            "SET amount = excluded.amount, _loaded_at = excluded._loaded_at",
            (*row, datetime.now(timezone.utc)),
        )
