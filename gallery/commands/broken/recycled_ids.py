"""The vendor gives ids out again: today's orders take the place of yesterday's.

Table: sales (vendor_id int PRIMARY KEY, d date, amount numeric)
Caught by: neighbours
Cause: wiped-neighbours
"""

import os
import sys

import psycopg

with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute(
        "INSERT INTO sales SELECT vendor_id, d, amount FROM orders WHERE d = %s "
        "ON CONFLICT (vendor_id) DO UPDATE SET d = excluded.d, amount = excluded.amount",
        [sys.argv[1]],
    )
