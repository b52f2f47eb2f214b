"""The determinism check on real plans, in classic Spark and through Connect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from determinism_corpus import CASES, Case, Tables

from setpoint.spark.determinism.check import findings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = (
    "order_id int, customer string, amount double, cents bigint, price decimal(10,2), "
    "placed timestamp, d date"
)


def tables_of(spark: Any, folder: str, functions: Any, window: Any, *, classic: bool) -> Tables:
    orders = spark.createDataFrame([], SCHEMA)
    orders.createOrReplaceTempView("orders")
    customers = spark.createDataFrame([], "customer string, name string")
    customers.createOrReplaceTempView("customers")
    spark.sql("select *, now() as stamp from orders").createOrReplaceTempView("stamped_orders")
    files = spark.read.schema("a int").parquet(folder)
    return Tables(spark, orders, customers, files, functions, window, classic)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("files")
    pq.write_table(pa.table({"a": pa.array([1], pa.int32())}), made / "one.parquet")
    return str(made)


@pytest.fixture(scope="module")
def classic(spark: SparkSession, folder: str) -> Tables:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    return tables_of(spark.newSession(), folder, F, Window, classic=True)


@pytest.fixture(scope="module")
def connect(spark: SparkSession, folder: str) -> Iterator[Tables]:
    """A session through a Connect server that runs in the JVM of the suite."""
    from pyspark.sql.connect import functions as F
    from pyspark.sql.connect.session import SparkSession as Remote
    from pyspark.sql.connect.window import Window

    jvm = spark._jvm
    assert jvm is not None
    environment = jvm.org.apache.spark.SparkEnv.get().conf()
    environment.set("spark.connect.grpc.binding.address", "127.0.0.1")
    environment.set("spark.connect.grpc.binding.port", "0")
    package = jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(package, "SparkConnectService$"), "MODULE$")
    service.start(spark._jsc.sc())
    remote = Remote(f"sc://127.0.0.1:{service.server().getPort()}")
    try:
        yield tables_of(remote, folder, F, Window, classic=False)
    finally:
        remote.client.close()
        service.server().shutdownNow()


def names(case: Case, tables: Tables) -> set[str]:
    return {finding.name for finding in findings(case.build(tables), case.keys)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_corpus_in_classic_spark(case: Case, classic: Tables) -> None:
    """Each plan has the findings that it should have, and no other."""
    assert names(case, classic) == case.expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_corpus_through_connect(case: Case, connect: Tables) -> None:
    """The same findings where the server tells its plans as text only."""
    assert names(case, connect) == case.expected
