"""`setpoint.testing`: good pipelines pass, broken ones fail with the column in the message."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import sys
from decimal import Decimal
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Window as W
from pyspark.sql import functions as F

from setpoint import (
    Window,
    delta,
    http,
    land,
    not_null,
    parquet,
    pipeline,
    postgres,
    previous,
    source,
    testing,
    unique,
)
from setpoint.errors import RefusedError, UsageError
from setpoint.testing import Proof, SandboxProject, assert_idempotent, frame, rows, run

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"
DAY = "2026-04-25"
# A database that nobody can reach: what a test gives stands in for it.
ORDERS = source(postgres("shop.orders", connection="nowhere"), time="d")
SCHEMA = "id long, customer int, amount decimal(12,2), d date"
GIVEN = (
    [
        (1, 7, "1.50", DAY),
        (2, 7, "2.00", DAY),
        (3, 8, "2.00", DAY),
        (4, 8, "2.00", DAY),
        (5, 7, "9.00", "2026-04-24"),
        (6, 9, "4.00", "2026-04-26"),
    ],
    SCHEMA,
)
OUT = delta("/nowhere/out", partition_by="d")


@pytest.fixture
def project(project_dir: Path, spark: Any) -> Any:
    with SandboxProject.at(project_dir, spark=spark) as sandboxed:
        yield sandboxed


@pipeline(every="day", target=OUT, audits=[unique("d", "customer"), not_null("total")])
def totals(window: Window, orders: Any = ORDERS, least: int = 0) -> Any:
    kept = orders.where(F.col("amount") >= least)
    return kept.groupBy("d", "customer").agg(F.sum("amount").alias("total"))


def plugin() -> Any:
    """The options of a pytest inside this one, with the plugin, installed or not."""
    installed = {point.name for point in entry_points(group="pytest11")}
    asked = [] if "setpoint" in installed else ["-p", "setpoint.pytest_plugin"]
    off = ["-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:faulthandler"]
    return ["-q", "--color=no", "-c", os.devnull, "--import-mode=importlib", *asked, *off]


@pytest.mark.usefixtures("spark")
def test_the_example_of_the_docs_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A good pipeline passes, by the fixtures of the plugin."""
    folder = tmp_path / "orders"
    for part in ("pipelines", "tests"):
        shutil.copytree(EXAMPLE / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    # The others are tried on a pipeline in test_prove.py: here they are told apart by a unit test.
    monkeypatch.setattr(testing, "IN_TESTS", ("writes", "plan", "chunk"))
    proofs: list[Proof] = []
    proven = SandboxProject.prove
    monkeypatch.setattr(
        SandboxProject, "prove", lambda *a, **k: proofs.append(proven(*a, **k)) or proofs[-1]
    )
    code = pytest.main([*plugin(), "tests"])
    out = capfd.readouterr().out
    assert code == 0, out
    assert "3 passed" in out
    (proof,) = proofs
    states = {result.experiment: result.state for result in proof.results}
    assert states == dict.fromkeys(("writes", "plan", "chunk"), "passed")
    assert not [path for path in folder.rglob("*") if path.suffix == ".parquet"]


def test_the_page_shows_the_tests_of_the_example() -> None:
    """Letter for letter: what is run above is what people read."""
    page = (EXAMPLE.parents[1] / "docs" / "how-to" / "test-pipelines.md").read_text()
    assert (EXAMPLE / "tests" / "test_daily_customer_summary.py").read_text() in page


FAILING = """
import datetime as dt
from pyspark.sql import functions as F
from setpoint import delta, pipeline, source, unique

@pipeline(every="day", target=delta("out", partition_by="d"), audits=[unique("id")])
def stamped(window, orders=source(delta("lake/orders"), time="d")):
    return orders.withColumn("at", F.lit(dt.datetime.now(dt.timezone.utc)))

def test_it(setpoint_sandbox):
    given = ([(1, "2026-04-25")], "id long, d date")
    setpoint_sandbox.prove(stamped, "2026-04-25", inputs={"orders": given}, experiments=["forced"])
"""


@pytest.mark.usefixtures("spark")
def test_a_failure_shows_the_message_and_none_of_our_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The line of the test, then what differs, a row of both sides, the cause and the repair."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_failing.py").write_text(FAILING)
    assert pytest.main([*plugin(), "test_failing.py"]) == 1
    out = capfd.readouterr().out
    assert "E       AssertionError: stamped[2026-04-25] is not idempotent: 1 of 1" in out
    assert "forced: published again: `at` differs in 1 of 1 rows" in out
    assert "cause   `at` differs in 1 of 1 rows and holds the time of the run" in out
    assert "repair  `at`: use window.start" in out
    assert "- id=1  at=" in out
    assert "+ id=1  at=" in out
    assert "test_failing.py:12: AssertionError" in out
    assert "setpoint/testing.py" not in out


