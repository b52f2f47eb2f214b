"""An upsert that leaves rows alone that did not change, nulls included.

Table: sales (id int PRIMARY KEY, d date, amount numeric, changed_on date)
Passes: twice, killed, two-at-once, neighbours, order
"""

import os
import sys

import psycopg

with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute(
        "INSERT INTO sales SELECT id, d, amount, d FROM orders WHERE d = %s ORDER BY id "
        "ON CONFLICT (id) DO UPDATE SET amount = excluded.amount, changed_on = excluded.changed_on "
        "WHERE sales.amount IS DISTINCT FROM excluded.amount",
        [sys.argv[1]],
    )
