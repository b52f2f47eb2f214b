"""Correct pipelines that look like broken ones."""

import logging
import os
import random
import uuid
from datetime import datetime, timezone

from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint import Merge, Window, dedupe, delta, pipeline, previous, source, unique

ORDERS = source(delta("lake/orders"), time="d")
NAMES: dict[int, str] = {}


@F.udf(T.StringType())
def stable_key(number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"https://shop.example/orders/{number}"))


@F.udf(T.IntegerType())
def lot(number: int) -> int:
    return random.Random(number).randrange(1_000_000)


@pipeline(every="day", target=delta("out/logged", partition_by="d"), audits=[unique("d", "id")])
def logged(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """The clock, an approximate count and the user are logged, and not in the rows.

    Passes: writes, plan, twice, forced, failures, neighbours, order, chunk, parallelism
    """
    about = orders.agg(F.approx_count_distinct("customer")).first()[0]
    now, user = datetime.now(timezone.utc), os.environ.get("USER")
    logging.getLogger("shop").info("%s %s: about %s customers", now, user, about)
    return orders.select("id", "amount", "d")


@pipeline(every="day", target=delta("out/keyed", partition_by="d"), audits=[unique("d", "id")])
def keyed(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """uuid5 and a random number with a seed of the row, in Python functions.

    Passes: plan, twice, forced, parallelism, surroundings
    """
    return orders.select("id", "d", stable_key("id").alias("key"), lot("id").alias("lot"))


@pipeline(every="day", target=delta("out/by_hash", partition_by="d"), audits=[unique("d", "id")])
def by_hash(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """A sample by a hash of the key.

    Passes: plan, twice, forced, parallelism
    """
    return orders.where(F.pmod(F.xxhash64("id"), F.lit(100)) < 30).select("id", "d")


@pipeline(every="day", target=delta("out/placed", partition_by="d"), audits=[unique("d", "id")])
def placed(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """row_number() over an order that ends with a unique column.

    Passes: plan, twice, forced, parallelism
    """
    by_amount = Over.partitionBy("d", "customer").orderBy("amount", "id")
    return dedupe(orders, ["id"], ["at", "id"]).select(
        "id", "d", F.row_number().over(by_amount).alias("place")
    )


@pipeline(
    every="day", target=delta("out/listed", partition_by="d"), audits=[unique("d", "customer")]
)
def listed(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """What was collected is sorted.

    Passes: plan, forced, parallelism
    """
    ids = F.sort_array(F.collect_list("id"))
    return orders.groupBy("d", "customer").agg(ids.alias("ids"))


@pipeline(
    every="day", target=delta("out/exact", partition_by="d"), audits=[unique("d", "customer")]
)
def exact(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """Floating point numbers become decimals before the sum.

    Passes: plan, forced, parallelism
    """
    total = F.sum(F.col("price").cast("decimal(28, 4)"))
    return orders.groupBy("d", "customer").agg(total.alias("total"))


@pipeline(every="day", target=delta("out/dealt", partition_by="d"), audits=[unique("d", "id")])
def dealt(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """Rows that are dealt by chance to partitions, and stay the same rows.

    Passes: forced, parallelism
    """
    return orders.repartition(3).select("id", "d").coalesce(2)


@pipeline(every="day", target=delta("out/processed", partition_by="d"), audits=[unique("d", "id")])
def processed(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """processed_at is the end of the window, not the time of the run.

    Passes: plan, forced, neighbours, order, chunk
    """
    return orders.select("id", "d", F.lit(window.end).alias("processed_at"))


@pipeline(
    every="day", target=delta("out/balance", partition_by="d"), audits=[unique("d", "customer")]
)
def balance(
    window: Window,
    orders: DataFrame = ORDERS,
    before: DataFrame = previous("customer int, total long"),
) -> DataFrame:
    """A running balance goes on from the window before, which it names.

    Passes: plan, twice, forced, order
    """
    today = orders.groupBy("customer").agg(F.sum("amount").alias("total"))
    both = today.unionByName(before.select("customer", "total"))
    totals = both.groupBy("customer").agg(F.sum("total").alias("total"))
    return totals.withColumn("d", F.lit(window.date))


@pipeline(every="day", target=delta("out/empty", partition_by="d"), audits=[unique("d", "id")])
def empty(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """A window without rows is a window, too.

    Passes: plan, twice, forced, neighbours
    """
    return orders.where("amount > 1000").select("id", "d")


@pipeline(
    every="day",
    target=delta("out/merged"),
    write=Merge(key="customer", sequence_by="at"),
)
def merged(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """A merge whose batch holds many rows of a key: the newest wins, in whatever order.

    Passes: plan, twice, forced, lost-answer, parallelism
    """
    return orders.select("customer", "at", "amount", "id")


@pipeline(every="day", target=delta("out/cached", partition_by="d"), audits=[unique("d", "id")])
def cached(window: Window, orders: DataFrame = ORDERS) -> DataFrame:
    """A dictionary of the module remembers what is always the same.

    Passes: plan, forced, order
    """
    for number in range(5):
        NAMES.setdefault(number, f"customer {number}")
    names = F.create_map(*[F.lit(item) for pair in NAMES.items() for item in pair])
    return orders.select("id", "d", names[F.col("customer")].alias("name"))
