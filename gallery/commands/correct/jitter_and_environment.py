"""Waiting by chance and reading the environment change when and where rows are written, not which.

Table: sales (id int, d date, customer text, amount numeric)
Passes: twice, surroundings
"""

import os
import random
import sys
import time

import psycopg

time.sleep(random.random() / 20)
patience = 5 if os.environ.get("USER") == "somebody-else" else 10
day = [sys.argv[1]]
with psycopg.connect(os.environ["SHOP"], connect_timeout=patience) as db:
    db.execute("DELETE FROM sales WHERE d = %s", day)
    db.execute("INSERT INTO sales SELECT id, d, customer, amount FROM orders WHERE d = %s", day)
