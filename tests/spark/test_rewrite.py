"""Merges into Delta that go without MERGE: the same rows, no lost writer, nothing left behind."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from setpoint import Merge, SetpointError, delta
from setpoint.targets.delta import merge as delta_merge
from setpoint.targets.delta import rewrite
from setpoint.targets.delta.removed import Removed

ORDERS = "id int, status string, seq long"
TARGET = delta("out")
FIRST = [(n, "new", 1) for n in range(1, 5)]


def merge(**rest: Any) -> Merge:
    return Merge(key="id", sequence_by="seq", **rest)


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """One entry for each MERGE that ran."""
    ran: list[bool] = []
    real = delta_merge.merge
    monkeypatch.setattr(delta_merge, "merge", lambda *a: (ran.append(True), real(*a)))
    return ran


def foreign(lab: Any, *rows: tuple[int, str, int]) -> None:
    """Rows that another program appends, in a file of their own."""
    ids, states, sequences = zip(*rows, strict=True)
    columns = {"id": pa.array(ids, pa.int32()), "status": pa.array(states), "seq": sequences}
    write_deltalake(str(lab.root / "out"), pa.table(columns), mode="append")


def test_changes_in_every_file_are_written_anew(lab, merges):
    """Updates, removals, losers and new rows in one; the batch and its folder are gone after."""
    write = merge(delete_when="status = 'gone'")
    lab.run(lab.job(FIRST, ORDERS, target=TARGET, write=write))
    foreign(lab, (5, "other", 1), (6, "other", 7))
    batch = [(1, "paid", 2), (2, "gone", 2), (5, "paid", 2), (6, "late", 2), (7, "new", 2)]
    batch += [(8, "gone", 2)]
    lab.run(lab.job(batch, ORDERS, target=TARGET, write=write), "2026-04-26")
    assert lab.rows() == [
        (1, "paid", 2),
        (3, "new", 1),
        (4, "new", 1),
        (5, "paid", 2),
        (6, "other", 7),
        (7, "new", 2),
    ]
    assert not merges
    live = set(DeltaTable(str(lab.root / "out")).file_uris())
    stored = {str(path) for path in (lab.root / "out" / "setpoint").rglob("*/merged/*.parquet")}
    assert live == stored
    (attempt,) = {Path(path).parents[1] for path in live}
    assert [path.name for path in attempt.rglob("*.parquet") if str(path) not in live] == []
    late = lab.job([(8, "late", 1)], ORDERS, target=TARGET, write=write)
    lab.run(late, "2026-04-27")
    assert len(lab.rows()) == 6


def test_new_rows_are_added_and_no_file_is_rewritten(lab, merges):
    """A batch of keys that the table does not hold, or that come too late, moves no old row."""
    lab.run(lab.job(FIRST, ORDERS, target=TARGET, write=merge()))
    before = lab.live()
    batch = [(1, "late", 0), (9, "new", 1)]
    lab.run(lab.job(batch, ORDERS, target=TARGET, write=merge()), "2026-04-26")
    assert lab.rows() == [*FIRST, (9, "new", 1)]
    assert set(before) < set(lab.live())
    assert not merges
    lab.run(lab.job([(2, "late", 0)], ORDERS, target=TARGET, write=merge()), "2026-04-27")
    assert lab.rows() == [*FIRST, (9, "new", 1)]
    assert not list((lab.root / "out" / "setpoint" / "job" / "2026-04-27").rglob("*.parquet"))


def test_files_without_a_change_are_left_to_merge(lab, merges, monkeypatch):
    """In a table that is not small, a file in which nothing changes stays as it is."""
    monkeypatch.setattr(rewrite, "_SMALL_TABLE", 0)
    lab.run(lab.job(FIRST, ORDERS, target=TARGET, write=merge()))
    foreign(lab, (50, "other", 1))
    apart = {file for file in lab.live() if "/setpoint/" not in file}
    batch = [(n, "paid", 2) for n in range(1, 60) if n != 50]
    lab.run(lab.job(batch, ORDERS, target=TARGET, write=merge()), "2026-04-26")
    assert merges
    assert apart
    assert apart <= set(lab.live())
    everywhere = [(n, "paid", 3) for n in range(1, 60)]
    lab.run(lab.job(everywhere, ORDERS, target=TARGET, write=merge()), "2026-04-27")
    assert len(merges) == 1
    assert lab.rows() == sorted(everywhere, key=repr)


@pytest.mark.parametrize("row", [(1, "other", 9), (99, "other", 1)])
def test_a_writer_that_was_faster_loses_nothing(lab, monkeypatch, row):
    """The table moved between the look and the commit: the merge looks again."""
    lab.run(lab.job(FIRST, ORDERS, target=TARGET, write=merge()))
    real, raced = rewrite.rewritten, list[bool]()

    def racing(*given: Any) -> Any:
        made = real(*given)
        if not raced:
            raced.append(True)
            foreign(lab, row)
        return made

    monkeypatch.setattr(rewrite, "rewritten", racing)
    batch = [(2, "paid", 2), (7, "new", 2)]
    lab.run(lab.job(batch, ORDERS, target=TARGET, write=merge()), "2026-04-26")
    rows = [(1, "new", 1), (3, "new", 1), (4, "new", 1), *batch, row]
    assert lab.rows() == sorted(rows)


def test_a_key_that_is_there_twice_is_brought_up_to_date_twice(lab, merges):
    """As MERGE does: how the second row came there is not ours to judge."""
    lab.run(lab.job(FIRST, ORDERS, target=TARGET, write=merge()))
    foreign(lab, (1, "other", 0))
    batch = [(1, "paid", 2), (9, "new", 2)]
    lab.run(lab.job(batch, ORDERS, target=TARGET, write=merge()), "2026-04-26")
    assert lab.rows() == [(1, "paid", 2), (1, "paid", 2), *FIRST[1:], (9, "new", 2)]
    assert not merges


def test_partitions_nulls_and_hostile_values(lab, merges, monkeypatch):
    """Values of partitions and keys that are null, and names that need quotes, are values."""
    monkeypatch.setattr(rewrite, "_ROWS_PER_FILE", 1)
    target = delta("out", partition_by=("part", "d"))
    write = Merge(key=("id", "d"), sequence_by="seq", null_keys="allow")
    schema = 'id string, part string, d date, seq long, `a.b"c` string'
    day = date(2026, 4, 25)
    first = [(None, None, day, 1, "x"), ("1", "a/b=c", None, 1, "x"), ("2", "é", day, 1, "x")]
    lab.run(lab.job(first, schema, target=target, write=write))
    batch = [(None, "p", day, 2, "y"), ("1", None, None, 2, "y"), ("3", "é", day, 2, "y")]
    batch += [("2", "é", day, 0, "late"), ("2", "e", day, 2, "y")]
    lab.run(lab.job(batch, schema, target=target, write=write), "2026-04-26")
    del batch[3]
    assert lab.rows() == sorted(batch, key=repr)
    assert not merges
    lab.run(lab.job([("3", "é", day, 3, "z")], schema, target=target, write=write), "2026-04-27")
    assert merges  # others may be at work in the other partitions
    batch[2] = ("3", "é", day, 3, "z")
    assert lab.rows() == sorted(batch, key=repr)


def test_a_batch_that_is_too_large_to_send_around_is_left_to_merge(lab, merges, monkeypatch):
    """Its removals count too."""
    write = merge(delete_when="status = 'gone'")
    lab.run(lab.job(FIRST, ORDERS, target=TARGET, write=write))
    monkeypatch.setattr(rewrite, "_LARGEST_BATCH", 500)
    gone = [(n, "gone", 2) for n in range(1, 4)]
    lab.run(lab.job(gone, ORDERS, target=TARGET, write=write), "2026-04-26")
    assert merges
    assert lab.rows() == FIRST[3:]


def test_earlier_versions_can_be_read_after_a_clean_up(lab):
    """What a merge replaced is time travel's, and recover leaves it alone."""
    lab.run(lab.job(FIRST, ORDERS, target=TARGET, write=merge()))
    for day in (26, 27):
        batch = [(n, "paid", day) for n in range(1, 5)]
        lab.run(lab.job(batch, ORDERS, target=TARGET, write=merge()), f"2026-04-{day}")
    job = lab.job(FIRST, ORDERS, target=TARGET, write=merge())
    assert list(lab.bind(job).target.leftovers()) == []
    for version, sequence in enumerate((1, 26, 27)):
        table = DeltaTable(str(lab.root / "out"), version).to_pyarrow_table()
        assert set(table.column("seq").to_pylist()) == {sequence}


