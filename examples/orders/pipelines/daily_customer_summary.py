"""The daily customer summary: orders of a day, with the region of each customer."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from setpoint import Overwrite, Window, delta, not_null, pipeline, source, unique


@pipeline(
    every="day",
    timezone="Europe/Berlin",
    target=delta("warehouse/daily_customer_summary", partition_by="summary_date"),
    write=Overwrite(),
    audits=[unique("summary_date", "customer_id"), not_null("total")],
    start="2026-04-20",
)
def daily_customer_summary(
    window: Window,
    orders: DataFrame = source(delta("lake/orders"), time="ordered_at", late="restate(3)"),
    customers: DataFrame = source(delta("lake/customers"), whole=True),
) -> DataFrame:
    """One row per customer and day."""
    totals = orders.groupBy("customer_id").agg(
        F.count("*").alias("order_count"), F.sum("amount").alias("total")
    )
    return totals.join(customers, "customer_id", "left").select(
        window.date.alias("summary_date"), "customer_id", "region", "order_count", "total"
    )
