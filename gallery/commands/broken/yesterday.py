"""What is read depends on the day of the run: the last days, as the clock has them.

Table: visits (id int PRIMARY KEY, d date)
Caught by: surroundings
Cause: clock
"""

import os
from datetime import date, timedelta

import psycopg

since = date.today() - timedelta(days=2)
with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute("DELETE FROM visits")
    db.execute("INSERT INTO visits SELECT id, d FROM visited WHERE d >= %s", [since])
