"""High-water marks: pipelines that go on from where the last publish ended."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from setpoint import Merge, RefusedError, UsageError, delta, source

SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("v", pa.string())])


def at(second: int) -> datetime:
    return datetime(2026, 4, 25, 12, 0, second, tzinfo=timezone.utc)


def arrive(lab: Any, *rows: tuple[int, datetime | None, str]) -> None:
    """Rows are appended to the source, as other systems do it."""
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    write_deltalake(str(lab.root / "lake"), pa.table(arrays, schema=SCHEMA), mode="append")


def sync(lab: Any, write: Any = None, **bounds: Any) -> Any:
    """A pipeline that copies what is new, by a cursor."""
    cursor = {"cursor": "at", **bounds}

    def job(window: Any, lake: Any = source(delta("lake"), **cursor)) -> Any:
        return lake

    chosen = write or Merge(key="id", sequence_by="at")
    return lab.define(job, every="incremental", target=delta("out"), write=chosen)


def mark(lab: Any, job: Any) -> Any:
    state = lab.state(job, "incremental")
    return json.loads(state.receipt.high_water_mark)["values"]


def run(lab: Any, job: Any, **rest: Any) -> Any:
    return lab.run(job, "incremental", **rest)


def ids(lab: Any) -> list[int]:
    return [row[0] for row in lab.rows()]


def test_each_run_goes_on_from_the_mark(lab):
    """The second run reads the rows from the mark on, and the mark moves with the commit."""
    arrive(lab, (1, at(1), "a"), (2, at(2), "a"))
    job = sync(lab)
    assert run(lab, job).receipt.rows == 2
    assert mark(lab, job) == ["2026-04-25 12:00:02"]
    arrive(lab, (3, at(3), "a"))
    outcome = run(lab, job)
    assert outcome.receipt.rows == 2  # the new one, and the one at the mark once more
    assert ids(lab) == [1, 2, 3]
    assert mark(lab, job) == ["2026-04-25 12:00:03"]


def test_nothing_new_is_unchanged_and_commits_nothing(lab):
    arrive(lab, (1, at(1), "a"))
    job = sync(lab)
    run(lab, job)
    version = lab.version()
    assert run(lab, job).state == "unchanged"
    assert lab.version() == version


def test_rows_that_share_the_last_timestamp_are_neither_lost_nor_doubled(lab):
    """A row that arrives later with the mark's own timestamp is read all the same."""
    arrive(lab, (1, at(5), "a"), (2, at(5), "a"))
    job = sync(lab)
    run(lab, job)
    arrive(lab, (3, at(5), "a"), (4, at(5), "a"))
    run(lab, job)
    assert ids(lab) == [1, 2, 3, 4]


def test_a_lookback_finds_rows_that_were_committed_late(lab):
    arrive(lab, (1, at(30), "a"))
    without = sync(lab)
    run(lab, without)
    arrive(lab, (2, at(25), "late"), (3, at(31), "a"))
    run(lab, sync(lab, lookback=timedelta(seconds=10)))
    assert ids(lab) == [1, 2, 3]


def test_a_late_row_without_a_lookback_stays_out(lab):
    """What the lookback is for: the mark alone does not see rows that are older than itself."""
    arrive(lab, (1, at(30), "a"))
    job = sync(lab)
    run(lab, job)
    arrive(lab, (2, at(25), "late"))
    run(lab, job)
    assert ids(lab) == [1]


def test_a_range_can_be_read_again_and_the_mark_stays(lab):
    arrive(lab, (1, at(10), "a"), (2, at(20), "a"))
    job = sync(lab)
    run(lab, job)
    arrive(lab, (7, at(5), "late"), (8, at(15), "late"))
    run(lab, job, again=("2026-04-25 12:00:00", "2026-04-25 12:00:15"))
    assert ids(lab) == [1, 2, 7]
    assert mark(lab, job) == ["2026-04-25 12:00:20"]


def test_a_composite_cursor_goes_by_its_columns_in_order(lab):
    arrive(lab, (1, at(1), "a"), (5, at(2), "a"))
    job = sync(lab, cursor=("at", "id"))
    run(lab, job)
    assert mark(lab, job) == ["2026-04-25 12:00:02", "5"]
    arrive(lab, (6, at(2), "a"), (4, at(2), "behind the mark"))
    run(lab, job)
    assert ids(lab) == [1, 5, 6]


def test_a_cursor_that_is_null_is_refused(lab):
    """Such a row would never be read: it is told, not dropped."""
    arrive(lab, (1, at(1), "a"))
    job = sync(lab)
    run(lab, job)
    arrive(lab, (2, None, "a"))
    with pytest.raises(RefusedError, match="SP-R03"):
        run(lab, job)
    assert ids(lab) == [1]


def test_an_empty_source_leaves_an_empty_table_without_a_mark(lab):
    arrive(lab, (1, at(1), "a"))
    from deltalake import DeltaTable

    DeltaTable(str(lab.root / "lake")).delete()
    job = sync(lab)
    assert run(lab, job).receipt.high_water_mark is None
    arrive(lab, (2, at(2), "a"))
    run(lab, job)
    assert ids(lab) == [2]


def test_a_lost_receipt_means_reading_everything_again(lab):
    """Without its receipt the mark is gone; a write by key makes reading all of it safe."""
    arrive(lab, (1, at(1), "a"), (2, at(2), "a"))
    job = sync(lab)
    run(lab, job)
    write_deltalake(str(lab.root / "out"), lab.table().to_pyarrow_table()[:0], mode="append")
    lab.table().create_checkpoint()
    (lab.root / "out" / "_delta_log" / f"{0:020d}.json").unlink()
    (lab.root / ".setpoint" / "ledger.db").unlink()
    assert lab.state(job, "incremental").receipt is None
    arrive(lab, (3, at(3), "a"))
    run(lab, job)
    assert ids(lab) == [1, 2, 3]


def test_a_bound_that_is_no_value_of_the_cursor_is_refused(lab):
    arrive(lab, (1, at(1), "a"))
    job = sync(lab)
    with pytest.raises(UsageError, match="is not a range of at"):
        run(lab, job, again=("x'; --", "y"))
