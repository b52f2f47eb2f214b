"""Correct pipelines, small ones: with every guarantee in place they are proven."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from setpoint import Merge, Window, delta, pipeline, postgres, source, unique

ORDERS = source(delta("lake/orders"), time="d")
IN_ONE_FILE = source(delta("lake/unpartitioned"), time="d")


@pipeline(every="day", target=delta("out/daily", partition_by="d"), audits=[unique("d", "id")])
def daily(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """The rows of a day, as they are."""
    return orders.select("id", "amount", "d")


@pipeline(every="day", target=delta("out/stamped", partition_by="d"))
def stamped(window: Window, orders: DataFrame = IN_ONE_FILE) -> DataFrame:
    """The rows of a day, under the day that was asked for."""
    return orders.select("id", "amount").withColumn("d", F.lit(window.date))


@pipeline(every="day", target=delta("out/merged"), write=Merge(key="customer", sequence_by="hour"))
def merged(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """The last order of a customer; several share the hour."""
    hour = F.date_trunc("day", "at").alias("hour")
    return orders.select("customer", hour, "id")


@pipeline(every="incremental", target=delta("out/events"), write=Merge(key="id", sequence_by="at"))
def events(
    window: Window, orders: DataFrame = source(delta("lake/orders"), cursor="at")
) -> DataFrame:
    """All orders, read from the mark on; several share a moment."""
    return orders.select("id", "at", "amount")


@pipeline(every="day", target=postgres("public.stored", connection="shop", time="d"))
def stored(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """The rows of a day, in PostgreSQL."""
    return orders.select("id", "amount", "d")
