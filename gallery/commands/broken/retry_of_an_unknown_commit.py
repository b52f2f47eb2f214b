"""The commit lands, its answer is lost, and the retry does not ask whether it had landed.

Table: sales (id int, d date, customer text, amount numeric)
Caught by: killed
Cause: attempt-left-behind
"""

import os
import sys
import time

import psycopg

for attempt in range(3):
    try:
        with psycopg.connect(os.environ["SHOP"], connect_timeout=5) as db:
            db.execute(
                "INSERT INTO sales SELECT id, d, customer, amount FROM orders WHERE d = %s",
                [sys.argv[1]],
            )
        break
    except psycopg.OperationalError:
        time.sleep(2**attempt)
