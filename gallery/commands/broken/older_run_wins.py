"""An upsert without a look at the date: a re-run of an older day puts the older rows back.

Table: last_orders (customer text PRIMARY KEY, d date, amount numeric)
Caught by: order
Cause: order
"""

import os
import sys

import psycopg

with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute(
        "INSERT INTO last_orders SELECT customer, d, sum(amount) FROM orders WHERE d = %s "
        "GROUP BY customer, d ON CONFLICT (customer) DO UPDATE "
        "SET d = excluded.d, amount = excluded.amount",
        [sys.argv[1]],
    )
