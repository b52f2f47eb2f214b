"""What a process has around it: the environment, the hash seed, the time zone."""

import os
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint import Window, delta, pipeline, source, unique

ORDERS = source(delta("lake/orders"), time="d")


@F.udf(T.LongType())
def bucket(number: int) -> int:
    return hash(f"order {number}") % 100


@F.udf(T.StringType())
def local(seconds: int) -> str:
    return datetime.fromtimestamp(seconds).isoformat()


@pipeline(every="day", target=delta("out/by_user", partition_by="d"), audits=[unique("d", "id")])
def by_user(
    window: Window, orders: DataFrame = ORDERS, by: str = os.environ.get("USER", "nobody")
) -> DataFrame:
    """A parameter whose default is an environment variable.

    Caught by: surroundings
    Cause: environment
    """
    return orders.select("id", "d", F.lit(by).alias("loaded_by"))


@pipeline(every="day", target=delta("out/bucketed", partition_by="d"), audits=[unique("d", "id")])
def bucketed(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """hash() of a text inside a Python function.

    Caught by: surroundings
    Cause: hash_seed
    """
    return orders.select("id", "d", bucket("id").alias("bucket"))


@pipeline(every="day", target=delta("out/local_time", partition_by="d"), audits=[unique("d", "id")])
def local_time(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """The time zone of the machine inside a Python function.

    Caught by: surroundings
    Cause: time_zone
    """
    return orders.select("id", "d", local(F.unix_timestamp("at")).alias("at"))
