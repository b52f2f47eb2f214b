"""now() as a column: the same rows are other rows after every run.

Table: sales (id int, d date, amount numeric, loaded_at timestamptz)
Caught by: twice
Cause: clock
"""

import os
import sys

import psycopg

day = [sys.argv[1]]
with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute("DELETE FROM sales WHERE d = %s", day)
    db.execute("INSERT INTO sales SELECT id, d, amount, now() FROM orders WHERE d = %s", day)
