"""The determinism check on real plans, in classic Spark and through Connect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from determinism_corpus import CASES, Case, Tables
from pyspark.errors import AnalysisException

from setpoint import Merge, RefusedError, UsageError, Window, dedupe, delta, publish
from setpoint.model.determinism import judged
from setpoint.spark.determinism.check import findings
from setpoint.spark.determinism.search import Search

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = (
    "order_id int, customer string, amount double, cents bigint, price decimal(10,2), "
    "placed timestamp, d date"
)
ITEMS = "customer string, item struct<price: double, pieces: int>, parts array<double>"


def tables_of(spark: Any, folder: str, functions: Any, window: Any, *, classic: bool) -> Tables:
    orders = spark.createDataFrame([], SCHEMA)
    orders.createOrReplaceTempView("orders")
    customers = spark.createDataFrame([], "customer string, name string")
    customers.createOrReplaceTempView("customers")
    spark.sql("select *, now() as stamp from orders").createOrReplaceTempView("stamped_orders")
    items = spark.createDataFrame([], ITEMS)
    files = spark.read.schema("a int").parquet(folder)
    return Tables(spark, orders, customers, items, files, functions, window, classic)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("files")
    pq.write_table(pa.table({"a": pa.array([1], pa.int32())}), made / "one.parquet")
    return str(made)


@pytest.fixture(scope="module")
def classic(spark: SparkSession, folder: str) -> Tables:
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    return tables_of(spark.newSession(), folder, F, W, classic=True)


@pytest.fixture(scope="session")
def connect(spark: SparkSession, folder: str) -> Iterator[Tables]:
    """A session through a Connect server that runs in the JVM of the suite.

    It is one for the whole session: once stopped, a JVM's server does not start again, and a
    worker may come back to these tests.
    """
    from pyspark.sql.connect import functions as F
    from pyspark.sql.connect.session import SparkSession as Remote
    from pyspark.sql.connect.window import Window as W

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
        yield tables_of(remote, folder, F, W, classic=False)
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


def test_explaining_leaves_the_session_as_it_was(connect: Tables) -> None:
    """The setting that makes Connect tell all columns is put back."""
    setting = "spark.sql.debug.maxToStringFields"
    before = connect.spark.conf.get(setting)
    findings(connect.orders, ())
    assert connect.spark.conf.get(setting) == before


def test_a_registered_function_has_no_source_through_connect(connect: Tables) -> None:
    """The server does not give it back, so nothing is known about it."""
    connect.spark.udf.register("twice", lambda value: value * 2, "int")
    (found,) = findings(connect.sql("select twice(order_id) x from orders"), ())
    assert found.name == "udf:x"


@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_a_failure_of_the_search_is_a_finding(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing passes unsearched, and no fault of ours is an end: it can be allowed."""
    tables: Tables = request.getfixturevalue(kind)

    def fail(search: Search, node: Any) -> Any:
        raise KeyError("an unknown node")

    monkeypatch.setattr(Search, "_mapped", fail)
    frame = tables.orders.mapInPandas(lambda batches: batches, tables.orders.schema)
    (found,) = findings(frame, ())
    assert found.name == "unchecked:(rows)"
    assert "KeyError: 'an unknown node'" in found.expression
    assert judged([found], {"unchecked": "reported"}).refused == ()


def test_a_frame_that_is_wrong_says_so_itself(connect: Tables) -> None:
    """A column that does not exist is the user's affair, not a failure of the search."""
    with pytest.raises(AnalysisException, match="nowhere"):
        findings(connect.orders.select("nowhere"), ())


def places(frame: Any, function: Any = None) -> list[str]:
    return [finding.place for finding in findings(frame, (), function)]


def test_spark_tells_the_line_of_sql(classic: Tables) -> None:
    """Line, position and text of the expression in the query."""
    (place,) = places(classic.sql("select order_id,\n  now() as n from orders"))
    assert place == "SQL line 2, position 3: now()"


def test_spark_tells_the_line_of_a_method(classic: Tables) -> None:
    """A function knows the line of the method that it is used in."""
    (place,) = places(classic.orders.where(classic.F.rand() < 0.5))
    assert place.startswith("test_determinism.py:")


