"""What reviewers found at the edges of the lake formats and of incremental reads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from setpoint import (
    DeleteInsert,
    InsertNew,
    Merge,
    RefusedError,
    Replace,
    SetpointError,
    delta,
    iceberg,
    not_null,
    parquet,
    source,
)
from setpoint.model.mark import Mark
from setpoint.model.slice import NULL_PARTITION
from setpoint.spark.settings import pinned_settings

ROWS = "id int, op string, seq long"
TARGET = delta("out")
MERGE = Merge(key="id", sequence_by="seq")
COMPLETE = Merge(key="id", sequence_by="seq", when_missing="delete")
RULED = DeleteInsert(where="op <> 'x'")
SOURCE = pa.schema([("id", pa.int64()), ("n", pa.int64())])


def arrive(lab: Any, rows: list[tuple[Any, ...]], schema: pa.Schema = SOURCE, **rest: Any) -> None:
    columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)]
    table = pa.table(columns, schema=schema)
    write_deltalake(str(lab.root / "lake"), table, **{"mode": "append", **rest})


def sync(lab: Any, cursor: str = "n", write: Any = None, **rest: Any) -> Any:
    def job(window: Any, lake: Any = source(delta("lake"), cursor=cursor, **rest)) -> Any:
        return lake

    chosen = write or InsertNew(key="id")
    return lab.define(job, every="incremental", target=TARGET, write=chosen)


def ids(lab: Any) -> list[int]:
    return sorted(row[0] for row in lab.rows())


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, what: Callable[[], Any]
) -> None:
    """Do something between our look at the table and the connector's own."""
    import importlib

    place = importlib.import_module(f"setpoint.targets.delta.{module}")
    real, done = getattr(place, name), []

    def wrapped(*given: Any, **named: Any) -> Any:
        if not done:
            done.append(True)
            what()
        return real(*given, **named)

    monkeypatch.setattr(place, name, wrapped)


@pytest.mark.parametrize(
    ("write", "module", "name"),
    [(COMPLETE, "merge", "merge"), (RULED, "commit", "commit_through_connector")],
    ids=["merge", "delete_insert"],
)
def test_a_newer_window_that_slips_in_is_not_overwritten(lab, monkeypatch, write, module, name):
    lab.run(lab.job([(9, "first", 1)], ROWS, target=TARGET, write=write), "2026-04-24")
    newer = lab.job([(2, "new", 2)], ROWS, target=TARGET, write=write)
    older = lab.job([(1, "old", 1)], ROWS, target=TARGET, write=write)
    meanwhile(monkeypatch, module, name, lambda: lab.run(newer, "2026-04-26"))
    outcome = lab.run(older, "2026-04-25")
    assert outcome.reason == "superseded by 2026-04-26"
    assert lab.rows() == [(2, "new", 2)]


def test_an_event_that_slips_in_with_other_content_is_reported(lab, monkeypatch):
    write = InsertNew(key="id")
    lab.run(lab.job([(9, "first", 1)], ROWS, target=TARGET, write=write), "2026-04-24")
    one = lab.job([(1, "a", 1)], ROWS, target=TARGET, write=write)
    other = lab.job([(1, "b", 1)], ROWS, target=TARGET, write=write)
    meanwhile(monkeypatch, "merge", "merge", lambda: lab.run(one, "2026-04-25"))
    outcome = lab.run(other, "2026-04-26")
    assert any("stored with other content" in note for note in outcome.notes)
    assert lab.rows() == [(1, "a", 1), (9, "first", 1)]


def test_a_foreign_delete_beside_a_receipt_is_seen(lab, monkeypatch):
    job = lab.job([(1, "a", 1), (2, "a", 1)], ROWS, target=TARGET, write=MERGE)
    lab.run(job)
    place, name = "commit", "commit_through_connector"
    meanwhile(monkeypatch, place, name, lambda: lab.table().delete("id = 2"))
    lab.run(job, force=True)
    lab.run(job)
    assert len(lab.rows()) == 2


