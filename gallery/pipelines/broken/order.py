"""Order and parallelism: what is right by luck on one cluster is wrong on the next.

Each of them is allowed by name, as people do who want to get on with it.
"""

from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from setpoint import Window, delta, pipeline, source, unique

ORDERS = source(delta("lake/orders"), time="d")


@pipeline(
    every="day",
    target=delta("out/numbered", partition_by="d"),
    audits=[unique("d", "id")],
    allow={"generated_id": "ids need not be stable"},
)
def numbered(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """monotonically_increasing_id() numbers rows by where they lie.

    Caught by: parallelism
    Cause: generated_id
    """
    return orders.select("id", "d", F.monotonically_increasing_id().alias("number"))


@pipeline(
    every="day",
    target=delta("out/ranked", partition_by="d"),
    audits=[unique("d", "id")],
    allow={"ties": "amounts are nearly unique"},
)
def ranked(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """row_number() over an amount that many rows share.

    Caught by: parallelism
    Cause: ties
    """
    by_amount = Over.partitionBy("d", "customer").orderBy("amount")
    return orders.select("id", "d", F.row_number().over(by_amount).alias("place"))


@pipeline(
    every="day",
    target=delta("out/collected", partition_by="d"),
    audits=[unique("d", "customer")],
    allow={"unordered": "the order of a list does not matter"},
)
def collected(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """collect_list() has the order in which rows arrive.

    Caught by: parallelism
    Cause: unordered
    """
    return orders.groupBy("d", "customer").agg(F.collect_list("id").alias("ids"))


@pipeline(
    every="day",
    target=delta("out/firsts", partition_by="d"),
    audits=[unique("d", "customer")],
    allow={"unordered": "any of them will do"},
)
def firsts(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """first() of a group that has no order.

    Caught by: parallelism
    Cause: unordered
    """
    return orders.groupBy("d", "customer").agg(F.first("id").alias("some_order"))


@pipeline(
    every="day",
    target=delta("out/summed", partition_by="d"),
    audits=[unique("d", "customer")],
)
def summed(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """A sum of floating point numbers, small ones and large ones.

    Caught by: parallelism
    Cause: float
    """
    return orders.groupBy("d", "customer").agg(F.sum("price").alias("total"))


@pipeline(
    every="day",
    target=delta("out/limited", partition_by="d"),
    audits=[unique("d", "id")],
    allow={"pick": "ten rows for a look"},
)
def limited(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """limit() without an order.

    Caught by: parallelism
    Cause: pick
    """
    return orders.select("id", "d").limit(10)


@pipeline(
    every="day",
    target=delta("out/sampled", partition_by="d"),
    audits=[unique("d", "id")],
    allow={"sample": "it has a seed"},
)
def sampled(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """sample() with a seed draws by where rows lie.

    Caught by: parallelism
    Cause: sample
    """
    return orders.sample(fraction=0.5, seed=42).select("id", "d")


@pipeline(
    every="day",
    target=delta("out/deduplicated", partition_by="d"),
    audits=[unique("d", "customer")],
    allow={"pick": "duplicates are equal"},
)
def deduplicated(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """dropDuplicates() by a key whose rows differ.

    Caught by: parallelism
    Cause: pick
    """
    return orders.dropDuplicates(["d", "customer"]).select("d", "customer", "amount", "id")


@pipeline(
    every="day",
    target=delta("out/newest", partition_by="d"),
    audits=[unique("d", "customer")],
    allow={"ties": "two events never share a timestamp"},
)
def newest(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """Two events with one timestamp: max_by() takes either.

    Caught by: parallelism
    Cause: ties
    """
    hour = F.date_trunc("day", "at")
    return orders.groupBy("d", "customer").agg(F.max_by("id", hour).alias("last_order"))


@pipeline(
    every="day",
    target=delta("out/shuffled", partition_by="d"),
    audits=[unique("d", "id")],
    allow={"random": "it has a seed"},
)
def shuffled(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """rand() with a seed: the same numbers, for other rows.

    Caught by: parallelism
    Cause: random
    """
    return orders.select("id", "d", F.rand(7).alias("lot"))


@pipeline(
    every="day",
    target=delta("out/counted", partition_by="d"),
    audits=[unique("d", "id")],
    allow={"placement": "it is a technical column"},
)
def counted(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """The number of the partition becomes data.

    Caught by: parallelism
    Cause: placement
    """
    return orders.select("id", "d", F.spark_partition_id().alias("part"))
