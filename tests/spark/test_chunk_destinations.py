"""Chunks on every destination: one commit, and each window as if it had been run by itself."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from setpoint import Pipeline, Window, iceberg, parquet, postgres, sql, unique
from setpoint.flow.backfill import chunks_of
from setpoint.flow.chunk import run_chunk, why_alone
from setpoint.flow.recover import remains
from setpoint.flow.run import Ended, plan_windows, record_unchanged
from setpoint.flow.steps import How

SCHEMA = "id int, customer string, d date"
DAYS = "2026-04-01..2026-04-04"
_NUMBERS = itertools.count()


def day(number: int) -> dt.date:
    return dt.date(2026, 4, number)


ROWS = [(number * 10 + n, f"c{n}", day(number)) for number in (1, 2, 3, 4) for n in range(3)]


def filled(bound: Any, plans: Any, world: Any) -> Iterator[Ended]:
    """What a backfill does with plans."""
    unchanged = [plan for plan in plans if plan.is_unchanged]
    for plan, outcome in zip(unchanged, record_unchanged(bound, unchanged, world), strict=True):
        yield Ended.of(plan, outcome)
    for chunk in chunks_of(bound, [plan for plan in plans if not plan.is_unchanged]):
        yield from run_chunk(bound, chunk, world)


@dataclass
class Place:
    """A kind of destination: tables of it, their rows, and how often they were committed to."""

    lab: Any
    table: Callable[[str], Any]
    rows: Callable[[str], list[tuple[Any, ...]]]
    commits: Callable[[str], int]

    def job(self, name: str, rows: Any = ROWS, schema: str = SCHEMA, **rest: Any) -> Pipeline:
        """A pipeline that returns all these rows for a span, and its own for a window."""
        held = rows if isinstance(rows, self.lab.shelf) else self.lab.shelf(rows)

        def job(window: Window) -> DataFrame:
            frame = self.lab.frame(held.rows, schema)
            first, last = F.lit(window.start.date()), F.lit(window.end.date())
            return frame.where((F.to_date("d") >= first) & (F.to_date("d") < last))

        target = rest.pop("target", None) or self.table(name)
        return self.lab.define(job, name=name, target=target, spans=True, **rest)

    def fill(
        self, job: Pipeline, text: str = DAYS, fault: str = "", force: bool = False
    ) -> Mapping[str, Any]:
        bound, world = self.lab.bind(job), self.lab.world(fault)
        assert why_alone(bound) == ""
        plans = plan_windows(
            bound, self.lab.windows(job, text), world, parameters={}, how=How(force)
        )
        return {end.window.id: end for end in filled(bound, plans, world)}


@pytest.fixture(params=["iceberg", "postgres", "parquet"])
def place(lab: Any, request: pytest.FixtureRequest) -> Iterator[Place]:
    match request.param:
        case "iceberg":
            lake = request.getfixturevalue("lake")
            yield Place(
                lab,
                lambda name: iceberg(f"sales.{name}", partition_by="d"),
                lambda name: lake.rows(("sales", name)),
                lambda name: len(lake.table(("sales", name)).snapshots()),
            )
        case "postgres":
            lab, db = (request.getfixturevalue(name) for name in ("postgres_lab", "db"))
            yield Place(
                lab,
                lambda name: postgres(name, connection="test", time="d"),
                db.rows,
                lambda name: db.all(
                    "SELECT count(DISTINCT xid) FROM setpoint.receipts "
                    f"WHERE target = 'public.{name}'"
                )[0][0],
            )
        case _:
            base = f"chunks{next(_NUMBERS)}"
            lab.spark.sql(f"CREATE DATABASE {base}")
            yield Place(
                lab,
                lambda name: parquet(table=f"{base}.{name}", partition_by="d"),
                lambda name: sorted(
                    (
                        tuple(row)
                        for row in lab.spark.newSession().table(f"{base}.{name}").collect()
                    ),
                    key=repr,
                ),
                lambda name: len(run_folders(lab.spark, f"{base}.{name}")),
            )
            lab.spark.sql(f"DROP DATABASE {base} CASCADE")


def run_folders(spark: Any, table: str) -> set[str]:
    """The folders that hold a Parquet table's partitions: one for each swap that made them."""
    found = set()
    for (partition,) in spark.sql(f"SHOW PARTITIONS {table}").collect():
        name, _, value = partition.partition("=")
        told = spark.sql(f"DESCRIBE FORMATTED {table} PARTITION ({name}='{value}')").collect()
        found.add(next(row[1] for row in told if row[0] == "Location").rsplit("/", 1)[0])
    return found


def states(ended: Mapping[str, Any]) -> list[str]:
    return [end.outcome.state if end.outcome else end.error.code for end in ended.values()]


def test_a_chunk_ends_like_windows_one_by_one(place: Place) -> None:
    """One commit whose answer may be lost; rows, fingerprints and receipts as of single runs."""
    held, lab = place.lab.shelf(ROWS), place.lab
    job, alone = place.job("job", held), place.job("alone")
    assert states(place.fill(job, fault="committed@1:raise")) == ["unchanged"] * 4
    assert place.commits("job") == 1
    assert place.rows("job") == sorted(ROWS, key=repr)
    lab.run(alone, "2026-04-02")
    single, chunked = lab.state(alone, "2026-04-02"), lab.state(job, "2026-04-02")
    assert chunked.receipt.contents == single.receipt.contents
    assert (chunked.receipt.rows, chunked.generation, chunked.untouched) == (3, 1, True)

    assert lab.run(job, "2026-04-03", restate=True).only_receipt
    held.rows = [(7, "c7", day(2)), (8, "c8", day(4)), (9, "c9", day(1))]
    ended = place.fill(job, "2026-04-02..2026-04-03", force=True)
    assert [end.outcome.receipt.rows for end in ended.values()] == [1, 0]
    assert [end.outcome.receipt.generation for end in ended.values()] == [2, 3]
    kept = [row for row in ROWS if row[2] in (day(1), day(4))]
    assert place.rows("job") == sorted([*kept, (7, "c7", day(2))], key=repr)
    assert states(place.fill(job)) == ["unchanged"] * 4


