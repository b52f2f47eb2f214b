"""Iceberg under other writers: races, layouts that others chose, leftovers, odd names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from decimal import Decimal
from threading import Event, Thread
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from setpoint import InsertNew, Merge, PermanentError, RefusedError, iceberg
from setpoint.flow.faults import Faults
from setpoint.flow.run import plan_windows, run_window
from setpoint.project.wiring import Project
from setpoint.targets.iceberg import commit

DAY = date(2026, 4, 25)
ORDERS = iceberg("sales.orders", partition_by="d")
HOSTILE = 'order"; drop table x; --'


def in_between(monkeypatch: pytest.MonkeyPatch, intrude: Callable[[], object]) -> list[int]:
    """Let somebody else commit after our look and before our commit, once; counts the sends."""
    send, sent = commit.send, [0]

    def racing(run: Any, transaction: Any) -> None:
        sent[0] += 1
        if sent[0] == 1:
            intrude()
        send(run, transaction)

    monkeypatch.setattr(commit, "send", racing)
    return sent


@dataclass(frozen=True)
class Held(Faults):
    """Holds a run before its commit, and tells when it is there."""

    there: Event = field(default_factory=Event)
    go: Event = field(default_factory=Event)

    def reach(self, point: str, try_number: int = 1) -> None:
        if point == "audited":
            self.there.set()
            assert self.go.wait(120)


def beside(lab: Any, job: Any, window: str) -> tuple[Held, Callable[[], Any]]:
    """A run in a thread of its own that has staged its rows; it goes on when it is joined."""
    held, found = Held(), []
    bound, world = lab.bind(job), replace(lab.world(), faults=held)
    (plan,) = plan_windows(bound, lab.windows(job, window), world, parameters={})
    thread = Thread(target=lambda: found.append(run_window(bound, plan, world)))
    thread.start()

    def join() -> Any:
        thread.join()
        return found[0]

    return held, join


def keyed(lab: Any, rows: Any, write: Any) -> Any:
    return lab.job(rows, "id int, at int", target=iceberg("sales.orders"), write=write)


def test_another_window_commits_first(
    lab: Any, lake: Any, shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost race against another window costs one more commit, nothing else."""
    other = lab.job([(2, 2.0, date(2026, 4, 26))], target=ORDERS)
    sent = in_between(monkeypatch, lambda: lab.run(other, "2026-04-26"))
    lab.run(lab.job([(1, 1.0, DAY)], target=ORDERS))
    assert sent[0] == 3
    assert lake.rows() == lake.spark_rows() == [(1, 1.0, DAY), (2, 2.0, date(2026, 4, 26))]
    job = lab.job([(1, 1.0, DAY)], target=ORDERS)
    assert {lab.state(job, text).generation for text in ("2026-04-25", "2026-04-26")} == {1}


