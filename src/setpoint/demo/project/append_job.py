"""A nightly copy as it is often written: read the day, append it to the warehouse in batches.

    python append_job.py 2026-04-25 refunds orders

Plain PySpark. POWER_CUT=orders:180000 ends this very process with SIGKILL as soon as that many
rows of that table have been appended; the demo uses it to stand in for the lost machine.
"""

from __future__ import annotations

import os
import signal
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

BATCH = 60_000


def copy(spark: SparkSession, table: str, day: str) -> None:
    """Append the rows of one day, batch by batch."""
    rows = spark.read.parquet(f"lake/{table}").where(F.col("order_date") == day)
    first, last = rows.agg(F.min("order_id"), F.max("order_id")).collect()[0]
    appended = 0
    for start in range(first, last + 1, BATCH):
        end = min(start + BATCH - 1, last)
        batch = rows.where(F.col("order_id").between(start, end)).coalesce(1)
        batch.write.mode("append").partitionBy("order_date").parquet(f"append/{table}")
        appended += end - start + 1
        if os.environ.get("POWER_CUT") == f"{table}:{appended}":
            os.kill(os.getpid(), signal.SIGKILL)


def main(day: str, tables: list[str]) -> None:
    """Copy one day of several tables, one after the other."""
    spark = SparkSession.builder.master("local[2]").appName("nightly copy").getOrCreate()
    for table in tables:
        copy(spark, table, day)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
