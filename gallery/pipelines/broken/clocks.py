"""Clocks, chance and state of the driver: what the plan of Spark cannot show."""

import itertools
import time
import uuid
from datetime import datetime, timezone

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint import Window, delta, pipeline, source, unique

ORDERS = source(delta("lake/orders"), time="d")
BATCHES = itertools.count(1)
WAITED: list[float] = []


def rate_from_the_bank() -> float:
    """Stands for a service that answers differently every time."""
    WAITED.append(time.perf_counter())
    return 1.08 + len(WAITED) / 1000


@F.udf(T.StringType())
def new_key(number: int) -> str:
    return str(uuid.uuid4())


@pipeline(
    every="day",
    target=delta("out/loaded_at", partition_by="d"),
    audits=[unique("d", "id")],
)
def loaded_at(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """The clock of the driver becomes a constant of the plan, which nobody can tell from others.

    Caught by: forced
    Cause: clock
    """
    now = datetime.now(timezone.utc)
    return orders.select("id", "d", F.lit(now).alias("loaded_at"))


@pipeline(
    every="day", target=delta("out/batch_number", partition_by="d"), audits=[unique("d", "id")]
)
def batch_number(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """A counter of the module goes on with every call.

    Caught by: forced
    Cause: serial
    """
    return orders.select("id", "d", F.lit(next(BATCHES)).alias("batch"))


@pipeline(every="day", target=delta("out/drawn_key", partition_by="d"), audits=[unique("d", "id")])
def drawn_key(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """uuid4 inside a Python function.

    Caught by: forced
    Cause: random
    """
    return orders.select("id", "d", new_key("id").alias("key"))


@pipeline(every="day", target=delta("out/exchanged", partition_by="d"), audits=[unique("d", "id")])
def exchanged(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """A look-up outside of the inputs: the rate is that of the moment of the run.

    Caught by: forced
    Cause: outside
    """
    return orders.select("id", "d", (F.col("amount") * rate_from_the_bank()).alias("in_dollars"))


@pipeline(every="day", target=delta("out/current", partition_by="d"))
def current(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """current_timestamp() in the plan: production refuses to run it.

    Caught by: plan
    Cause: clock
    """
    return orders.select("id", "d", F.current_timestamp().alias("loaded_at"))


@pipeline(
    every="day",
    target=delta("out/recent", partition_by="d"),
    allow={"clock": "we only look at new orders"},
)
def recent(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """An allowed clock decides which rows there are.

    Caught by: forced
    Cause: clock
    """
    seconds = F.unix_micros(F.current_timestamp())
    return orders.select("id", "d", (seconds - F.unix_micros("at")).alias("age"))


@pipeline(every="day", target=delta("out/second_table", partition_by="d"))
def second_table(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """The function writes a table of its own on the way.

    Caught by: writes
    Cause: writes
    """
    orders.write.mode("append").parquet("lake/copy")
    return orders.select("id", "d")
