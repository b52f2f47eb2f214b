"""An upsert that adds to what is there counts the day twice.

Table: totals (customer text PRIMARY KEY, amount numeric)
Caught by: twice
Cause: added-up
"""

import os
import sys

import psycopg

with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute(
        "INSERT INTO totals SELECT customer, sum(amount) FROM orders WHERE d = %s "
        "GROUP BY customer ON CONFLICT (customer) DO UPDATE "
        "SET amount = totals.amount + excluded.amount",
        [sys.argv[1]],
    )
