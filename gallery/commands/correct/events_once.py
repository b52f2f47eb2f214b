"""ON CONFLICT DO NOTHING is right for events: they never change.

Table: events (id int PRIMARY KEY, d date, at timestamptz)
Passes: twice, killed, two-at-once, neighbours, order
"""

import os
import sys

import psycopg

with psycopg.connect(os.environ["SHOP"], autocommit=True) as db:
    events = db.execute("SELECT id, d, at FROM orders WHERE d = %s ORDER BY id", [sys.argv[1]])
    for event in events.fetchall():
        db.execute("INSERT INTO events VALUES (%s, %s, %s) ON CONFLICT (id) DO NOTHING", event)