def test_a_committed_version_stays_whole_when_another_merge_follows_at_once(lab, monkeypatch):
    """Clearing up after a publish leaves what it committed alone, also when it is replaced."""
    lab.run(lab.job(FIRST, ORDERS, target=TARGET, write=merge()))
    other = lab.job([(n, "other", 3) for n in range(1, 5)], ORDERS, target=TARGET, write=merge())
    real, raced = Removed.mark, list[bool]()

    def racing(*given: Any) -> None:
        if not raced:
            raced.append(True)
            lab.run(other, "2026-04-27")
        real(*given)

    monkeypatch.setattr(Removed, "mark", racing)
    batch = [(n, "paid", 2) for n in range(1, 5)]
    lab.run(lab.job(batch, ORDERS, target=TARGET, write=merge()), "2026-04-26")
    assert raced
    for version, sequence in enumerate((1, 2, 3)):
        table = DeltaTable(str(lab.root / "out"), version).to_pyarrow_table()
        assert set(table.column("seq").to_pylist()) == {sequence}


def test_a_batch_that_spark_cannot_send_around_is_left_to_merge(lab, merges):
    """Spark's own refusal, not a guess from the size of its files."""
    lab.run(lab.job(FIRST, ORDERS, target=TARGET, write=merge()))
    settings = {"maxBroadcastTableSize": "10", "autoBroadcastJoinThreshold": "-1"}
    for name, value in settings.items():
        lab.spark.conf.set(f"spark.sql.{name}", value)
    try:
        batch = [(1, "paid", 2), (9, "new", 2)]
        lab.run(lab.job(batch, ORDERS, target=TARGET, write=merge()), "2026-04-26")
    finally:
        for name in settings:
            lab.spark.conf.unset(f"spark.sql.{name}")
    assert merges
    assert lab.rows() == [(1, "paid", 2), *FIRST[1:], (9, "new", 2)]