def test_a_foreign_update_with_the_same_sequence_is_healed(lab):
    rows = [(number, "right", 1) for number in range(8)]
    job = lab.job(rows, ROWS, target=TARGET, write=MERGE)
    lab.run(job)
    lab.table().update(predicate="id >= 0", new_values={"op": "'wrong'"})
    lab.run(job)
    assert lab.rows() == rows


def test_replace_is_whole_whatever_the_session_says_about_overwriting(lab):
    columns, target = "id int, p string", delta("out", partition_by="p")
    lab.spark.sql(
        f"CREATE TABLE delta.`{lab.root}/out` ({columns}) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    lab.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        for rows, window in (([(1, "a"), (2, "b")], "2026-04-25"), ([(3, "a")], "2026-04-26")):
            lab.run(lab.job(rows, columns, target=target, write=Replace()), window)
    finally:
        lab.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert lab.rows() == [(3, "a")]


@pytest.mark.parametrize("text", ["", NULL_PARTITION])
def test_a_partition_text_that_means_null_is_refused(lab, text):
    """It would come back as null: another key, inserted again by every window."""
    write = InsertNew(key=("id", "op"))
    lab.spark.sql("DROP TABLE IF EXISTS null_texts")
    for target in (
        delta("out", partition_by="op"),
        parquet(table="null_texts", partition_by="op"),
    ):
        with pytest.raises(RefusedError, match="SP-O05"):
            lab.run(lab.job([(1, text, 1)], ROWS, target=target, write=write))


@pytest.mark.parametrize("text", ["", NULL_PARTITION])
def test_iceberg_tells_a_partition_text_from_null(lab, lake, text):
    target, rows = iceberg("sales.orders", partition_by="op"), [(1, text, 1), (2, None, 1)]
    lab.run(lab.job(rows, ROWS, target=target, write=Replace()))
    assert lake.rows() == rows
    assert lake.spark_rows() == rows


def test_microseconds_in_nested_times_are_a_difference(lab):
    columns = "id int, s struct<at: timestamp>, seq long"

    def rows(*micros: int) -> list[tuple[Any, ...]]:
        moments = [datetime(2026, 4, 25, 12, 0, 0, m, tzinfo=timezone.utc) for m in micros]
        return [(1, (moment,), 1) for moment in moments]

    lab.run(lab.job(rows(100), columns, target=TARGET, write=MERGE))
    lab.run(lab.job(rows(200), columns, target=TARGET, write=MERGE))
    assert lab.rows()[0][1]["at"].microsecond == 200
    events = lab.job(rows(100, 200), columns, target=delta("events"), write=InsertNew(key="id"))
    with pytest.raises(RefusedError, match="SP-O07"):
        lab.run(events)


def test_a_column_with_a_name_of_ours_is_refused(lab):
    columns = "id int, __setpoint_deleted boolean, seq long"
    with pytest.raises(RefusedError, match="SP-O05"):
        lab.run(lab.job([(1, True, 1)], columns, target=TARGET, write=MERGE))


def test_the_quarantine_stays_as_it_was_when_an_audit_refuses(lab):
    write = Merge(key="id", sequence_by="seq", null_keys="quarantine")
    rest = {"target": TARGET, "write": write, "audits": [not_null("op")]}
    lab.run(lab.job([(1, "a", 1), (None, "good", 1)], ROWS, **rest))
    with pytest.raises(RefusedError, match="SP-A01"):
        lab.run(lab.job([(1, None, 1), (None, "bad", 1)], ROWS, **rest))
    assert [row[1] for row in lab.rows("out__quarantine")] == ["good"]


def test_a_row_without_key_and_sequence_is_put_aside(lab):
    write = Merge(key="id", sequence_by="seq", null_keys="quarantine")
    lab.run(lab.job([(1, "a", 1), (None, "lost", None)], ROWS, target=TARGET, write=write))
    assert [row[1] for row in lab.rows("out__quarantine")] == ["lost"]


@pytest.mark.parametrize("write", [COMPLETE, RULED], ids=["merge", "delete_insert"])
def test_the_newest_window_is_known_after_the_log_was_cleaned_up(lab, write):
    lab.run(lab.job([(1, "a", 1)], ROWS, target=TARGET, write=write), "2026-04-24")
    job = lab.job([(2, "b", 2)], ROWS, target=TARGET, write=write)
    lab.run(job, "2026-04-25")
    lab.run(job, "2026-04-25", force=True)
    lab.table().create_checkpoint()
    (lab.root / "out" / "_delta_log" / f"{0:020d}.json").unlink()
    assert lab.state(job, "2026-04-25").published
    assert lab.run(job, "2026-04-25").state == "unchanged"


@pytest.mark.parametrize("write", [COMPLETE, RULED], ids=["merge", "delete_insert"])
def test_iceberg_puts_the_newer_window_back_after_an_older_was_forced(lab, lake, write):
    target = iceberg("sales.orders")
    older = lab.job([(1, "old", 1)], ROWS, target=target, write=write)
    newer = lab.job([(2, "new", 2)], ROWS, target=target, write=write)
    lab.run(older, "2026-04-25")
    lab.run(newer, "2026-04-26")
    lab.run(older, "2026-04-25", force=True)
    assert lake.rows() == [(1, "old", 1)]
    lab.run(newer, "2026-04-26")
    assert lake.rows() == [(2, "new", 2)]


def test_iceberg_sees_that_an_hour_replaced_a_part_of_its_day(lab, lake):
    target, columns = iceberg("sales.orders", time="at"), "id int, op string, at timestamp"
    at = datetime(2026, 4, 25, 3, tzinfo=timezone.utc)
    day = lab.job([(1, "day", at)], columns, target=target, write=RULED)
    hour = lab.job([(1, "hour", at)], columns, target=target, write=RULED, every="hour")
    lab.run(day, "2026-04-25")
    lab.run(hour, "2026-04-25T03")
    lab.run(day, "2026-04-25")
    assert [row[1] for row in lake.rows()] == ["day"]


def test_a_rolled_back_target_is_read_up_to_again(lab):
    """The mark of a receipt that was rolled back says nothing about the rows."""
    job = sync(lab)
    for number in (1, 2, 3):
        arrive(lab, [(number, number)])
        lab.run(job, "incremental")
    lab.table().restore(0)
    lab.run(job, "incremental", again=("1", "2"))
    arrive(lab, [(4, 4)])
    lab.run(job, "incremental")
    assert ids(lab) == [1, 2, 3, 4]


def test_a_range_as_the_first_run_is_not_taken_for_all(lab):
    arrive(lab, [(1, 1), (2, 2), (3, 3)])
    job = sync(lab)
    lab.run(job, "incremental", again=("2", "3"))
    lab.run(job, "incremental")
    assert ids(lab) == [1, 2, 3]


def test_ties_do_not_depend_on_where_a_run_was_cut(lab):
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("seq", pa.int64())])
    arrive(lab, [(key, 1, 5) for key in range(6)], schema)
    job = sync(lab, write=MERGE)
    lab.run(job, "incremental")
    arrive(lab, [(key, 2, 5) for key in range(6)], schema)
    lab.run(job, "incremental")
    cut = lab.rows()

    def clean(window: Any, lake: Any = source(delta("lake"), cursor="n")) -> Any:
        return lake

    lab.run(
        lab.define(clean, every="incremental", target=delta("clean"), write=MERGE), "incremental"
    )
    assert cut == lab.rows("clean")