def test_the_same_window_commits_first(
    lab: Any, lake: Any, shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs of one window: the second sees the first, and the rows are there once."""
    job = lab.job([(1, 1.0, DAY)], target=ORDERS)
    in_between(monkeypatch, lambda: lab.run(job))
    outcome = lab.run(job)
    assert (outcome.state, lab.state(job).generation) == ("unchanged", 1)
    assert lake.rows() == [(1, 1.0, DAY)]


def test_foreign_rows_in_between(
    lab: Any, lake: Any, shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that somebody inserts into the slice right before our commit do not survive it."""
    held = shelf([(1, 1.0, DAY)])
    job = lab.job(held, target=ORDERS)
    lab.run(job)
    held.rows = [(2, 2.0, DAY)]
    foreign = "INSERT INTO lake.sales.orders VALUES (9, 9.0, DATE'2026-04-25')"
    in_between(monkeypatch, lambda: lake.spark.sql(foreign))
    lab.run(job, force=True)
    assert lake.rows() == [(2, 2.0, DAY)]


@pytest.mark.parametrize("exists", [False, True])
def test_two_merges_of_one_key(
    lab: Any, lake: Any, shelf: Any, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    """Two merges into an empty table never leave a key twice, whichever commits first."""
    write = Merge(key="id", sequence_by="at")
    if exists:
        lab.run(keyed(lab, [], write), "2026-04-24")
    newer = keyed(lab, [(1, 2), (2, 1)], write)
    in_between(monkeypatch, lambda: lab.run(newer, "2026-04-26"))
    lab.run(keyed(lab, [(1, 1), (3, 1)], write))
    assert lake.rows() == lake.spark_rows() == [(1, 2), (2, 1), (3, 1)]


def test_two_inserts_of_one_event(
    lab: Any, lake: Any, shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that two runs bring at once is stored once."""
    write = InsertNew(key="id")
    lab.run(keyed(lab, [(0, 0)], write), "2026-04-24")
    other = keyed(lab, [(1, 1), (2, 1)], write)
    in_between(monkeypatch, lambda: lab.run(other, "2026-04-26"))
    lab.run(keyed(lab, [(1, 1), (3, 1)], write))
    assert lake.rows() == [(0, 0), (1, 1), (2, 1), (3, 1)]


def test_windows_side_by_side(lab: Any, lake: Any) -> None:
    """Runs that stage at the same time all land, also when none of them finds a table."""
    jobs = {n: lab.job([(n, float(n), date(2026, 4, n))], target=ORDERS) for n in (25, 26, 27)}
    runs = [beside(lab, job, f"2026-04-{n}") for n, job in jobs.items()]
    assert all(held.there.wait(120) for held, _ in runs)
    for held, _ in runs:
        held.go.set()
    assert [join().state for _, join in runs] == ["published"] * 3
    assert [row[0] for row in lake.rows()] == [25, 26, 27]


def test_the_namespace_is_made_by_another_run_in_between(
    lab: Any, lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two first runs look for the namespace at once: the slower one finds it made."""
    looked: list[bool] = []

    def look(self: SqlCatalog, namespace: Any) -> bool:
        looked.append(found := real(self, namespace))
        if len(looked) == 1:
            self.create_namespace(namespace)
        return found

    real = SqlCatalog.namespace_exists
    monkeypatch.setattr(SqlCatalog, "namespace_exists", look)
    lab.run(lab.job([(1, 1.0, DAY)], target=ORDERS))
    assert looked[:3] == [False, False, True]
    assert [row[0] for row in lake.rows()] == [1]


def test_columns_change_while_rows_are_staged(lab: Any, lake: Any, shelf: Any) -> None:
    """A stage that was made for other columns is thrown away, and the run starts over."""
    given = shelf([(1, 1.0, DAY)])
    job = lab.job(given, target=ORDERS)
    lab.run(job)
    given.rows = [(2, 2.0, date(2026, 4, 26))]
    held, join = beside(lab, job, "2026-04-26")
    assert held.there.wait(120)
    lake.spark.sql("ALTER TABLE lake.sales.orders RENAME COLUMN amount TO total")
    lake.spark.sql("ALTER TABLE lake.sales.orders RENAME COLUMN total TO amount")
    held.go.set()
    assert join().state == "published"
    assert lake.spark_rows() == [(1, 1.0, DAY), (2, 2.0, date(2026, 4, 26))]


def test_partitions_that_others_chose(lab: Any, lake: Any, shelf: Any) -> None:
    """Buckets, truncations and a changed partitioning are written as the connector reads them."""
    lake.catalog.create_namespace_if_not_exists("sales")
    lake.spark.sql(
        "CREATE TABLE lake.sales.orders (id bigint, name string, at timestamp) USING iceberg "
        "PARTITIONED BY (bucket(4, id), truncate(2, name), days(at))"
    )

    def row(number: int, name: str | None) -> tuple[Any, ...]:
        return number, name, datetime(2026, 4, 25, number % 24, tzinfo=timezone.utc)

    held = shelf([row(1, "abc"), row(2, "abd"), row(3, None), row(4, "ü"), row(5, "")])
    job = lab.job(
        held, "id bigint, name string, at timestamp", target=iceberg("sales.orders", time="at")
    )
    lab.run(job)
    spark = lake.spark
    for number, name, _ in held.rows:
        one = spark.table("lake.sales.orders").where(f"id = {number}")
        assert [item["name"] for item in one.collect()] == [name]
    found = spark.table("lake.sales.orders").where("name = 'abd'").count()
    assert found == 1
    spark.sql("ALTER TABLE lake.sales.orders DROP PARTITION FIELD bucket(4, id)")
    spark.sql("ALTER TABLE lake.sales.orders ADD PARTITION FIELD name")
    held.rows = [row(7, "ab=c/%d"), row(8, None)]
    lab.run(job, force=True)
    odd = spark.table("lake.sales.orders").where("name IS NULL OR name = 'ab=c/%d'")
    assert [tuple(item)[:2] for item in odd.orderBy("id").collect()] == [(7, "ab=c/%d"), (8, None)]
    assert spark.table("lake.sales.orders").count() == 2


def test_partitions_by_plain_values(lab: Any, lake: Any, shelf: Any) -> None:
    """Timestamps, decimals, flags and numbers as partition values, nulls and signs included."""
    target = iceberg("sales.orders", partition_by=("at", "local", "price", "ok", "big"))
    schema = "id int, at timestamp, local timestamp_ntz, price decimal(9,2), ok boolean, big long"
    local = datetime(1969, 12, 31, 23, 59, 59, 1)  # noqa: DTZ001
    at = [datetime(2026, 4, 25, 10, 0, 0, n, tzinfo=timezone.utc) for n in (0, 7)]
    rows = [
        (1, at[0], local, Decimal("-0.10"), True, -(2**62)),
        (2, at[1], None, None, False, 0),
        (3, at[1], local, Decimal("7.00"), None, None),
    ]
    held = shelf(rows)
    job = lab.job(held, schema, every="hour", target=target)
    lab.run(job, "2026-04-25T10")
    wanted = [row[:1] + row[2:] for row in rows]
    spark = lake.spark.table("lake.sales.orders").drop("at").orderBy("id")
    assert [tuple(row) for row in spark.collect()] == wanted
    assert lake.rows() == rows
    only = lake.spark.table("lake.sales.orders").where("price = -0.10 AND ok AND big < 0")
    assert [row["id"] for row in only.collect()] == [1]
    held.rows = rows[1:]
    lab.run(job, "2026-04-25T10", force=True)
    assert lake.rows() == rows[1:]


def test_a_local_day_in_days_of_utc(lab: Any, lake: Any, shelf: Any) -> None:
    """A window in local time spans two partitions of UTC days and shares both with others."""
    target = iceberg("sales.orders", partition_by="at", partition_every="day")

    def moment(day: int, hour: int) -> datetime:
        return datetime(2026, 4, day, hour, tzinfo=timezone.utc)

    held = shelf([(1, moment(24, 22)), (2, moment(25, 21))])
    job = lab.job(held, "id int, at timestamp", target=target, timezone="Europe/Berlin")
    lab.run(job)
    first = lake.live()
    assert len(first) == 2
    held.rows = [(3, moment(25, 22)), (4, moment(26, 21))]
    lab.run(job, "2026-04-26")
    assert first < lake.live()
    held.rows = [(5, moment(25, 0))]
    lab.run(job, force=True)
    assert [row[0] for row in lake.spark_rows()] == [3, 4, 5]
    assert not lab.bind(job).target.connectors()


def test_many_small_manifests_are_merged(lab: Any, lake: Any, shelf: Any) -> None:
    """New windows do not grow the list of manifests without end, and all rows stay readable."""
    held = shelf([(1, 1.0, DAY)])
    job = lab.job(held, target=ORDERS)
    lab.run(job)
    lake.spark.sql(
        "ALTER TABLE lake.sales.orders SET TBLPROPERTIES ('commit.manifest.min-count-to-merge'='2')"
    )
    for n in (26, 27, 28):
        held.rows = [(n, 1.0, date(2026, 4, n))]
        lab.run(job, f"2026-04-{n}")
    table = lake.table()
    assert len(table.current_snapshot().manifests(table.io)) == 1
    held.rows = [(0, 0.0, date(2026, 4, 27))]
    lab.run(job, "2026-04-27", force=True)
    assert (
        [row[0] for row in lake.rows()] == [row[0] for row in lake.spark_rows()] == [0, 1, 26, 28]
    )


def test_leftovers(lab: Any, lake: Any, shelf: Any) -> None:
    """What a crash left is found and can be dropped; live files cannot."""
    held = shelf([(1, 1.0, DAY)])
    job = lab.job(held, target=ORDERS)
    lab.run(job)
    held.rows = [(2, 2.0, DAY)]
    bound, world = lab.bind(job), lab.world("staged:raise")
    (plan,) = plan_windows(bound, lab.windows(job, DAY.isoformat()), world, parameters={})
    target = bound.target
    frame = job.function(plan.run.window)
    target.stage(frame, plan.run, "killed", ())
    (leftover,) = target.leftovers()
    assert (leftover.pipeline, leftover.window) == ("job", "2026-04-25")
    target.drop_stage(leftover.location)
    assert not target.leftovers()
    receipt = lab.state(job).receipt
    with pytest.raises(PermanentError, match="live rows"):
        target.drop_stage(receipt.stage)
    assert lake.spark_rows() == [(1, 1.0, DAY)]


def test_odd_names(lab: Any, lake: Any, shelf: Any) -> None:
    """Names are names: quotes, semicolons, dots, blanks, reserved words and Unicode."""
    quoted = HOSTILE.replace("`", "``")
    target = iceberg(f"`select 1`.`{quoted}`", partition_by=f"{HOSTILE} d")
    schema = f"`{HOSTILE} d` date, `group` int, `a.b` int, `ключ``` string"
    held = shelf([(DAY, 1, 2, "x"), (DAY, 2, 3, "y")])
    lab.run(lab.job(held, schema, target=target))
    name = ("select 1", HOSTILE)
    assert lake.rows(name) == lake.spark_rows(f"lake.`select 1`.`{HOSTILE}`") == held.rows
    merged = iceberg("`select 1`.`an.other`", partition_by="ключ`")
    write = Merge(key=("a.b", "ключ`"), sequence_by="group", delete_when="`group` = 9")
    job = lab.job(held, schema, target=merged, write=write)
    lab.run(job)
    held.rows = [(DAY, 9, 2, "x"), (DAY, 5, 3, "y"), (DAY, 5, 3, "z")]
    lab.run(job, "2026-04-26")
    rows = lake.spark_rows("lake.`select 1`.`an.other`")
    assert rows == [(DAY, 5, 3, "y"), (DAY, 5, 3, "z")]


def test_looking_needs_no_spark(lab: Any, lake: Any) -> None:
    """Planning and an unchanged window import no PySpark."""
    (lab.root / "pipelines").mkdir()
    (lab.root / "setpoint.toml").write_text("")
    (lab.root / "pipelines" / "daily.py").write_text(
        "from setpoint import iceberg, pipeline\n"
        "@pipeline(every='day', target=iceberg('sales.orders', partition_by='d'))\n"
        "def daily(window):\n"
        "    from job import rows\n"
        "    return rows()\n"
    )
    script = (
        "import sys\nfrom setpoint.cli.main import main\n"
        "code = main(sys.argv[1:])\nassert 'pyspark' not in sys.modules, 'pyspark'\nsys.exit(code)"
    )

    def command(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    lab.run(lab.job([(1, 1.0, DAY)], target=ORDERS, name="daily"))
    assert "the code changed" in command("plan", "daily", "--window", "2026-04-25")
    assert "never published" in command("plan", "daily", "--window", "2026-04-26")
    assert "2026-04-25" in command("status", "daily")


def test_a_catalog_on_a_server(lab: Any, lake: Any, postgres_url: str, shelf: Any) -> None:
    """A catalog by configuration; windows that own their files need no connector at all."""
    section = {"type": "jdbc", "uri": postgres_url, "warehouse": "elsewhere"}
    config = replace(lab.project.config, catalogs={"pg": section})
    with Project(config) as project:
        lab.project = project
        held = shelf([(1, 1.0, DAY)])
        job = lab.job(held, target=iceberg("pg.sales.orders", partition_by="d"))
        assert lab.run(job).state == "published"
        assert lab.run(job).state == "unchanged"
        held.rows = [(2, 2.0, DAY)]
        assert lab.run(job, force=True).receipt.generation == 2
        assert lab.bind(job).target.uri == "iceberg:pg.sales.orders"
        assert not lab.bind(job).target.connectors()
    assert list((lab.root / "elsewhere" / "sales" / "orders" / "metadata").iterdir())


def test_a_table_of_format_version_1(lab: Any, lake: Any, shelf: Any) -> None:
    """Old tables work too; those of version 3 are refused."""
    lake.catalog.create_namespace_if_not_exists("sales")
    create = (
        "CREATE TABLE lake.sales.{} (id int, amount double, d date) USING iceberg PARTITIONED BY "
        "(d) TBLPROPERTIES ('format-version'='{}')"
    )
    lake.spark.sql(create.format("orders", 1))
    held = shelf([(1, 1.0, DAY)])
    job = lab.job(held, target=ORDERS)
    lab.run(job)
    held.rows = [(2, 2.0, DAY)]
    assert lab.run(job, force=True).receipt.generation == 2
    assert lab.run(job).state == "unchanged"
    assert lake.rows() == lake.spark_rows() == [(2, 2.0, DAY)]
    lake.spark.sql(create.format("newer", 3))
    with pytest.raises(RefusedError, match="format version 3"):
        lab.run(lab.job(held, target=iceberg("sales.newer", partition_by="d")))
