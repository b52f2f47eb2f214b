"""The mark says that the day is done before its rows are there.

Table: sales (id int, d date, customer text, amount numeric)
State: mark.txt
Caught by: killed
Cause: split-state
"""

import os
import sys
from pathlib import Path

import psycopg

mark, day = Path("mark.txt"), sys.argv[1]
if not mark.exists() or mark.read_text() < day:
    mark.write_text(day)
    with psycopg.connect(os.environ["SHOP"]) as db:
        db.execute(
            "INSERT INTO sales SELECT id, d, customer, amount FROM orders WHERE d = %s", [day]
        )
