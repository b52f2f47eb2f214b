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
from setpoint.flow.backfill import backfill
from setpoint.flow.chunk import why_alone
from setpoint.flow.run import plan_windows
from setpoint.flow.steps import How

SCHEMA = "id int, customer string, d date"
DAYS = "2026-04-01..2026-04-04"
_NUMBERS = itertools.count()


def day(number: int) -> dt.date:
    return dt.date(2026, 4, number)


ROWS = [(number * 10 + n, f"c{n}", day(number)) for number in (1, 2, 3, 4) for n in range(3)]


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
        return {end.plan.run.window.id: end for end in backfill(bound, plans, world)}


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
                lambda name: 1,
            )
            lab.spark.sql(f"DROP DATABASE {base} CASCADE")


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

    assert lab.run(job, "2026-04-03", force=True).only_receipt
    held.rows = [(7, "c7", day(2)), (8, "c8", day(4)), (9, "c9", day(1))]
    ended = place.fill(job, "2026-04-02..2026-04-03", force=True)
    assert [end.outcome.receipt.rows for end in ended.values()] == [1, 0]
    assert [end.outcome.receipt.generation for end in ended.values()] == [2, 3]
    kept = [row for row in ROWS if row[2] in (day(1), day(4))]
    assert place.rows("job") == sorted([*kept, (7, "c7", day(2))], key=repr)
    assert states(place.fill(job)) == ["unchanged"] * 4


def test_each_window_has_a_fate_of_its_own(place: Place) -> None:
    """A window that an audit refuses is left out; one that somebody else published stays so."""
    rows = [*ROWS, (99, "c1", day(3))]
    job = place.job("job", rows, audits=[unique("customer"), sql("id <> 99")])
    bound, world = place.lab.bind(job), place.lab.world()
    plans = plan_windows(bound, place.lab.windows(job, DAYS), world, parameters={})
    place.lab.run(job, "2026-04-01")
    ended = {end.plan.run.window.id: end for end in backfill(bound, plans, world)}
    assert states(ended) == ["unchanged", "published", "SP-A01", "published"]
    assert "unique(customer)" in ended["2026-04-03"].error.what
    assert place.lab.state(job, "2026-04-01").generation == 1
    assert place.rows("job") == sorted((row for row in ROWS if row[2] != day(3)), key=repr)