def test_the_line_is_looked_for_in_the_pipeline_if_spark_does_not_tell(
    classic: Tables, connect: Tables
) -> None:
    """The one call of that name in the function is the place."""

    def job(t: Tables) -> Any:
        return t.orders.select(t.F.current_timestamp().alias("n"))

    line = f"test_determinism.py:{job.__code__.co_firstlineno + 1}"
    assert places(job(classic), job) == [line]
    assert places(job(connect), job) == [line]


def stamped(lab: Any) -> Any:
    spark = lab.spark

    def job(window: Window) -> Any:
        return spark.sql("select 1 as id, now() as loaded_at, date'2026-04-25' as d")

    return job


def test_a_finding_refuses_the_run_before_anything_is_staged(lab: Any) -> None:
    """Neither a table nor a stage exists afterwards, and the ledger has the refusal."""
    with pytest.raises(RefusedError) as caught:
        lab.run(lab.define(stamped(lab)))
    assert caught.value.code == "SP-N01"
    assert "clock:loaded_at  column loaded_at: now(), SQL line 1, position 17: now()" in str(
        caught.value
    )
    assert not (lab.root / "out").exists()
    (attempt,) = lab.project.ledger().attempts("job")
    assert (attempt.state, attempt.error_code) == ("refused", "SP-N01")


def test_an_allowed_finding_is_published_and_told(lab: Any) -> None:
    """The note has the name and the reason; an idle allowance is told too."""
    allow = {"clock:loaded_at": "an audit column", "random": "of last year"}
    plain, job = lab.define(stamped(lab)), lab.define(stamped(lab), allow=allow)
    assert lab.plan(job, "2026-04-25").run.key == lab.plan(plain, "2026-04-25").run.key
    outcome = lab.run(job)
    assert outcome.state == "published"
    assert outcome.notes == (
        "allowed: clock:loaded_at (now()): an audit column",
        "allow has 'random', but nothing of that kind was found",
    )


def test_the_plan_has_the_check_as_a_step(lab: Any) -> None:
    """Between read and stage, with what is allowed."""
    job = lab.define(stamped(lab), allow={"clock": "an audit column"})
    steps = lab.plan(job, "2026-04-25").steps
    assert [step.name for step in steps] == ["check", "stage", "audit", "publish", "record"]
    assert steps[0].describe().endswith("allowed: clock")


def test_the_columns_of_the_write_are_its_keys(lab: Any) -> None:
    """A floating point sum is refused in the key of a merge, and stored elsewhere."""
    spark = lab.spark

    def job(window: Window) -> Any:
        return spark.sql("select sum(cast(id as double)) as total, 1 as n from range(3)")

    write = Merge(key="total", sequence_by="n")
    with pytest.raises(RefusedError, match="float_key:total"):
        lab.run(lab.define(job, write=write, target=delta("out")))


def test_a_frame_that_is_handed_over_is_checked_too(spark: SparkSession, project_dir: Path) -> None:
    """publish() refuses it before anything is written, and takes allow."""
    frame = spark.sql("select uuid() as id, date'2026-04-25' as d")
    target = delta("out", partition_by="d")
    with pytest.raises(RefusedError, match="random:id"):
        publish(frame, target=target, window="2026-04-25")
    with pytest.raises(UsageError, match="no such kind"):
        publish(frame, target=target, window="2026-04-25", allow={"luck": "why not"})
    assert not (project_dir / "out").exists()


def test_dedupe_keeps_the_same_row_however_rows_lie(spark: SparkSession) -> None:
    """The greatest order_by wins, nulls come last, and the whole row decides a tie."""
    rows = ["(1,5,'a')", "(1,7,'b')", "(1,null,'c')", "(2,1,'x')", "(2,1,'y')", "(null,1,'n')"]
    kept = set()
    for order in (rows, rows[::-1]):
        frame = spark.sql(f"select * from values {', '.join(order)} as t(id, at, v)")
        kept.add(frozenset(tuple(row) for row in dedupe(frame, "id", "at").collect()))
    (only,) = kept
    assert {(1, 7, "b"), (None, 1, "n")} < only
    assert len(only) == 3


def test_dedupe_refuses_a_column_that_is_not_there(spark: SparkSession) -> None:
    """The message has the columns that there are."""
    frame = spark.range(1)
    with pytest.raises(UsageError, match="no column 'at'"):
        dedupe(frame, "id", "at")
    with pytest.raises(UsageError, match="without a column"):
        dedupe(frame, "id", [])
