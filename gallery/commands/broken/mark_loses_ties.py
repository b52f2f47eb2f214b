"""`>` with a mark of max(updated_at): after a crash, rows that share the last timestamp are lost.

Table: sales (id int PRIMARY KEY, updated_at timestamp, amount numeric)
Caught by: killed
Cause: mark-skips-rows
"""

import os

import psycopg

PAGE = 4
with psycopg.connect(os.environ["SHOP"], autocommit=True) as db:
    (mark,) = db.execute("SELECT coalesce(max(updated_at), '1900-01-01') FROM sales").fetchone()
    rows = db.execute(
        "SELECT id, updated_at, amount FROM orders WHERE updated_at > %s ORDER BY updated_at, id",
        [mark],
    ).fetchall()
    for first in range(0, len(rows), PAGE):
        with db.transaction(), db.cursor() as cursor:
            page = rows[first : first + PAGE]
            cursor.executemany("INSERT INTO sales VALUES (%s, %s, %s)", page)