def test_each_window_has_a_fate_of_its_own(place: Place) -> None:
    """A window that an audit refuses is left out; one that somebody else published stays so."""
    rows = [*ROWS, (99, "c1", day(2))]
    job = place.job("job", rows, audits=[unique("customer"), sql("id <> 99")])
    bound, world = place.lab.bind(job), place.lab.world()
    plans = plan_windows(bound, place.lab.windows(job, DAYS), world, parameters={})
    place.lab.run(job, "2026-04-04")
    ended = {end.window.id: end for end in filled(bound, plans, world)}
    assert states(ended) == ["published", "SP-A01", "published", "unchanged"]
    assert "unique(customer)" in ended["2026-04-02"].error.what
    assert ended["2026-04-01"].outcome.tries == 1
    assert place.lab.state(job, "2026-04-04").generation == 1
    for item in remains(bound, world, [], older_than=dt.timedelta(0)):
        item.drop(item.leftover.location)
    assert list(bound.target.leftovers()) == []
    assert place.rows("job") == sorted((row for row in ROWS if row[2] != day(2)), key=repr)


HOURS = "2026-04-01T00..2026-04-01T05"
TIMES = [
    (n, dt.datetime(2026, 4, 1, n // 4, n % 4 * 15, 30, 500_000, tzinfo=dt.timezone.utc))
    for n in range(24)
    if n // 4 != 2
]


@pytest.mark.parametrize("kind", ["iceberg", "postgres"])
def test_windows_of_times_in_a_table_that_is_not_divided_by_them(
    lab: Any, request: pytest.FixtureRequest, kind: str
) -> None:
    """Files of one window hold no rows of another, so the next publish rewrites none."""
    if kind == "iceberg":
        lake = request.getfixturevalue("lake")
        target, read = iceberg("sales.t", time="d"), lambda: len(lake.rows(("sales", "t")))
    else:
        lab, db = (request.getfixturevalue(name) for name in ("postgres_lab", "db"))
        target, read = postgres("t", connection="test", time="d"), lambda: len(db.rows("t"))
    place = Place(lab, lambda name: target, lambda name: [], lambda name: 0)
    held = lab.shelf(TIMES)

    def job(window: Window) -> DataFrame:
        frame = lab.frame(held.rows, "id int, d timestamp")
        return frame.where((F.col("d") >= window.start) & (F.col("d") < window.end))

    made = lab.define(job, name="t", target=target, spans=True, every="hour", audits=[unique("d")])
    ended = place.fill(made, HOURS)
    assert [end.outcome.receipt.rows for end in ended.values()] == [4, 4, 0, 4, 4, 4]
    assert lab.run(made, "2026-04-01T03", restate=True).only_receipt
    held.rows = TIMES[:10]
    assert lab.bind(made).target.connectors() == frozenset()
    assert states(place.fill(made, "2026-04-01T01..2026-04-01T03", force=True)) == ["published"] * 3
    assert read() == 4 + 4 + 2 + 8
    assert lab.state(made, "2026-04-01T05").untouched
    assert states(place.fill(made, HOURS)) == ["unchanged"] * 6


def test_a_column_that_rounds_into_the_next_window_is_refused(postgres_lab: Any, db: Any) -> None:
    """Both windows are in the chunk, so no condition over all of it would tell."""
    lab = postgres_lab
    db.all("CREATE TABLE t (id int, d timestamptz(0))")
    late = dt.datetime(2026, 4, 1, 1, 59, 59, 900_000, tzinfo=dt.timezone.utc)
    rows = [(1, late - dt.timedelta(hours=1, seconds=9)), (2, late)]
    target = postgres("t", connection="test", time="d")

    def job(window: Window) -> DataFrame:
        frame = lab.frame(rows, "id int, d timestamp")
        return frame.where((F.col("d") >= window.start) & (F.col("d") < window.end))

    place = Place(lab, lambda name: target, db.rows, lambda name: 0)
    made = lab.define(job, name="t", target=target, spans=True, every="hour")
    ended = place.fill(made, "2026-04-01T00..2026-04-01T02")
    assert states(ended) == ["published", "SP-O02", "published"]
    assert [row[0] for row in db.rows("t")] == [1]


def test_months_without_rows_have_receipts_beside_the_partitions(lab: Any) -> None:
    """A month is many partitions: without rows it has none that could hold its receipt."""
    base = f"chunks{next(_NUMBERS)}"
    lab.spark.sql(f"CREATE DATABASE {base}")
    target = parquet(table=f"{base}.t", partition_by="d")
    place = Place(lab, lambda name: target, lambda name: [], lambda name: 0)
    job = place.job("t", every="month")
    ended = place.fill(job, "2026-03..2026-06")
    assert states(ended) == ["published"] * 4
    assert len({end.outcome.receipt.stage for end in ended.values()}) == 1
    assert [lab.state(job, f"2026-0{n}").receipt.rows for n in (3, 4, 5, 6)] == [0, 12, 0, 0]
    assert states(place.fill(job, "2026-03..2026-06")) == ["unchanged"] * 4
    assert states(place.fill(job, "2026-03..2026-06", force=True)) == ["published"] * 4
    assert [lab.state(job, f"2026-0{n}").generation for n in (3, 4, 5, 6)] == [2, 2, 2, 2]
    lab.spark.sql(f"DROP DATABASE {base} CASCADE")
