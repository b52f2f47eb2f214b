"""The clock and a random id are in the log only, and in the name of a temporary table.

Table: sales (id int, d date, customer text, amount numeric)
Passes: twice, surroundings
"""

import logging
import os
import sys
import uuid
from datetime import datetime, timezone

import psycopg

began, run = datetime.now(timezone.utc), uuid.uuid4().hex
day = [sys.argv[1]]
with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute(
        f"CREATE TEMP TABLE load_{run} ON COMMIT DROP AS "
        "SELECT id, d, customer, amount FROM orders WHERE d = %s",
        day,
    )
    db.execute("DELETE FROM sales WHERE d = %s", day)
    db.execute(f"INSERT INTO sales SELECT * FROM load_{run}")
logging.warning("run %s took %s", run, datetime.now(timezone.utc) - began)
