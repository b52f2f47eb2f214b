"""An upsert by a reference that may be missing: a null is equal to nothing, so it comes again.

Table: sales (reference text UNIQUE, d date, amount numeric)
Caught by: twice
Cause: null-key
"""

import os
import sys

import psycopg

with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute(
        "INSERT INTO sales SELECT reference, d, amount FROM orders WHERE d = %s "
        "ON CONFLICT (reference) DO UPDATE SET d = excluded.d, amount = excluded.amount",
        [sys.argv[1]],
    )
