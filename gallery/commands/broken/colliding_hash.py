"""f"{store}:{sku}" as the input of a hash: ("a:b", "c") and ("a", "b:c") are one key.

Table: sales (key text PRIMARY KEY, d date, store text, sku text, amount numeric)
Caught by: neighbours
Cause: shared-key
"""

import hashlib
import os
import sys

import psycopg

with psycopg.connect(os.environ["SHOP"]) as db:
    rows = db.execute("SELECT d, store, sku, amount FROM orders WHERE d = %s", [sys.argv[1]])
    for d, store, sku, amount in rows.fetchall():
        key = hashlib.sha256(f"{store}:{sku}".encode()).hexdigest()
        db.execute(
            "INSERT INTO sales VALUES (%s, %s, %s, %s, %s) ON CONFLICT (key) DO UPDATE "
            "SET d = excluded.d, store = excluded.store, sku = excluded.sku, "
            "amount = excluded.amount",
            (key, d, store, sku, amount),
        )
