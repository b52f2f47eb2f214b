"""The contract: every write pattern on every destination, in one suite.

Each cell of the matrix goes through the same events; what a cell must hold afterwards is
computed by a few lines of Python (`apply`), and read back without setpoint.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from setpoint import (
    DeleteInsert,
    InsertNew,
    Merge,
    Overwrite,
    Pipeline,
    RefusedError,
    Replace,
    SetpointError,
    delta,
    iceberg,
    parquet,
    postgres,
    source,
)
from setpoint.flow.faults import ALWAYS
from setpoint.model.support import MATRIX

DAY, NEXT = dt.date(2026, 4, 25), dt.date(2026, 4, 26)
SCHEMA = "id int, status string, seq long, d date"
KINDS = ("delta", "iceberg", "parquet", "postgres")
PATTERNS: dict[str, Any] = {
    "overwrite": Overwrite(),
    "merge": Merge(key="id", sequence_by="seq"),
    "delete_insert": DeleteInsert(where="status <> 'other'"),
    "insert_new": InsertNew(key="id"),
    "replace": Replace(),
}
SLICED = ("overwrite", "delete_insert")
KEYED = ("merge", "insert_new")
_NUMBERS = itertools.count()

Row = tuple[Any, ...]


def row(number: int, status: str = "new", seq: int = 1, day: dt.date = DAY) -> Row:
    return (number, status, seq, day)


def apply(pattern: str, before: list[Row], rows: list[Row], day: dt.date) -> list[Row]:
    """What a table holds after a publish: the promise of each pattern, in a line."""
    match pattern:
        case "overwrite" | "delete_insert":
            after = [item for item in before if item[3] != day] + rows
        case "replace":
            after = rows
        case _:
            best: dict[Any, Row] = {item[0]: item for item in before}
            for item in rows:
                old = best.get(item[0])
                if old is None or (pattern == "merge" and item[2] > old[2]):
                    best[item[0]] = item
            after = list(best.values())
    return sorted(after, key=repr)


@dataclass
class Cell:
    """One pattern on one destination, with a table of its own."""

    lab: Any
    pattern: str
    kind: str
    target: Any
    read: Callable[[], list[Row]]
    version: Callable[[], Any]
    hostile: tuple[str, ...] = ()

    def job(self, rows: Any, schema: str = SCHEMA, **rest: Any) -> Pipeline:
        write = rest.pop("write", PATTERNS[self.pattern])
        return self.lab.job(rows, schema, target=rest.pop("target", self.target), write=write)

    def run(self, rows: Any, window: str = "2026-04-25", **rest: Any) -> Any:
        return self.lab.run(self.job(rows), window, **rest)


@pytest.fixture(params=[f"{pattern}-{kind}" for pattern, kind in MATRIX])
def cell(lab: Any, request: pytest.FixtureRequest) -> Iterator[Cell]:
    pattern, kind = request.param.split("-")
    yield from _cell(lab, request, pattern, kind)


@pytest.fixture(params=[f"{pattern}-{kind}" for pattern in KEYED for kind in KINDS])
def keyed(lab: Any, request: pytest.FixtureRequest) -> Iterator[Cell]:
    pattern, kind = request.param.split("-")
    yield from _cell(lab, request, pattern, kind)


def _cell(lab: Any, request: pytest.FixtureRequest, pattern: str, kind: str) -> Iterator[Cell]:
    by_day: dict[str, Any] = {"partition_by": "d"} if pattern in SLICED else {}
    match kind:
        case "delta":
            yield Cell(
                lab,
                pattern,
                kind,
                delta("out", **by_day),
                lambda: lab.rows("out"),
                lambda: lab.version("out"),
                ("order\"'drop--table", "select", "ünïcödé", "a.b", "back`tick"),
            )
        case "iceberg":
            lake = request.getfixturevalue("lake")
            yield Cell(
                lab,
                pattern,
                kind,
                iceberg("sales.orders", **by_day),
                lake.rows,
                lake.snapshots,
                ('order"; drop table x; --', "select", "ünïcödé", "a b", "back`tick"),
            )
        case "parquet":
            name = f"contract{next(_NUMBERS)}"
            lab.spark.sql(f"CREATE DATABASE {name}")
            yield Cell(
                lab,
                pattern,
                kind,
                parquet(table=f"{name}.t", **by_day),
                lambda: _rows_of(lab.spark.newSession().table(f"{name}.t")),
                lambda: _locations(lab, f"{name}.t", bool(by_day)),
                ("order_drop__x", "select", "a_b"),
            )
            lab.spark.sql(f"DROP DATABASE {name} CASCADE")
        case "postgres":
            yield _postgres_cell(request, pattern)


def _postgres_cell(request: pytest.FixtureRequest, pattern: str) -> Cell:
    lab, db = (request.getfixturevalue(name) for name in ("postgres_lab", "db"))
    time = {"time": "d"} if pattern in SLICED else {}
    return Cell(
        lab,
        pattern,
        "postgres",
        postgres("out", connection="test", **time),
        db.rows,
        lambda: (
            db.all("SELECT ctid::text, xmin::text FROM out ORDER BY 1")
            + db.all("SELECT generation FROM setpoint.receipts ORDER BY 1")
        ),
        ('order"; drop table x; --', "select", "ünïcödé", "a b", "back`tick"),
    )


def _rows_of(table: Any) -> list[Row]:
    """Rows with the columns in the order of the frames: a metastore has partitions last."""
    more = [name for name in table.columns if name == "more"]
    others = [name for name in table.columns if name != "more"]
    quoted = [f"`{name.replace('`', '``')}`" for name in (*others, *more)]
    return _sorted(table.select(*quoted).collect())


def _sorted(rows: Any) -> list[Row]:
    return sorted((tuple(item) for item in rows), key=repr)


def _locations(lab: Any, table: str, partitioned: bool) -> list[str]:
    session = lab.spark.newSession()
    partitions = session.sql(f"SHOW PARTITIONS {table}").collect() if partitioned else [None]
    found = []
    for item in partitions:
        day = item[0].split("=")[1] if item else ""
        part = f" PARTITION (d = DATE'{day}')" if item else ""
        described = session.sql(f"DESCRIBE FORMATTED {table}{part}").collect()
        found += [line[1] for line in described if line[0].strip() == "Location"]
    return found


A = [row(1), row(2)]
B = [row(2, "paid", 2), row(3)]


def test_once_twice_thrice_restated_forced_changed_and_empty(cell: Cell) -> None:
    """Repeats change nothing; a change is a change; an empty batch empties what it states."""
    pattern = cell.pattern
    held = cell.lab.shelf(A)
    job = cell.job(held)
    assert cell.lab.run(job).state == "published"
    assert cell.read() == apply(pattern, [], A, DAY)
    version = cell.version()
    assert [cell.lab.run(job).state for _ in range(2)] == ["unchanged", "unchanged"]
    assert cell.version() == version
    again = cell.lab.run(job, restate=True)
    assert again.only_receipt
    assert again.receipt.generation == 2
    forced = cell.lab.run(job, force=True)
    assert not forced.only_receipt
    assert forced.receipt.generation == 3
    assert cell.read() == apply(pattern, [], A, DAY)

    changed = B if pattern != "insert_new" else [row(2), row(3)]
    held.rows = changed
    assert cell.lab.run(job, force=True).state == "published"
    now = apply(pattern, apply(pattern, [], A, DAY), changed, DAY)
    assert cell.read() == now

    held.rows = []
    outcome = cell.lab.run(job, force=True)
    assert outcome.receipt.rows == 0
    assert cell.read() == apply(pattern, now, [], DAY)
    assert cell.lab.run(job).state == "unchanged"


def test_a_crash_at_any_point_and_a_retry_end_like_one_clean_run(cell: Cell) -> None:
    """Before the commit the table holds the old rows, after it the new; a retry ends the same."""
    points = [point for point in ALWAYS if point != "staging"]
    before, after = points[: points.index("committed")], points[points.index("committed") :]
    cell.run(A)
    now = cell.read()
    rows = _changed(cell, 10)
    for point in before:
        with pytest.raises((SetpointError, _Crash)):
            _crash(cell, cell.job(rows), point)
        assert cell.read() == now, point
    assert cell.run(rows).state == "published"
    now = apply(cell.pattern, now, rows, DAY)
    assert cell.read() == now
    for number, point in enumerate(after):
        rows = _changed(cell, 20 + number)
        now = apply(cell.pattern, now, rows, DAY)
        with pytest.raises((SetpointError, _Crash)):
            _crash(cell, cell.job(rows), point)
        assert cell.read() == now, point
        assert cell.run(rows).state == "unchanged", point
        assert cell.read() == now, point


def _changed(cell: Cell, number: int) -> list[Row]:
    """Rows that differ from those before; events do not change, so only new ones."""
    rows = [row(2, f"number {number}", number), row(number)]
    return rows[1:] if cell.pattern == "insert_new" else rows


def test_runs_at_once_end_as_one_after_the_other(cell: Cell) -> None:
    """Of one window, whoever is second publishes on top; of two windows, both are there."""
    one, other = [row(1, "one", 2), row(8)], [row(1, "two", 3), row(9)]
    if cell.pattern == "insert_new":
        one, other = one[1:], other[1:]
    cell.run(A)
    before = cell.read()
    _at_once(lambda: cell.run(one), lambda: cell.run(other))
    first_last = apply(cell.pattern, apply(cell.pattern, before, one, DAY), other, DAY)
    last_first = apply(cell.pattern, apply(cell.pattern, before, other, DAY), one, DAY)
    assert cell.read() in (first_last, last_first)
    assert cell.lab.state(cell.job(one)).generation == 3
    _two_windows_at_once(cell)


def _two_windows_at_once(cell: Cell) -> None:
    """Each leaves what the other states alone, and each is done."""
    today, tomorrow = [row(11, "a", 12)], [row(12, "b", 13, NEXT)]
    before = cell.read()
    _at_once(lambda: cell.run(today), lambda: cell.run(tomorrow, "2026-04-26"))
    both = apply(cell.pattern, apply(cell.pattern, before, today, DAY), tomorrow, NEXT)
    assert cell.read() == both
    assert cell.run(tomorrow, "2026-04-26").state == cell.run(today).state == "unchanged"
    assert cell.read() == both


def test_a_new_column_is_refused_or_added_as_the_target_says(cell: Cell) -> None:
    """Refused before anything is written; with evolve="add" the old rows have a null there."""
    cell.run(A)
    version, wide = cell.version(), f"{SCHEMA}, more string"
    rows = [(*item, "x") for item in [row(5, "new", 9)]]
    with pytest.raises(RefusedError, match="SP-O03"):
        cell.lab.run(cell.job(rows, wide))
    assert cell.version() == version
    grown = replace(cell.target, evolve="add")
    cell.lab.run(cell.job(rows, wide, target=grown))
    old = [(*item, None) for item in apply(cell.pattern, [], A, DAY)]
    assert cell.read() == _sorted(apply(cell.pattern, old, rows, DAY))


def test_hostile_names_are_names(cell: Cell) -> None:
    """Quotes, blanks, reserved words and Unicode in column names are stored as they are."""
    names = cell.hostile
    key = names[0]
    quoted = [f"`{name.replace('`', '``')}` string" for name in names]
    schema = ", ".join([*quoted, "seq long", "d date"])
    write = PATTERNS[cell.pattern]
    if cell.pattern == "delete_insert":
        write = DeleteInsert(where="seq > 0")
    elif cell.pattern in KEYED:
        write = replace(write, key=key)
    rows = [(*("'; --" for _ in names), 1, DAY), (*('"' for _ in names), 2, DAY)]
    job = cell.job(rows, schema, write=write)
    assert cell.lab.run(job).state == "published"
    assert cell.read() == _sorted(rows)
    assert cell.lab.run(job).state == "unchanged"
    assert cell.lab.run(job, restate=True).only_receipt


def test_duplicates_in_the_batch_are_resolved_or_refused(keyed: Cell) -> None:
    """A merge takes the latest; of equal events one is kept; contradicting ones are refused."""
    if keyed.pattern == "merge":
        keyed.run([row(1, "old", 1), row(1, "latest", 3), row(1, "middle", 2), row(2), row(2)])
        assert keyed.read() == [row(1, "latest", 3), row(2)]
        return
    keyed.run([row(1), row(1), row(2)])
    assert keyed.read() == [row(1), row(2)]
    with pytest.raises(RefusedError, match="SP-O07"):
        keyed.run([row(5, "a"), row(5, "b")])
    with pytest.raises(RefusedError, match="SP-O07"):
        keyed.run([row(1, "changed"), row(6)], "2026-04-26")
    assert keyed.read() == [row(1), row(2)]


def test_a_null_in_the_key_is_refused_or_put_aside(keyed: Cell) -> None:
    """Refused it changes nothing; put aside it is in a table beside the target."""
    null, rows = (None, "lost", 1, DAY), [row(1)]
    with pytest.raises(RefusedError, match="SP-O06"):
        keyed.run([*rows, null])
    write = PATTERNS[keyed.pattern]
    aside = keyed.job([*rows, null], write=replace(write, null_keys="quarantine"))
    outcome = keyed.lab.run(aside)
    assert keyed.read() == rows
    assert any("null in the key" in note for note in outcome.notes)


def test_a_null_in_the_key_can_be_a_value(keyed: Cell) -> None:
    """Allowed it is there once, however often it comes."""
    null, rows = (None, "lost", 1, DAY), [row(1)]
    allowed = replace(PATTERNS[keyed.pattern], null_keys="allow")
    keyed.lab.run(keyed.job(rows, write=allowed))
    for window in ("2026-04-26", "2026-04-27", "2026-04-26"):
        keyed.lab.run(keyed.job([null], write=allowed), window)
    assert keyed.read() == _sorted([*rows, null])


@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_forgets_no_removed_key(
    lab: Any, request: pytest.FixtureRequest, kind: str
) -> None:
    """A late older row stays out, a newer one comes in; a complete state removes the rest."""
    for cell in _cell(lab, request, "merge", kind):
        write = replace(PATTERNS["merge"], delete_when="status = 'gone'")

        def run(rows: list[Row], window: str, cell: Cell = cell, write: Any = write) -> None:
            cell.lab.run(cell.job(rows, write=write), window)

        run([row(1), row(2)], "2026-04-25")
        run([row(1, "gone", 5)], "2026-04-27")
        assert cell.read() == [row(2)]
        run([row(1, "late", 4)], "2026-04-24")
        assert cell.read() == [row(2)]
        run([row(1, "back", 6)], "2026-04-28")
        assert cell.read() == [row(1, "back", 6), row(2)]
        complete = replace(PATTERNS["merge"], when_missing="delete")
        cell.lab.run(cell.job([row(2), row(3)], write=complete), "2026-04-29")
        assert cell.read() == [row(2), row(3)]
        older = cell.lab.run(cell.job([row(9)], write=complete), "2026-04-23")
        assert older.reason == "superseded by 2026-04-29"
        assert cell.read() == [row(2), row(3)]


class _Crash(Exception):
    """The process is gone, as far as the run is concerned."""


def _crash(cell: Cell, job: Pipeline, point: str, window: str = "2026-04-25") -> None:
    """Run until a point and stop there, as a killed process would; no retry follows."""
    from setpoint.flow.attempt import Attempt
    from setpoint.flow.run import plan_windows

    bound, world = cell.lab.bind(job), cell.lab.world(f"{point}:raise")
    windows = cell.lab.windows(job, window)
    (plan,) = plan_windows(bound, windows, world, parameters={})
    Attempt(bound, plan, world, 1).execute()
    raise _Crash(point)


def _at_once(*calls: Callable[[], Any]) -> None:
    """Run all calls in threads that start together; a conflict that asks for a retry may be."""
    ready, failures = threading.Barrier(len(calls)), []

    def work(call: Callable[[], Any]) -> None:
        ready.wait()
        try:
            call()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_that_is_merged_again_corrects_what_it_said(
    lab: Any, request: pytest.FixtureRequest, kind: str
) -> None:
    """Same sequence, other content: the code was wrong, and its window is published again."""
    for cell in _cell(lab, request, "merge", kind):
        write = replace(PATTERNS["merge"], delete_when="status = 'gone'")
        held = lab.shelf([row(n, "wrong") for n in range(6)] + [row(7, "gone")])
        job = cell.job(held, write=write)
        lab.run(job)
        lab.run(cell.job([row(0, "later", 2)], write=write), "2026-04-26")
        held.rows = [row(n, "right") for n in range(6)] + [row(7, "not gone")]
        lab.run(job, force=True)
        right = [row(n, "right") for n in range(1, 6)]
        assert cell.read() == [row(0, "later", 2), *right, row(7, "not gone")]
        held.rows = [row(8, "gone", 5)]
        lab.run(job, force=True)
        held.rows = []
        lab.run(job, force=True)
        lab.run(cell.job([row(8, "older", 4)], write=write), "2026-04-27")
        assert row(8, "older", 4) in cell.read(), "its removal was taken back"


@pytest.mark.parametrize("kind", KINDS)
def test_a_high_water_mark_moves_with_the_rows(
    lab: Any, request: pytest.FixtureRequest, kind: str
) -> None:
    """Whatever the crash, the mark says which rows are there: none is lost, none is twice."""
    import pyarrow as pa
    from deltalake import write_deltalake

    schema = pa.schema([("id", pa.int32()), ("seq", pa.int64())])

    def arrive(*rows: tuple[int, int]) -> None:
        table = pa.Table.from_pylist(
            [dict(zip(schema.names, r, strict=True)) for r in rows], schema
        )
        write_deltalake(str(lab.root / "lake"), table, mode="append")

    for cell in _cell(lab, request, "merge", kind):

        def job(window: Any, lake: Any = source(delta("lake"), cursor="seq")) -> Any:
            return lake

        write = PATTERNS["merge"]
        sync = lab.define(job, every="incremental", target=cell.target, write=write)

        def mark(sync: Pipeline = sync) -> str:
            found = lab.state(sync, "incremental").receipt.high_water_mark
            return json.loads(found)["values"][0]

        arrive((1, 10), (2, 20))
        lab.run(sync, "incremental")
        assert mark() == "20"
        number = 3
        for point in ("staged", "audited", "committed", "published"):
            arrive((number, number * 10), (number + 1, number * 10))
            with pytest.raises((SetpointError, _Crash)):
                _crash(cell, sync, point, "incremental")
            lab.run(sync, "incremental")
            number += 2
            assert sorted(item[0] for item in cell.read()) == list(range(1, number)), point
            assert mark() == str((number - 2) * 10)
        arrive((0, 15))  # late: behind the mark
        assert lab.run(sync, "incremental").state == "published"
        assert sorted(item[0] for item in cell.read()) == list(range(1, number))
        before = mark()
        lab.run(sync, "incremental", again=("10", "20"))
        assert sorted(item[0] for item in cell.read()) == list(range(number))
        assert mark() == before