def test_a_file_that_is_missing_from_the_stage_is_noticed(lab, monkeypatch):
    """Fewer rows in the files than Spark has written: nothing is committed."""
    lab.run(lab.job(FIRST, ORDERS, target=TARGET, write=merge()))
    real = rewrite.staged_files
    monkeypatch.setattr(rewrite, "staged_files", lambda *given: real(*given)[1:])
    with pytest.raises(SetpointError, match="SP-P04"):
        lab.run(lab.job([(1, "paid", 2)], ORDERS, target=TARGET, write=merge()), "2026-04-26")
    assert lab.rows() == FIRST


def test_a_table_without_row_counts_is_merged_by_merge(lab, merges):
    """What was written before the doubt is out of the way of MERGE."""
    lab.spark.conf.set("spark.databricks.delta.stats.collect", "false")
    try:
        path, written = lab.root / "out", lab.frame(FIRST, ORDERS)
        written.write.format("delta").partitionBy("status").save(str(path))
    finally:
        lab.spark.conf.unset("spark.databricks.delta.stats.collect")
    write = merge(delete_when="status = 'gone'")
    target = delta("out", partition_by="status")
    batch = [(1, "gone", 2), (2, "paid", 2)]
    lab.run(lab.job(batch, ORDERS, target=target, write=write), "2026-04-26")
    assert lab.rows() == [(2, "paid", 2), (3, "new", 1), (4, "new", 1)]
    assert merges
    assert lab.stages() == []


@pytest.mark.parametrize(
    ("kind", "stored", "value", "code"),
    [
        ("string", "VARCHAR(3)", "too long", "SP-T03"),
        ("struct<a: string>", "STRUCT<a: STRING NOT NULL>", (None,), "SP-S04"),
    ],
)
def test_what_the_table_forbids_is_refused(lab, kind, stored, value, code):
    """Lengths and nested nulls are the connector's to look at."""
    place = f"delta.`{lab.root / 'out'}`"
    lab.spark.sql(f"CREATE TABLE {place} (id INT, name {stored}, seq BIGINT) USING delta")
    job = lab.job([(1, value, 2)], f"id int, name {kind}, seq long", target=TARGET, write=merge())
    with pytest.raises(SetpointError) as caught:
        lab.run(job)
    assert caught.value.code == code
    assert lab.rows() == []


@pytest.mark.parametrize("write", [merge(), None])
def test_files_whose_names_two_writers_spell_differently_are_replaced_once(lab, write):
    """Spark leaves é in a path, deltalake escapes it: a removal has to name the same file."""
    day, schema = date(2026, 4, 25), "id int, status string, seq long, d date"
    target = delta("out", partition_by=("d", "status"))
    first = lab.frame([(1, "é", 1, day), (2, "é", 1, day)], schema)
    first.write.format("delta").partitionBy("d", "status").save(str(lab.root / "out"))
    rest = {"write": write} if write else {}
    rows = [(1, "é", 2, day), (2, "ü", 2, day)]
    lab.run(lab.job(rows, schema, target=target, **rest))
    assert lab.rows() == rows


def test_moments_in_the_names_of_folders_have_a_zone(lab):
    """A reader in another zone finds the moments that were written, and so does the next run."""
    moment = datetime(2026, 4, 25, 13, 0, tzinfo=timezone.utc)
    target = delta("out", partition_by="t")
    for rows in ([(1, moment)], [(2, moment)], [(3, moment)]):
        lab.run(lab.job(rows, "id int, t timestamp", every="hour", target=target), "2026-04-25T13")
    assert lab.rows() == [(3, moment)]
    frame = lab.spark.read.format("delta").load(str(lab.root / "out"))
    lab.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        assert [row[0] for row in frame.selectExpr("CAST(t AS STRING)").collect()] == [
            "2026-04-25 15:00:00"
        ]
    finally:
        lab.spark.conf.set("spark.sql.session.timeZone", "UTC")
