"""A definition that was changed, and perhaps changed back: no window keeps rows that are not there.

The rule: a window is unchanged only if the target itself shows that nothing since its publish could
have changed its slice, whoever wrote it and by whatever definition.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_contract import DAY, KINDS, NEXT, Cell, _cell, _sorted, row

from setpoint import (
    DeleteInsert,
    InsertNew,
    Merge,
    Overwrite,
    Replace,
    delta,
    iceberg,
    not_null,
    source,
)

FIRST, SECOND = "2026-04-25", "2026-04-26"
ONE, TWO = [row(1), row(2)], [row(3, day=NEXT), row(4, day=NEXT)]
BOTH = _sorted(ONE + TWO)
MERGE = Merge(key="id", sequence_by="seq")
ELSEWHERE = DeleteInsert(where="id > 0")


@pytest.fixture(params=KINDS)
def sliced(lab: Any, request: pytest.FixtureRequest) -> Any:
    yield from _cell(lab, request, "overwrite", request.param)


@pytest.fixture(params=KINDS)
def whole(lab: Any, request: pytest.FixtureRequest) -> Any:
    yield from _cell(lab, request, "merge", request.param)


def by_day(cell: Cell, write: Any, **rest: Any) -> Any:
    """A job that returns the rows of the window's own day."""
    lab = cell.lab

    def job(window: Any) -> Any:
        rows = ONE if window.id == FIRST else TWO
        return lab.frame(rows, "id int, status string, seq long, d date")

    return lab.define(job, target=rest.pop("target", cell.target), write=write, **rest)


@pytest.mark.parametrize("mistake", [Replace(), MERGE, ELSEWHERE], ids=lambda item: item.name)
def test_a_slice_that_another_pattern_wiped_is_published_again(sliced: Cell, mistake: Any) -> None:
    """Overwrite, then something else for one window, then Overwrite again: both days are there."""
    right, lab = by_day(sliced, Overwrite()), sliced.lab
    lab.run(right, FIRST)
    lab.run(right, SECOND)
    target = sliced.target
    if isinstance(mistake, DeleteInsert) and sliced.kind != "parquet":  # refused there (SP-T02)
        target = replace(target, partition_by=(), time=None)
    lab.run(by_day(sliced, mistake, target=target), SECOND)
    lab.run(right, FIRST)
    lab.run(right, SECOND)
    assert sliced.read() == BOTH
    assert [lab.run(right, day).state for day in (FIRST, SECOND)] == ["unchanged", "unchanged"]