@pytest.mark.parametrize(
    ("kind", "lookback", "first", "late", "next_"),
    [
        (pa.date32(), 7, date(2026, 4, 20), date(2026, 4, 15), date(2026, 4, 21)),
        (
            pa.timestamp("us", "UTC"),
            timedelta(milliseconds=500),
            datetime(2026, 4, 20, 0, 0, 1, tzinfo=timezone.utc),
            datetime(2026, 4, 20, 0, 0, 0, 600_000, tzinfo=timezone.utc),
            datetime(2026, 4, 20, 0, 0, 2, tzinfo=timezone.utc),
        ),
    ],
    ids=["days", "fraction of a second"],
)
def test_a_lookback_finds_the_late_row(lab, kind, lookback, first, late, next_):
    schema = pa.schema([("id", pa.int64()), ("c", kind)])
    job = sync(lab, "c", lookback=lookback)
    arrive(lab, [(1, first)], schema)
    lab.run(job, "incremental")
    arrive(lab, [(2, late)], schema)
    arrive(lab, [(3, next_)], schema)
    lab.run(job, "incremental")
    assert ids(lab) == [1, 2, 3]


def test_a_lookback_that_does_not_fit_the_cursor_is_refused_at_once(lab):
    schema = pa.schema([("id", pa.int64()), ("c", pa.timestamp("us", "UTC"))])
    arrive(lab, [(1, datetime(2026, 4, 20, tzinfo=timezone.utc))], schema)
    with pytest.raises(RefusedError, match="SP-R02"):
        lab.run(sync(lab, "c", lookback=5), "incremental")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["a", "a'b\\c\\u0041 %_\n\té", "b\\"]),
        (
            pa.timestamp("us", "UTC"),
            [
                datetime(1960, 1, 1, 1, 2, 3, 4, tzinfo=timezone.utc),
                datetime(2026, 3, 29, 1, 30, 0, 500_000, tzinfo=timezone.utc),
            ],
        ),
        (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
        (pa.decimal128(38, 2), [Decimal("-1.50"), Decimal("123456789012345678901234567890.12")]),
    ],
    ids=["string", "timestamp", "date", "decimal"],
)
def test_a_mark_is_exact_whatever_its_type(lab, kind, values):
    """Under a session with another zone, too."""
    schema = pa.schema([("id", pa.int64()), ("c", kind)])
    job, mark = sync(lab, "c"), None
    (window,) = lab.windows(job, "incremental")

    def read(after: Mark | None) -> tuple[list[int], Mark]:
        lake = lab.bind(job).sources["lake"]
        frame, reached = lake.read_increment(lab.spark, lake.pin([window])[window], after, None)
        kept = Mark.read(reached.as_text(), ("c",))  # as a receipt keeps it
        return sorted(item.id for item in frame.collect()), kept

    lab.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        with pinned_settings(lab.spark):
            for number, value in enumerate(values):
                first = 3 * number
                arrive(lab, [(first, value), (first + 1, value)], schema)
                found, mark = read(mark)
                assert found[-2:] == [first, first + 1]
                arrive(lab, [(first + 2, value)], schema)
                assert read(mark)[0] == [first, first + 1, first + 2]
    finally:
        lab.spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_cursor_of_another_type_starts_anew_and_goes_on(lab):
    schema = pa.schema([("id", pa.int64()), ("c", pa.date32())])
    arrive(lab, [(1, date(2026, 4, 20))], schema)

    def job(window: Any, lake: Any = source(delta("lake"), cursor="c")) -> Any:
        return lake.select("id")

    made = lab.define(job, every="incremental", target=TARGET, write=InsertNew(key="id"))
    lab.run(made, "incremental")
    other = pa.schema([("id", pa.int64()), ("c", pa.timestamp("us", "UTC"))])
    moment = datetime(2026, 4, 21, tzinfo=timezone.utc)
    arrive(lab, [(2, moment)], other, mode="overwrite", schema_mode="overwrite")
    lab.run(made, "incremental")
    assert ids(lab) == [1, 2]
    assert "timestamp" in lab.state(made, "incremental").receipt.high_water_mark


def test_threads_that_share_a_session_keep_its_settings_pinned(spark):
    """The first to end must not put the old settings back under the other."""

    name = "spark.sql.session.timeZone"
    spark.conf.set(name, "Europe/Berlin")
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with pinned_settings(spark):
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=other)
    try:
        thread.start()
        inside.wait(30)
        with pinned_settings(spark):
            leave.set()
            thread.join()
            assert spark.conf.get(name) == "UTC"
        assert spark.conf.get(name) == "Europe/Berlin"
    finally:
        leave.set()
        spark.conf.set(name, "UTC")


def test_a_null_bound_is_no_range(lab):
    arrive(lab, [(1, 1)])
    job = sync(lab)
    lab.spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(SetpointError, match="is not a range of n"):
            lab.run(job, "incremental", again=("x", "3"))
    finally:
        lab.spark.conf.unset("spark.sql.ansi.enabled")
