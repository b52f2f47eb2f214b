"""Proofs: correct pipelines are proven on every destination, broken ones caught with the column."""

from __future__ import annotations

import datetime as dt
import hashlib
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.sql import Window as W
from pyspark.sql import functions as F

from setpoint import (
    Merge,
    Window,
    delta,
    iceberg,
    land,
    parquet,
    postgres,
    previous,
    rows,
    source,
    unique,
)
from setpoint.errors import PermanentError
from setpoint.model.proof import Proof
from setpoint.project.discover import pipeline_named
from setpoint.prove.pipeline import choose, prove_pipeline
from setpoint.prove.sandbox import open_sandbox
from setpoint.prove.trial import TARGET
from setpoint.prove.trials import parallelism

DAY = Window.parse("2026-04-25", "day")
ORDERS = source(delta("lake/orders"), time="d")
STATE = {"calls": 0}


@pytest.fixture
def shop(lab: Any) -> Any:
    """A project with a week of orders: 20 a day, of five customers, with ties in the amount."""
    days = [dt.date(2026, 4, number) for number in range(20, 28)]
    made = [
        {"id": day.day * 100 + number, "customer": number % 5, "amount": number % 3, "d": day}
        for day in days
        for number in range(20)
    ]
    schema = pa.schema(
        [("id", pa.int64()), ("customer", pa.int32()), ("amount", pa.int64()), ("d", pa.date32())]
    )
    table = pa.Table.from_pylist(made, schema=schema)
    write_deltalake(str(lab.root / "lake/orders"), table, partition_by=["d"])
    return lab


def proof_of(lab: Any, job: Any, *only: str, window: Window = DAY, **rest: Any) -> Proof:
    return prove_pipeline(
        lab.project.config, job, window, choose(only=only), scratch_metastore=True, **rest
    )


def tree(root: Path) -> dict[str, str]:
    """Every file below a folder with the hash of its bytes; folders too."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else ""
        for path in sorted(root.rglob("*"))
    }


def totals(window: Window, orders: Any = ORDERS) -> Any:
    return orders.groupBy("d", "customer").agg(F.sum("amount").alias("total"))


def failed(proof: Proof) -> dict[str, tuple[str, ...]]:
    """The experiments that failed, each with the columns that differ."""
    return {
        result.experiment: tuple(item.name for item in result.difference.columns)
        if result.difference
        else ()
        for result in proof.failures
    }


def test_a_correct_pipeline_is_proven_and_production_stays(shop: Any) -> None:
    """All experiments inside the process pass; no file of the project is another one."""
    job = shop.define(totals, audits=[unique("d", "customer")])
    shop.run(job)
    before = tree(shop.root)
    tried = ("writes", "plan", "twice", "failures", "lost-answer", "neighbours", "chunk")
    told: list[str] = []
    proof = proof_of(
        shop, job, *tried, "parallelism", done=lambda result: told.append(result.experiment)
    )
    assert proof.proven, failed(proof)
    assert proof.rows == 5
    assert proof.inputs["orders"]["version"] == 0
    assert tree(shop.root) == before
    assert sorted(told) == sorted((*tried, "parallelism"))
    assert {result.state for result in proof.results} == {"passed"}


@pytest.mark.usefixtures("lake")
def test_an_iceberg_target_is_proven_in_a_catalog_of_the_proof(shop: Any) -> None:
    """The table is made like production's, in a catalog that is gone afterwards."""
    job = shop.define(totals, target=iceberg("sales.totals", partition_by="d"))
    shop.run(job)
    before = tree(shop.root)
    proof = proof_of(shop, job, "twice", "failures")
    assert proof.proven, failed(proof)
    assert tree(shop.root) == before


def test_a_parquet_target_is_proven_in_a_database_of_the_proof(shop: Any) -> None:
    """The metastore knows no table of the proof afterwards."""
    target = parquet(table="proven_shop.totals", partition_by="d")
    shop.spark.sql("CREATE DATABASE IF NOT EXISTS proven_shop")
    databases = {item.name for item in shop.spark.catalog.listDatabases()}
    proof = proof_of(shop, shop.define(totals, target=target), "twice", "forced")
    assert proof.proven, failed(proof)
    assert {item.name for item in shop.spark.catalog.listDatabases()} == databases
    found = shop.spark.sql("SHOW TABLES IN proven_shop").collect()
    assert [row for row in found if not row.isTemporary] == []


def test_a_postgres_target_is_proven_on_a_server_of_the_proof(
    postgres_lab: Any, shop: Any, db: Any
) -> None:
    """Production's server keeps every row version, every table and every receipt."""
    job = shop.define(totals, target=postgres("out", connection="test", time="d"))
    shop.run(job)
    listed = "SELECT relname, relnamespace::regnamespace::text FROM pg_class ORDER BY 1, 2"
    before = db.versions(), db.rows(), db.all(listed), db.all("SELECT * FROM setpoint.receipts")
    proof = proof_of(shop, job, "twice", "forced")
    assert proof.proven, failed(proof)
    after = db.versions(), db.rows(), db.all(listed), db.all("SELECT * FROM setpoint.receipts")
    assert after == before


