"""The payments job as it was written on a Friday: python before.py

It works on the first run. README.md names its mistakes; after.py has none of them.
"""

import json
import os
import random
import time
import uuid
from datetime import datetime
from pathlib import Path

import httpx
import psycopg
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

API = os.environ["PAYMENTS_API"]
HERE = Path(__file__).parent
TABLE = str(HERE / "work" / "before" / "payments")
MARK = HERE / "work" / "before" / "last_run.json"


def fetch(since):
    """All payments since a moment."""
    payments, cursor = [], None
    while True:
        params = {"created[gte]": since, "limit": 100}
        if cursor:
            params["starting_after"] = cursor
        for _ in range(5):
            answer = httpx.get(
                f"{API}/v1/payments",
                params=params,
                headers={"Authorization": f"Bearer {os.environ['PAYMENTS_KEY']}"},
            )
            if answer.status_code == 200:
                break
            time.sleep(0.1)
        page = answer.json()
        payments += page["data"]
        if not page["has_more"]:
            return payments
        cursor = page["data"][-1]["id"]


def main():
    spark = SparkSession.builder.appName("payments").getOrCreate()
    since = 1776988800  # 24 April, when the job went live
    if MARK.exists():
        # One day earlier, to be safe.
        since = json.loads(MARK.read_text())["last"] - 24 * 3600

    payments = fetch(since)
    for payment in payments:
        payment["payment_key"] = str(uuid.uuid4())
    with psycopg.connect(os.environ["SHOP_URL"]) as shop:
        accounts = shop.execute("SELECT customer_id, country, tier FROM accounts").fetchall()

    batch = random.randint(1, 1_000_000)
    rows = (
        spark.createDataFrame(payments)
        .join(spark.createDataFrame(accounts, ["customer", "country", "tier"]), "customer", "left")
        .withColumn("amount", F.col("amount") / 100.0)
        .withColumn("payment_date", F.to_date(F.timestamp_seconds("created")))
        .withColumn("loaded_at", F.lit(datetime.now()))
        .withColumn("batch_id", F.lit(batch))
        .dropDuplicates(["id"])
    )
    rows.write.mode("append").partitionBy("payment_date").parquet(TABLE)

    httpx.post(f"{API}/hooks/chat", json={"text": f"payments loaded: {len(payments)}"})
    MARK.write_text(json.dumps({"last": max(payment["created"] for payment in payments)}))
    spark.stop()


if __name__ == "__main__":
    main()
