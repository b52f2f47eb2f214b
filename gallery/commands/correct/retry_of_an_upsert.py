"""Retries, whatever became of the commit: the write may be repeated.

Table: sales (id int PRIMARY KEY, d date, amount numeric)
Passes: twice, killed, two-at-once
"""

import os
import sys
import time

import psycopg

for attempt in range(3):
    try:
        with psycopg.connect(os.environ["SHOP"], connect_timeout=5) as db:
            db.execute(
                "INSERT INTO sales SELECT id, d, amount FROM orders WHERE d = %s ORDER BY id "
                "ON CONFLICT (id) DO UPDATE SET d = excluded.d, amount = excluded.amount",
                [sys.argv[1]],
            )
        break
    except psycopg.OperationalError:
        time.sleep(2**attempt)