def test_what_changes_from_call_to_call_is_caught(shop: Any) -> None:
    """A clock on the driver, randomness in a UDF, a counter of the module: each by its column.

    The plan tells of the UDF alone: to it the other two are constants.
    """
    draw = F.udf(lambda amount: amount * random.random(), "double")

    def changing(window: Window, orders: Any = ORDERS) -> Any:
        STATE["calls"] += 1
        stamped = orders.withColumn("processed_at", F.lit(dt.datetime.now(dt.timezone.utc)))
        return stamped.withColumn("batch", F.lit(STATE["calls"])).withColumn(
            "drawn", draw("amount")
        )

    proof = proof_of(shop, shop.define(changing, audits=[unique("id")]), "plan", "forced")
    found = failed(proof)
    assert {name: sorted(columns) for name, columns in found.items()} == {
        "plan": [],
        "forced": ["batch", "drawn", "processed_at"],
    }
    plan, forced = proof.failures
    assert [finding.name for finding in plan.findings] == ["random:drawn"]
    for words in (
        "`processed_at`",
        "the time of the run",
        "`batch`",
        "counter",
        "`drawn`",
        "random",
    ):
        assert words in forced.cause


def test_what_depends_on_the_order_is_caught_although_it_is_allowed(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An allowance does not make rows the same; the cause is what the plan says."""
    some = {name: item for name, item in parallelism._TOGETHER.items() if item.descending}
    monkeypatch.setattr(parallelism, "_TOGETHER", some)  # each of them costs a run

    def ordered(window: Window, orders: Any = ORDERS) -> Any:
        order = W.partitionBy("customer").orderBy("amount")
        ranked = orders.withColumn("rank", F.row_number().over(order))
        listed = orders.groupBy("customer").agg(F.collect_list("id").alias("ids"))
        return ranked.join(listed, "customer")

    allow = {"ties": "nobody minds", "unordered": "nobody minds"}
    job = shop.define(ordered, audits=[unique("id")], allow=allow)
    proof = proof_of(shop, job, "plan", "parallelism")
    assert {name: set(found) for name, found in failed(proof).items()} == {
        "parallelism": {"rank", "ids"}
    }
    result = proof.failures[0]
    assert "inputs in another order" in result.detail["varied"]
    assert {finding.name for finding in result.findings} == {"ties:rank", "unordered:ids"}


def test_a_function_that_writes_is_stopped(shop: Any) -> None:
    """Named, stopped before it happens, and not proven; other ways to write have unit tests."""
    beside, before = shop.root / "beside", tree(shop.root)

    def by_spark(window: Window, orders: Any = ORDERS) -> Any:
        orders.write.parquet(str(beside))
        return orders

    proof = proof_of(shop, shop.define(by_spark), "writes", "twice")
    assert failed(proof) == {"writes": ()}
    assert "SP-V06" in proof.failures[0].message
    assert tree(shop.root) == before


def test_reads_past_the_sources_are_named_and_those_of_the_own_target_refused(shop: Any) -> None:
    """A run that is made again would find what the first one has published."""
    place = {"at": shop.root / "aside"}
    known = pa.table({"customer": pa.array(range(5), pa.int32())})

    def adding(window: Window, orders: Any = ORDERS) -> Any:
        read = orders.sparkSession.read.parquet(str(place["at"]))
        return orders.join(read, "customer").select("d", "customer", "amount")

    job = shop.define(adding)
    for folder in (place["at"], shop.root / job.target.path):
        folder.mkdir()
        pq.write_table(known, folder / "some.parquet")
    proof = proof_of(shop, job, "plan")
    assert proof.proven
    assert [note for note in proof.notes if f"{place['at']} is read past the sources" in note]
    place["at"] = shop.root / job.target.path
    proof = proof_of(shop, job, "plan")
    assert failed(proof) == {"plan": ()}
    assert "SP-V09" in proof.failures[0].message


def test_an_input_without_versions_is_asked_once(shop: Any) -> None:
    """What a function gives is kept for the whole proof; what production landed is read there."""
    asked: list[str] = []

    def fetch(window: Window) -> Any:
        asked.append(window.id)
        return [(len(asked), window.day)]

    def copied(window: Window, made: Any = source(rows(fetch, schema="n long, d date"))) -> Any:
        return made

    proof = proof_of(shop, shop.define(copied), "twice", "forced")
    assert proof.proven
    assert asked == [DAY.id]

    def landed(
        window: Window, made: Any = source(land(rows(fetch, schema="n long, d date")))
    ) -> Any:
        return made

    job = shop.define(landed)
    assert proof_of(shop, job, "forced").proven
    assert not (shop.root / "landing").exists()
    shop.run(job)
    before, times = tree(shop.root), len(asked)
    assert proof_of(shop, job, "forced", "neighbours").proven
    assert (tree(shop.root), len(asked)) == (before, times)


def test_a_sample_is_the_same_on_every_read(shop: Any) -> None:
    """By a column, what belongs together is taken together; by rows, about a share of them."""
    job = shop.define(lambda window, orders=ORDERS: orders, name="copied")
    found = []
    for _ in range(2):
        with open_sandbox(shop.project.config, job, [DAY], sample="customer=40%") as sandbox:
            trial = sandbox.trial("clean")
            trial.run(DAY)
            with trial.tables() as tables:
                found.append(sorted(tuple(row) for row in tables[TARGET].collect()))
    assert found[0] == found[1]
    taken = {row[1] for row in found[0]}
    assert 0 < len(taken) < 5
    assert len(found[0]) == 4 * len(taken)


def test_windows_that_go_on_from_the_one_before_are_proven(shop: Any) -> None:
    """A trial begins with the window before, in the sandbox; order is tried with repeats only."""

    def balance(
        window: Window,
        orders: Any = ORDERS,
        before: Any = previous("customer int, total long"),
    ) -> Any:
        today = orders.groupBy("customer").agg(F.sum("amount").alias("total"))
        both = today.select("customer", "total").unionByName(before)
        summed = both.groupBy("customer").agg(F.sum("total").alias("total"))
        return summed.withColumn("d", window.date)

    proof = proof_of(shop, shop.define(balance), "order", "chunk")
    assert proof.proven, failed(proof)
    states = {result.experiment: result.state for result in proof.results}
    assert states == {"order": "passed", "chunk": "skipped"}
    assert proof.notes == ()


def test_an_incremental_merge_with_a_quarantine_is_proven(shop: Any) -> None:
    """One window without bounds: what is about several windows is skipped, with its reason."""

    def latest(window: Window, orders: Any = source(delta("lake/orders"), cursor="id")) -> Any:
        return orders

    job = shop.define(
        latest,
        every="incremental",
        target=delta("latest"),
        write=Merge(key=("customer", "d"), sequence_by="id"),
    )
    window = Window.parse("incremental", "incremental")
    proof = proof_of(shop, job, "twice", "order", window=window)
    assert proof.proven, failed(proof)
    assert {r.experiment: r.state for r in proof.results}["order"] == "skipped"

    def keyed(window: Window, orders: Any = ORDERS) -> Any:
        return orders.withColumn("k", F.when(F.col("amount") > 0, F.col("id")))

    job = shop.define(
        keyed,
        target=delta("keyed"),
        write=Merge(key="k", sequence_by="id", null_keys="quarantine"),
    )
    proof = proof_of(shop, job, "forced", "neighbours")
    assert proof.proven, failed(proof)


def test_a_span_and_single_windows_agree(shop: Any) -> None:
    """A function that looks over the borders of its windows is caught by the chunk."""

    def numbered(window: Window, orders: Any = ORDERS) -> Any:
        return orders.withColumn("n", F.row_number().over(W.partitionBy("customer").orderBy("id")))

    job = shop.define(numbered, audits=[unique("id")], spans=True, start="2026-04-24")
    proof = proof_of(shop, job, "chunk")
    assert failed(proof) == {"chunk": ("n",)}


RUNNING = """
from setpoint import delta, pipeline, source

def running(parts):
    total = 0
    for part in parts:
        part["total"] = part["id"].cumsum() + total
        total = int(part["total"].iloc[-1])
        yield part

@pipeline(every="day", target=delta("out/running", partition_by="d"))
def totals(window, orders=source(delta("lake/orders"), time="d")):
    return orders.mapInPandas(running, "id long, customer int, amount long, d date, total long")
"""


def test_a_running_total_in_a_function_of_the_file_depends_on_the_order(shop: Any) -> None:
    """Workers get the function, although no worker can import the file that it is in."""
    file = shop.root / "running.py"
    file.write_text(RUNNING)
    job = pipeline_named(shop.project.config, f"{file}:totals")
    assert failed(proof_of(shop, job, "parallelism")) == {"parallelism": ("total",)}


def test_a_clean_run_that_fails_proves_nothing(shop: Any) -> None:
    """It is not the pipeline's verdict: the proof could not be tried."""

    def failing(window: Window, orders: Any = ORDERS) -> Any:
        return orders.where("no_such_column > 1")

    with pytest.raises(PermanentError, match="SP-V08"):
        proof_of(shop, shop.define(failing), "twice")
    assert not (shop.root / ".setpoint" / "prove").exists()


def test_inputs_that_were_not_complete(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window ends as its inputs say now; one that keeps its first receipt's rows is caught."""
    from setpoint.flow import plan

    job = shop.define(totals)
    proof = proof_of(shop, job, "late-rows")
    assert proof.proven, failed(proof)

    def events(window: Window, orders: Any = source(delta("lake/orders"), cursor="d")) -> Any:
        return orders.select("id", "d", "amount")

    target = delta("events")
    once = shop.define(
        events, every="incremental", target=target, write=Merge(key="id", sequence_by="d")
    )
    proof = proof_of(shop, once, "late-rows", window=Window.parse("incremental", "incremental"))
    assert proof.proven, failed(proof)

    monkeypatch.setattr(plan, "why", lambda run, state, late=(): None if state.receipt else "new")
    (result,) = proof_of(shop, job, "late-rows").results
    assert result.state == "failed"
