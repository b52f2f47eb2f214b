"""Staged files that vanish before the commit: nothing is published that cannot be read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from setpoint import (
    DeleteInsert,
    InsertNew,
    Merge,
    Overwrite,
    Pipeline,
    SetpointError,
    Window,
    delta,
    iceberg,
    parquet,
)
from setpoint.flow.chunk import run_chunk
from setpoint.flow.plan import Bound
from setpoint.flow.run import plan_windows, run_window

SCHEMA = "id int, version int, d date"
DAYS = "2026-04-24..2026-04-26"


class Cleaned:
    """A real target below which somebody removes staged files right before the commit."""

    def __init__(self, target: Any, clean: Callable[[], None]) -> None:
        self._target, self._clean = target, clean

    def __getattr__(self, name: str) -> Any:
        known = getattr(self._target, name)
        if name not in ("publish", "publish_chunk"):
            return known

        def cleaned(*given: Any) -> Any:
            self._clean()
            return known(*given)

        return cleaned


@dataclass(frozen=True)
class Place:
    """A destination: its table, its rows as readers see them, and where its files lie."""

    table: Callable[..., Any]
    rows: Callable[[], list[Any]]
    files: Callable[[], list[Path]]

    def staged(self, before: list[Path]) -> list[Path]:
        return [file for file in self.files() if file not in before]


@pytest.fixture(params=["delta", "iceberg", "parquet"])
def place(lab: Any, request: pytest.FixtureRequest) -> Iterator[Place]:
    def below(root: Path) -> Callable[[], list[Path]]:
        return lambda: sorted(root.rglob("*.parquet"))

    match request.param:
        case "iceberg":
            lake = request.getfixturevalue("lake")
            yield Place(
                lambda **how: iceberg("sales.orders", **how),
                lambda: lake.rows() if lake.catalog.table_exists(("sales", "orders")) else [],
                below(lab.root / "warehouse"),
            )
        case "parquet":
            lab.spark.sql("CREATE DATABASE lost_stage")
            root = Path(lab.spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))
            yield Place(
                lambda **how: parquet(table="lost_stage.orders", **how),
                lambda: (
                    sorted(map(tuple, lab.spark.newSession().table("lost_stage.orders").collect()))
                    if lab.spark.catalog.tableExists("lost_stage.orders")
                    else []
                ),
                below(root / "lost_stage.db"),
            )
            lab.spark.sql("DROP DATABASE lost_stage CASCADE")
        case _:
            yield Place(
                lambda **how: delta("out", **how),
                lambda: lab.rows() if (lab.root / "out" / "_delta_log").exists() else [],
                below(lab.root / "out"),
            )


def remove_some(files: list[Path]) -> None:
    files[0].unlink()


def remove_all(files: list[Path]) -> None:
    for file in files:
        file.unlink()


def shorten(files: list[Path]) -> None:
    files[0].write_bytes(files[0].read_bytes()[:-1])


def refused(bound: Bound, plans: Any, world: Any, clean: Callable[[], None]) -> SetpointError:
    target = Cleaned(bound.target, clean)
    behind = replace(bound, target=target, again=lambda: replace(bound.afresh(), target=target))
    if len(plans) == 1:
        with pytest.raises(SetpointError) as caught:
            run_window(behind, plans[0], world)
        return caught.value
    errors = [end.error for end in run_chunk(behind, plans, world)]
    assert all(isinstance(error, SetpointError) for error in errors)
    return errors[0]


def of_day(lab: Any, target: Any, write: Any, version: int, count: int) -> Pipeline:
    """A pipeline that gives each window some rows, in a file each."""

    def job(window: Window) -> DataFrame:
        date = dt.date.fromisoformat(window.id)
        return lab.frame([(id, version, date) for id in range(count)], SCHEMA).repartition(4, "id")

    return lab.define(job, target=target, write=write)


@pytest.mark.parametrize(
    ("days", "damage"),
    [("2026-04-25", remove_all), ("2026-04-25", shorten), (DAYS, remove_some)],
)
def test_an_overwrite_whose_stage_is_gone_changes_nothing(
    lab: Any, place: Place, days: str, damage: Any
) -> None:
    """For one window and for several in one commit: an error, and the old rows."""
    target = place.table(partition_by="d")
    world, before = lab.world(), of_day(lab, target, Overwrite(), 1, 2)
    windows = lab.windows(before, days)
    for window in windows:
        lab.run(before, window.id)
    rows, live = place.rows(), place.files()
    made = of_day(lab, target, Overwrite(), 2, 99)
    bound = lab.bind(made)
    plans = plan_windows(bound, windows, world, parameters={})
    error = refused(bound, plans, world, lambda: damage(place.staged(live)))
    assert error.code == "SP-P04"
    assert place.rows() == rows
    assert lab.run(made).receipt.rows == 99


@pytest.mark.parametrize(
    ("write", "how"),
    [
        (Merge(key="id", sequence_by="version"), {}),
        (Merge(key="id", sequence_by="version", delete_when="id > 4"), {}),
        (InsertNew(key=("id", "version")), {}),
        (DeleteInsert(where="version < 3"), {"time": "d"}),
    ],
)
def test_a_batch_of_which_a_part_is_gone_is_not_merged(
    lab: Any, place: Place, write: Any, how: Any
) -> None:
    """What is left of it would be taken for all of it."""
    target = place.table(**how)
    lab.run(of_day(lab, target, write, 1, 2))
    rows, live = place.rows(), place.files()
    made = of_day(lab, target, write, 2, 99)
    bound, world = lab.bind(made), lab.world()
    plans = plan_windows(bound, lab.windows(made, "2026-04-25"), world, parameters={})
    error = refused(bound, plans, world, lambda: remove_some(place.staged(live)))
    assert error.code == "SP-P04"
    assert place.rows() == rows
