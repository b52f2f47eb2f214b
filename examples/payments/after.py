"""The payments job with setpoint: setpoint run payments --window 2026-04-25

The function is pure. What it reads is bounded by the window and kept; what it returns becomes
the window's slice in one commit, however often it runs.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from setpoint import (
    Window,
    by_cursor,
    delta,
    http,
    in_range,
    land,
    not_null,
    pipeline,
    postgres,
    source,
    surrogate_key,
    unique,
)

PAYMENTS = http(
    "http://127.0.0.1:8765/v1/payments",
    items="data",
    params={"created[gte]": "{start:unix}", "created[lt]": "{end:unix}", "limit": 100},
    headers={"Authorization": "Bearer env:PAYMENTS_KEY"},
    pages=by_cursor("starting_after", last="id", more="has_more"),
    schema="id string, created timestamp, customer string, amount long, amount_refunded long, "
    "currency string, status string",
)


@pipeline(
    every="day",
    target=delta("work/after/payments", partition_by="payment_date"),
    audits=[unique("payment_id"), not_null("customer_id"), in_range("net", 0, 1_000_000)],
    start="2026-04-24",
)
def payments(
    window: Window,
    charges: DataFrame = source(land(PAYMENTS), time="created"),
    accounts: DataFrame = source(land(postgres("accounts", connection="shop")), whole=True),
) -> DataFrame:
    """One row per payment, with the account as it was when the day was first loaded."""
    euros = [
        (F.col(name) / 100).cast("decimal(12,2)").alias(alias)
        for name, alias in (("amount", "amount"), ("amount_refunded", "refunded"))
    ]
    facts = charges.select(
        F.col("id").alias("payment_id"),
        F.col("customer").alias("customer_id"),
        *euros,
        "currency",
        "status",
        window.date.alias("payment_date"),
    )
    return (
        facts.join(accounts, "customer_id", "left")
        .withColumn("net", F.col("amount") - F.col("refunded"))
        .withColumn("payment_key", surrogate_key(facts, "payment_id"))
    )
