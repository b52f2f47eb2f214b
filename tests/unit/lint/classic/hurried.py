"""The exercise as it is usually given: six things that make a second run differ."""

import os
import random
import uuid
from datetime import datetime

import psycopg2
import requests

WEBHOOK = os.environ["CHAT_WEBHOOK"]


def last_loaded(conn):
    with conn.cursor() as cur:
        cur.execute("SELECT value FROM etl_watermarks WHERE name = 'orders'")
        return cur.fetchone()[0]


def load_orders(rows):
    conn = psycopg2.connect(os.environ["WAREHOUSE"])
    batch_id = random.randint(1, 1_000_000)
    with conn.cursor() as cur:
        for row in rows:
            cur.execute(
                """
                INSERT INTO orders (order_key, order_id, amount, order_date, batch_id)
                VALUES (%s, %s, %s, %s, %s)
                """,
                (
                    str(uuid.uuid4()),
                    row["order_id"],
                    row["amount"],
                    datetime.now(),
                    batch_id,
                ),
            )
    conn.commit()

    requests.post(WEBHOOK, json={"text": f"{len(rows)} orders loaded"})

    with conn.cursor() as cur:
        cur.execute(
            "UPDATE etl_watermarks SET value = %s WHERE name = 'orders'",
            (max(row["updated_at"] for row in rows),),
        )
    conn.commit()


def main(rows):
    load_orders(rows)