ALONE = """
def test_the_session_is_for_tests(setpoint_spark):
    assert setpoint_spark.range(3).count() == 3
    assert setpoint_spark.conf.get("spark.setpoint.scratch") == "true"
"""


def test_the_plugin_starts_a_session_of_its_own(tmp_path: Path) -> None:
    """In a process without Spark."""
    (tmp_path / "test_alone.py").write_text(ALONE)
    command = [sys.executable, "-m", "pytest", *plugin(), "test_alone.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    left = [path.name for path in tmp_path.iterdir() if not path.name.startswith("_")]
    assert left == ["test_alone.py"]


def test_a_parquet_target_is_in_a_metastore_that_is_thrown_away(
    project_dir: Path, spark: Any
) -> None:
    """Only where somebody says that it is one; nothing is left in it."""

    @pipeline(every="day", target=parquet(table="sales.out", partition_by="d"))
    def copied(window: Window, orders: Any = ORDERS) -> Any:
        return orders

    given = {"orders": ([(1, DAY), (2, "2026-04-24")], "id long, d date")}
    with pytest.raises(UsageError, match="SP-V05"):
        run(copied, DAY, inputs=given)
    before = {item.name for item in spark.catalog.listDatabases()}
    spark.conf.set("spark.setpoint.scratch", "true")
    try:
        with SandboxProject.at(project_dir) as project:
            for day in (DAY, "2026-04-24"):
                project.run(copied, day, inputs=given)
            assert [row[0] for row in project.rows(copied)] == [1, 2]
            assert {item.name for item in spark.catalog.listDatabases()} != before
    finally:
        spark.conf.unset("spark.setpoint.scratch")
    assert {item.name for item in spark.catalog.listDatabases()} == before


@pytest.mark.usefixtures("project_dir", "spark")
def test_ties_and_randomness_fail_with_their_columns() -> None:
    """What only other parallelism shows, and what the plan shows."""

    @pipeline(every="day", target=OUT, audits=[unique("id")], allow={"ties": "nobody minds"})
    def ranked(window: Window, orders: Any = ORDERS) -> Any:
        order = W.partitionBy("customer").orderBy("amount")
        return orders.withColumn("place", F.row_number().over(order))

    with pytest.raises(AssertionError, match=r"parallelism: .*`place` differs in 2 of 4 rows"):
        assert_idempotent(ranked, DAY, inputs={"orders": GIVEN}, experiments=["parallelism"])

    @pipeline(every="day", target=OUT, audits=[unique("id")])
    def drawn(window: Window, orders: Any = ORDERS) -> Any:
        return orders.withColumn("draw", F.rand())

    with pytest.raises(AssertionError, match=r"(?s)plan: a run is refused: random:draw.*repair"):
        assert_idempotent(drawn, DAY, inputs={"orders": GIVEN}, experiments=["plan"])
    with pytest.raises(RefusedError, match="random:draw"):
        run(drawn, DAY, inputs={"orders": GIVEN})


@pytest.mark.usefixtures("project_dir", "spark")
def test_what_shows_nothing_does_not_pass() -> None:
    """A window without rows, and an experiment that is named and cannot be tried."""
    with pytest.raises(AssertionError, match="holds no rows"):
        assert_idempotent(totals, "2026-04-20", inputs={"orders": GIVEN}, experiments=["plan"])
    assert_idempotent(
        totals, "2026-04-20", inputs={"orders": GIVEN}, experiments=["plan"], allow_empty=True
    )

    @pipeline(every="day", target=OUT)
    def local(window: Window, orders: Any = ORDERS) -> Any:
        return orders

    with pytest.raises(AssertionError, match=r"could be tried.*no other process can load it"):
        assert_idempotent(local, DAY, inputs={"orders": GIVEN}, experiments=["killed"])


def test_a_run_gives_what_a_reader_sees(project: SandboxProject, project_dir: Path) -> None:
    """Rows of other windows are not seen; windows and repeats come together in one table."""
    assert project.rows(totals) == []
    day, before = dt.date(2026, 4, 25), dt.date(2026, 4, 24)
    one = [(day, 7, Decimal("3.50")), (day, 8, Decimal("4.00"))]
    assert project.run(totals, DAY, inputs={"orders": GIVEN}) == one
    both = [(before, 7, Decimal("9.00")), *one]
    assert project.run(totals, "2026-04-24", inputs={"orders": GIVEN}) == both
    late = ([(9, 8, "1.00", DAY)], SCHEMA)
    changed = [(before, 7, Decimal("9.00")), (day, 8, Decimal("1.00"))]
    assert project.run(totals, DAY, inputs={"orders": late}) == changed
    assert project.rows(totals) == changed
    assert project.run(totals, DAY, inputs={"orders": GIVEN}, parameters={"least": 3}) == [
        (before, 7, Decimal("9.00"))
    ]
    assert not Path("/nowhere").exists()
    assert [item.name for item in project_dir.iterdir()] == [".setpoint"]


def test_windows_may_go_on_from_the_one_before(project: SandboxProject) -> None:
    """`previous` reads the table of the test; it cannot be given."""

    @pipeline(every="day", target=OUT)
    def balance(
        window: Window, orders: Any = ORDERS, before: Any = previous("customer int, total long")
    ) -> Any:
        today = orders.groupBy("customer").agg(F.count("*").alias("total"))
        both = today.unionByName(before.select("customer", "total"))
        summed = both.groupBy("customer").agg(F.sum("total").alias("total"))
        return summed.withColumn("d", window.date)

    project.run(balance, "2026-04-24", inputs={"orders": GIVEN})
    found = project.run(balance, DAY, inputs={"orders": GIVEN})
    assert [row[:2] for row in found] == [(7, 1), (7, 3), (8, 2)]
    with pytest.raises(UsageError, match=r"SP-V40.*window before as before"):
        project.run(balance, DAY, inputs={"before": GIVEN})


def test_inputs_that_are_asked_by_window(project: SandboxProject) -> None:
    """An API has no column to clip on: rows are those of the window, or a function gives them."""
    paid = source(land(http("https://nowhere.test/{date}", items="data", schema="id long, d date")))

    @pipeline(every="day", target=OUT)
    def payments(window: Window, made: Any = paid) -> Any:
        return made

    given = ([(1, DAY)], "id long, d date")
    assert project.run(payments, DAY, inputs={"made": given}) == [(1, dt.date(2026, 4, 25))]

    def asked(window: Window) -> Any:
        return [(window.day.day, window.day)], "id long, d date"

    proof = project.prove(payments, DAY, inputs={"made": asked}, experiments=["twice"])
    assert proof.rows == 1
    assert len(project.run(payments, "2026-04-24", inputs={"made": asked})) == 2


def test_frames_are_made_of_tuples_and_dicts(spark: Any) -> None:
    """Dates, times and decimals may be texts; what a dict leaves out is null; a misfit is told."""
    schema = "id long, at timestamp, amount decimal(5,2), tags map<string,int>"
    made = frame(
        spark,
        [(2, "2026-04-25T10:00:00Z", "1.50", {"a": 1}), {"id": 1, "at": "2026-04-25 12:00:00"}],
        schema,
    )
    assert made.schema.simpleString() == (
        "struct<id:bigint,at:timestamp,amount:decimal(5,2),tags:map<string,int>>"
    )
    found = made.selectExpr("id", "unix_seconds(at)", "amount", "tags['a']")
    noon = 1777118400
    assert rows(found) == [(1, noon, None, None), (2, noon - 7200, Decimal("1.50"), 1)]
    assert rows(frame(spark, [], "id long")) == []
    assert rows(frame(spark, [(2, "b"), (None, "a"), (1, None)], "n int, t string")) == [
        (None, "a"),
        (1, None),
        (2, "b"),
    ]
    for wrong in ([(1,)], [(1, 2.5, 1, {})], [{"idd": 1}], [3], [(1, "soon", None, None)]):
        with pytest.raises(UsageError, match="SP-V40"):
            frame(spark, wrong, schema)


@pytest.mark.usefixtures("project_dir", "spark")
def test_inputs_that_do_not_fit_are_refused() -> None:
    for inputs, told in (
        ({"ordres": GIVEN}, "it has: orders"),
        ({"orders": 3}, "is no frame"),
        ({"orders": [(1, 2)]}, "columns are not known"),
        ({"orders": ([], "id lnog")}, "cannot be read"),
    ):
        with pytest.raises(UsageError, match=rf"SP-V40.*{told}"):
            run(totals, DAY, inputs=inputs)