@pytest.mark.parametrize("write", [MERGE, InsertNew(key="id")], ids=lambda item: item.name)
def test_keys_that_a_replace_wiped_are_merged_again(whole: Cell, write: Any) -> None:
    """Merge, Replace for one window, Merge again, often: the keys of both windows are there."""
    right, lab = by_day(whole, write), whole.lab
    lab.run(right, FIRST)
    lab.run(right, SECOND)
    lab.run(by_day(whole, Replace()), SECOND)
    for _ in range(4):  # so often that no receipt of the replace is among the latest few
        lab.run(right, SECOND, force=True)
    lab.run(right, FIRST)
    assert whole.read() == BOTH
    assert [lab.run(right, day).state for day in (FIRST, SECOND)] == ["unchanged", "unchanged"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_incremental_pipeline_reads_all_again_after_a_replace(
    lab: Any, request: pytest.FixtureRequest, kind: str
) -> None:
    """The mark of before says nothing about a table that was replaced meanwhile."""
    (cell,) = list(_kept_cell(lab, request, kind))
    lab = cell.lab
    lab.run(
        lab.job(
            ONE + TWO,
            "id int, status string, seq long, d date",
            target=delta("lake"),
            write=Replace(),
            name="lake",
        )
    )

    def job(window: Any, lake: Any = source(delta("lake"), cursor="seq")) -> Any:
        return lake

    right = lab.define(job, every="incremental", target=cell.target, write=MERGE)
    lab.run(right, "incremental")
    assert cell.read() == BOTH
    lab.run(by_day(cell, Replace()), SECOND)
    assert cell.read() == _sorted(TWO)
    lab.run(right, "incremental")
    assert cell.read() == BOTH


def _kept_cell(lab: Any, request: pytest.FixtureRequest, kind: str) -> Any:
    made = _cell(lab, request, "merge", kind)
    cell = next(made)
    request.addfinalizer(lambda: next(made, None))
    yield cell


TWICE = "id int, d date, e date"


def timed(cell: Cell, column: str) -> Any:
    """The cell's table without partitions: the column is all that tells windows apart."""
    return replace(cell.target, partition_by=(), time=column)


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet", "postgres"])
def test_a_time_column_that_was_changed_and_changed_back(
    lab: Any, request: pytest.FixtureRequest, kind: str
) -> None:
    """By the wrong column a window removes rows of others, and they come back."""
    (cell,) = list(_kept_cell(lab, request, kind))
    lab = cell.lab
    one, two = [(1, DAY, NEXT)], [(2, NEXT, NEXT)]

    def job(window: Any) -> Any:
        return lab.frame(one if window.id == FIRST else two, TWICE)

    right = lab.define(job, target=timed(cell, "d"))
    wrong = lab.define(job, target=timed(cell, "e"))
    for day in (FIRST, SECOND):
        lab.run(right, day)
    lab.run(wrong, SECOND, force=True)
    assert cell.read() == _sorted(two)
    for day in (FIRST, SECOND):
        lab.run(right, day)
    assert cell.read() == _sorted(one + two)


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet", "postgres"])
def test_a_corrected_time_column_owns_its_slice(
    lab: Any, request: pytest.FixtureRequest, kind: str
) -> None:
    """The same rows by another column: what else lies in the slice of now is removed."""
    (cell,) = list(_kept_cell(lab, request, kind))
    lab = cell.lab
    own, other = [(1, DAY, DAY)], [(9, NEXT, DAY)]

    def job(window: Any) -> Any:
        return lab.frame(own if window.id == FIRST else other, TWICE)

    wrong = lab.define(job, target=timed(cell, "d"))
    lab.run(wrong, SECOND)
    lab.run(wrong, FIRST)
    assert cell.read() == _sorted(own + other)
    lab.run(lab.define(job, target=timed(cell, "e")), FIRST)
    assert cell.read() == own


def test_force_always_writes_the_rows(sliced: Cell) -> None:
    """Never a receipt alone: whoever forces a run does not trust what is there."""
    job = by_day(sliced, Overwrite())
    sliced.lab.run(job, FIRST)
    before = sliced.version()
    outcome = sliced.lab.run(job, FIRST, force=True)
    assert outcome.state == "published"
    assert not outcome.only_receipt
    assert sliced.version() != before
    assert sliced.read() == _sorted(ONE)


# Iceberg: rollbacks and expiry


@pytest.mark.parametrize("write", [Overwrite(), MERGE, InsertNew(key="id")], ids=lambda w: w.name)
def test_a_rolled_back_window_is_not_taken_for_an_expired_one(
    lab: Any, lake: Any, write: Any
) -> None:
    """Rolled back, another window published, snapshots expired: the window is published again."""
    by = {"partition_by": "d"} if isinstance(write, Overwrite) else {}
    cell = Cell(lab, "", "iceberg", iceberg("sales.orders", **by), lake.rows, lake.snapshots)
    job = by_day(cell, write)
    lab.run(
        lab.job(
            [row(8, day=dt.date(2026, 4, 20))],
            "id int, status string, seq long, d date",
            target=cell.target,
            write=write,
            name="other",
        ),
        "2026-04-20",
    )
    before = lake.table().current_snapshot().snapshot_id
    lab.run(job, FIRST)
    lake.spark.sql(f"CALL lake.system.rollback_to_snapshot('sales.orders', {before})")
    lab.run(job, SECOND)
    expire(lake)
    assert lab.run(job, FIRST).state == "published"
    assert lake.rows() == _sorted([*ONE, *TWO, row(8, day=dt.date(2026, 4, 20))])


def test_windows_of_expired_snapshots_are_known_to_be_there(lab: Any, lake: Any) -> None:
    """What later receipts say about the commits before them outlives these commits."""
    cell = Cell(lab, "", "iceberg", iceberg("sales.orders"), lake.rows, lake.snapshots)
    job = by_day(cell, MERGE)
    lab.run(job, FIRST)
    for _ in range(3):
        lab.run(job, SECOND, force=True)
    expire(lake)
    assert lab.run(job, FIRST).state == "unchanged"


def test_a_rolled_back_newest_window_does_not_supersede_after_expiry(lab: Any, lake: Any) -> None:
    """The older window may be published again, because the newest one is not there."""
    cell = Cell(lab, "", "iceberg", iceberg("sales.orders"), lake.rows, lake.snapshots)
    job, changed = by_day(cell, Replace()), by_day(cell, Replace(), audits=[not_null("id")])
    lab.run(job, FIRST)
    first = lake.table().current_snapshot().snapshot_id
    lab.run(job, SECOND)
    lake.spark.sql(f"CALL lake.system.rollback_to_snapshot('sales.orders', {first})")
    assert lab.run(changed, FIRST).state == "published"
    expire(lake)
    assert lab.run(job, FIRST).state == "published"
    assert lake.rows() == _sorted(ONE)


def test_a_removal_that_was_rolled_back_keeps_nothing_out_after_expiry(lab: Any, lake: Any) -> None:
    """The removed key was never gone for readers, so older rows of it are taken."""
    write = Merge(key="id", sequence_by="seq", delete_when="status = 'gone'")
    cell = Cell(lab, "", "iceberg", iceberg("sales.orders"), lake.rows, lake.snapshots)
    schema = "id int, status string, seq long, d date"

    def publish(rows: Any, day: str) -> None:
        lab.run(lab.job(rows, schema, target=cell.target, write=write), day)

    publish([row(5)], "2026-04-20")
    before = lake.table().current_snapshot().snapshot_id
    publish([row(1, "gone", 9)], FIRST)
    lake.spark.sql(f"CALL lake.system.rollback_to_snapshot('sales.orders', {before})")
    publish([row(6)], "2026-04-21")
    expire(lake)
    publish([row(1, "late", 3)], SECOND)
    assert row(1, "late", 3) in lake.rows()


def expire(lake: Any) -> None:
    lake.spark.sql(
        "CALL lake.system.expire_snapshots(table => 'sales.orders', "
        "older_than => TIMESTAMP'2100-01-01 00:00:00', retain_last => 1)"
    )


# Columns that are others than before


def swap(sql: Any, table: str) -> None:
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        sql(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")


PAIR = "id int, a string, b string, d date"
PAIRS = [(1, "left", "right", DAY)]


def pairs(lab: Any, target: Any) -> Any:
    def job(window: Any) -> Any:
        return lab.frame(PAIRS, PAIR)

    return lab.define(job, target=target)


def named(rows: Any, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(item[name] for name in names) for item in rows]


def test_swapped_columns_in_iceberg(lab: Any, lake: Any) -> None:
    """Readers see other values under the names: the window is published again."""
    job = pairs(lab, iceberg("sales.orders", partition_by="d"))
    lab.run(job)
    swap(lake.spark.sql, "lake.sales.orders")
    found = lake.table().scan().to_arrow().to_pylist()
    assert named(found, "a", "b") == [("right", "left")]
    assert lab.run(job).state == "published"
    assert named(lake.table().scan().to_arrow().to_pylist(), "a", "b") == [("left", "right")]
    assert lab.run(job).state == "unchanged"


def test_a_column_of_iceberg_that_was_dropped_and_added_again(lab: Any, lake: Any) -> None:
    """The name is the same and the values are gone."""
    job = pairs(lab, iceberg("sales.orders", partition_by="d"))
    lab.run(job)
    lake.spark.sql("ALTER TABLE lake.sales.orders DROP COLUMN a")
    lake.spark.sql("ALTER TABLE lake.sales.orders ADD COLUMN a string")
    lab.run(job)
    assert named(lake.table().scan().to_arrow().to_pylist(), "a", "b") == [("left", "right")]


def test_a_column_that_is_added_changes_no_window(lab: Any, lake: Any) -> None:
    job = pairs(lab, iceberg("sales.orders", partition_by="d"))
    lab.run(job)
    lake.spark.sql("ALTER TABLE lake.sales.orders ADD COLUMN more string")
    assert lab.run(job).state == "unchanged"


@pytest.mark.parametrize("again", ["swap", "drop and add"])
def test_other_columns_in_postgres(postgres_lab: Any, db: Any, again: str) -> None:
    """No row tells of a rename: the numbers of the columns do."""
    from setpoint import postgres

    job = pairs(postgres_lab, postgres("out", connection="test", time="d"))
    postgres_lab.run(job)
    if again == "swap":
        swap(db.all, "out")
        assert db.all("SELECT a, b FROM out") == [("right", "left")]
    else:
        db.all("ALTER TABLE out DROP COLUMN a")
        db.all("ALTER TABLE out ADD COLUMN a text")
    assert postgres_lab.run(job).state == "published"
    assert db.all("SELECT a, b FROM out") == [("left", "right")]
    assert postgres_lab.run(job).state == "unchanged"


def test_swapped_columns_in_delta(lab: Any, has_delta_connector: bool) -> None:
    """With column mapping a rename changes no file, and readers see other values."""
    lab.spark.sql(
        f"CREATE TABLE delta.`{lab.root}/out` (id int, a string, b string, d date) USING delta "
        "PARTITIONED BY (d) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    job = pairs(lab, delta("out", partition_by="d"))
    lab.run(job)
    assert lab.run(job).state == "unchanged"
    place = f"delta.`{lab.root}/out`"
    swap(lab.spark.sql, place)
    assert lab.run(job).state == "published"
    read = lab.spark.read.format("delta").load(str(lab.root / "out"))
    assert [tuple(item) for item in read.select("a", "b").collect()] == [("left", "right")]


# Delta: what outlives the clean-up of the log


def test_an_older_window_never_replaces_the_newest_one(lab: Any) -> None:
    """Neither the log nor the ledger tells of the newest window, and still it counts."""
    from deltalake import DeltaTable

    cell = Cell(lab, "", "delta", delta("out"), lab.rows, lab.version)
    job = by_day(cell, Replace())
    lab.run(job, FIRST)
    lab.run(job, SECOND)
    table = DeltaTable(str(lab.root / "out"))
    table.create_checkpoint()
    for file in (lab.root / "out" / "_delta_log").glob("*.json"):
        if int(file.stem) < table.version():
            file.unlink()
    last = lab.root / "out" / "_delta_log" / f"{table.version():020d}.json"
    lines = [line for line in last.read_text().splitlines() if "commitInfo" not in line]
    last.write_text("\n".join([*lines, ""]))
    for file in Path(lab.root, ".setpoint").glob("ledger.db*"):
        file.unlink()
    outcome = lab.run(job, FIRST)
    assert outcome.state == "unchanged"
    assert outcome.reason == f"superseded by {SECOND}"
    assert lab.rows() == _sorted(TWO)


def test_a_table_of_before_says_unchanged(lab: Any) -> None:
    """Receipts without scope and columns, and numbers that only count, are read as ever."""
    cell = Cell(lab, "", "delta", delta("out", partition_by="d"), lab.rows, lab.version)
    job = by_day(cell, Overwrite())
    lab.run(job, FIRST)
    lab.run(job, SECOND)
    for version in (0, 1):
        actions = lab.actions(version)
        for action in actions:
            if "txn" in action:
                action["txn"]["version"] = 1
            if "commitInfo" in action:
                sealed = json.loads(action["commitInfo"]["userMetadata"])
                for member in ("scope", "columns", "quiet_since"):
                    del sealed["receipts"][0][member]
                action["commitInfo"]["userMetadata"] = json.dumps(sealed)
        file = lab.root / "out" / "_delta_log" / f"{version:020d}.json"
        file.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    assert [lab.run(job, day).state for day in (FIRST, SECOND)] == ["unchanged", "unchanged"]
    again = lab.run(job, FIRST, force=True)
    assert again.receipt.generation == 2
    assert [lab.run(job, day).state for day in (FIRST, SECOND)] == ["unchanged", "unchanged"]
    assert lab.rows() == BOTH
