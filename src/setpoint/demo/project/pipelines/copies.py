"""The same nightly copy as two setpoint pipelines: each run sets a day, none adds to it."""

from __future__ import annotations

from pyspark.sql import DataFrame

from setpoint import Overwrite, Window, delta, in_range, not_null, pipeline, source, unique


@pipeline(
    every="day",
    target=delta("warehouse/orders", partition_by="order_date"),
    write=Overwrite(),
    audits=[unique("order_id"), not_null("customer_id"), in_range("amount", 0, 1_000)],
)
def copy_orders(
    window: Window,
    orders: DataFrame = source(delta("lake/orders"), time="order_date"),
) -> DataFrame:
    """The orders of one day."""
    return orders


@pipeline(
    every="day",
    target=delta("warehouse/refunds", partition_by="order_date"),
    write=Overwrite(),
    audits=[unique("order_id")],
)
def copy_refunds(
    window: Window,
    refunds: DataFrame = source(delta("lake/refunds"), time="order_date"),
) -> DataFrame:
    """The refunds of one day."""
    return refunds
