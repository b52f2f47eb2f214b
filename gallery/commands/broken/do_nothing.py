"""ON CONFLICT DO NOTHING for a row that changes every day: whoever comes first stays.

Table: customers (customer text PRIMARY KEY, d date, status text)
Caught by: order
Cause: do-nothing
"""

import os
import sys

import psycopg

with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute(
        "INSERT INTO customers (customer, d, status) "
        "SELECT customer, d, 'spent ' || sum(amount) FROM orders WHERE d = %s "
        "GROUP BY customer, d ON CONFLICT (customer) DO NOTHING",
        [sys.argv[1]],
    )
