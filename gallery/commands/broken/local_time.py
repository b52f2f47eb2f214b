"""Moments in the time zone of the machine.

Table: sales (id int PRIMARY KEY, d date, at timestamp)
Caught by: surroundings
Cause: time_zone
"""

import os
import sys
from datetime import datetime

import psycopg

day = [sys.argv[1]]
with psycopg.connect(os.environ["SHOP"]) as db:
    rows = db.execute("SELECT id, d, extract(epoch FROM at) FROM orders WHERE d = %s", day)
    rows = rows.fetchall()
    db.execute("DELETE FROM sales WHERE d = %s", day)
    for id, d, seconds in rows:
        at = datetime.fromtimestamp(float(seconds))
        db.execute("INSERT INTO sales VALUES (%s, %s, %s)", (id, d, at))
