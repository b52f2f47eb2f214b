"""An hourly job replaces the day, and so wipes the hours before.

Table: sales (id int, at timestamp, amount numeric)
Window: 2026-04-25T09
Neighbour: 2026-04-25T06
Caught by: neighbours
Cause: wiped-neighbours
"""

import os
import sys
from datetime import datetime

import psycopg

hour = datetime.strptime(sys.argv[1], "%Y-%m-%dT%H")
with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute("DELETE FROM sales WHERE at::date = %s", [hour.date()])
    db.execute(
        "INSERT INTO sales SELECT id, at AT TIME ZONE 'UTC', amount FROM orders "
        "WHERE date_trunc('hour', at AT TIME ZONE 'UTC') = %s",
        [hour],
    )
