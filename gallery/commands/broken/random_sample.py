"""A sample that is drawn anew in every run.

Table: sample (id int, d date, customer text, amount numeric)
Caught by: twice
Cause: drawn-rows
"""

import os

import psycopg

with psycopg.connect(os.environ["SHOP"]) as db:
    db.execute("DELETE FROM sample")
    db.execute(
        "INSERT INTO sample SELECT id, d, customer, amount FROM orders ORDER BY random() LIMIT 5"
    )
