"""Sources: what a run reads from a Delta table, without the connector."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from setpoint import delta, pipeline, source
from setpoint.targets.delta.target import DeltaTarget

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DAY = dt.date(2026, 4, 25)
NEXT = dt.date(2026, 4, 26)


def copy_of(lab: Any, place: str, **how: Any) -> Any:
    def job(window: Any, orders: Any = source(delta(place), **how)) -> Any:
        return orders.select("id", "d", "region")

    return pipeline(every="day", target=delta("out", partition_by="d"))(job)


def put(root: Path, place: str, rows: list[tuple[int, dt.date, str | None]]) -> None:
    columns = list(zip(*rows, strict=True))
    table = pa.table(
        {
            "id": pa.array(columns[0], pa.int32()),
            "d": pa.array(columns[1], pa.date32()),
            "region": pa.array(columns[2], pa.string()),
        }
    )
    write_deltalake(str(root / place), table, mode="append", partition_by=["d", "region"])


def test_a_window_of_many_partitions_needs_no_connector(lab: Any) -> None:
    """A day that is split into more partitions than anybody counts is still one plain scan."""
    rows = [(n, DAY, f"region {n % 90}") for n in range(180)]
    put(lab.root, "orders", [*rows, (999, NEXT, "region 1")])
    job = copy_of(lab, "orders", time="d")
    assert lab.bind(job).connectors() == frozenset()
    lab.run(job)
    assert lab.rows() == sorted(rows, key=repr)


def test_partition_values_are_values_and_not_patterns(lab: Any) -> None:
    """Blanks, slashes, brackets, percent signs, nulls: each row keeps its own region."""
    values = ["a b", "a/b", "100%", "a%2Fb", "ä€", "x=y", "[a]{b}*", "it's", None, "a+b"]
    rows = [(number, DAY, value) for number, value in enumerate(values)]
    put(lab.root, "orders", rows)
    lab.run(copy_of(lab, "orders", time="d"))
    assert lab.rows() == sorted(rows, key=repr)


def test_a_folder_of_any_name_tells_its_partitions(lab: Any) -> None:
    """Values that folder names tell are read from them, whatever the folder above is called."""
    rows = [(number, DAY, region) for number, region in enumerate(("north", "south", "west"))]
    put(lab.root, "in {a,b} x+y", rows)
    lab.run(copy_of(lab, "in {a,b} x+y", time="d"))
    assert lab.rows() == sorted(rows, key=repr)


def test_a_whole_source_is_read_by_every_window(lab: Any) -> None:
    """A lookup is not clipped; the result is still held to the window."""
    put(lab.root, "lookup", [(1, DAY, "a"), (2, NEXT, "b")])

    def job(window: Any, lookup: Any = source(delta("lookup"), whole=True)) -> Any:
        return lookup.where(lookup.d == window.date)

    both = pipeline(every="day", target=delta("out", partition_by="d"))(job)
    lab.run(both)
    lab.run(both, "2026-04-26")
    assert lab.rows() == [(1, DAY, "a"), (2, NEXT, "b")]


def test_a_feature_switched_on_after_the_commit_takes_no_live_file(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage is judged by how it was made, not by how the table would be written now."""
    tidy = DeltaTarget.tidy_stage

    def switch_on_first(self: DeltaTarget, staged: Any) -> None:
        table = DeltaTable(self.uri)
        table.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
        tidy(self, staged)

    monkeypatch.setattr(DeltaTarget, "tidy_stage", switch_on_first)
    lab.run(lab.job([(1, 1.0, DAY)]))
    assert lab.rows() == [(1, 1.0, DAY)]
