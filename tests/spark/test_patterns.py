"""The write patterns on Delta tables: what each leaves in the table, run by run."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from setpoint import (
    DeleteInsert,
    InsertNew,
    Merge,
    RefusedError,
    Replace,
    SetpointError,
    delta,
    publish,
)
from setpoint.targets.delta import merge as delta_merge
from setpoint.targets.delta import rewrite as delta_rewrite

DAY = date(2026, 4, 25)
NEXT = date(2026, 4, 26)
ORDERS = "id int, status string, seq long"
TARGET = delta("out")


def merge(**rest: Any) -> Merge:
    return Merge(key="id", sequence_by="seq", **rest)


def test_a_path_that_could_be_a_pattern_is_a_path(lab):
    """Batch and removed keys are read from the table's own folder, not from what it would match."""
    place = "{a,b}/x*"
    target, write = delta(place), merge(delete_when="status = 'gone'")
    lab.run(lab.job([(1, "new", 1), (2, "new", 1)], ORDERS, target=target, write=write))
    gone = lab.job([(1, "gone", 3), (3, "new", 3)], ORDERS, target=target, write=write)
    lab.run(gone, "2026-04-26")
    late = lab.job([(1, "new", 2), (2, "paid", 2)], ORDERS, target=target, write=write)
    lab.run(late, "2026-04-27")
    assert lab.rows(place) == [(2, "paid", 2), (3, "new", 3)]
    assert lab.run(gone, "2026-04-26").state == "unchanged"


def test_a_forced_merge_of_the_same_rows_rewrites_no_file(lab):
    job = lab.job([(1, "new", 1), (2, "new", 1)], ORDERS, target=TARGET, write=merge())
    lab.run(job)
    before = lab.live()
    assert lab.run(job, restate=True).only_receipt
    assert lab.live() == before


def test_a_receipt_alone_needs_no_spark_job(lab):
    """It names no file, so a table without features takes it from deltalake; others do not."""
    job = lab.job([(1, "new", 1)], ORDERS, target=TARGET, write=merge())
    lab.run(job)
    lab.run(lab.job([(1, "paid", 2)], ORDERS, target=TARGET, write=merge()), "2026-04-26")
    engines = []
    for statement in ("", "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"):
        if statement:
            lab.spark.sql(f"ALTER TABLE delta.`{lab.root / 'out'}` {statement}")
        assert lab.run(job, restate=True).only_receipt
        info = next(a["commitInfo"] for a in lab.actions(lab.version()) if "commitInfo" in a)
        engines.append("Spark" in info["engineInfo"])
    assert engines == [False, True]
    assert lab.state(job).generation == 3
    assert lab.rows() == [(1, "paid", 2)]


def test_a_merge_of_one_changed_row_leaves_the_files_of_the_others(lab, shelf):
    """Looking before merging keeps files in which nothing changes from being rewritten."""
    rows = shelf([(1, "new", 1)])
    job = lab.job(rows, ORDERS, target=TARGET, write=merge())
    lab.run(job)
    lab.run(lab.job([(2, "new", 1)], ORDERS, target=TARGET, write=merge()), "2026-04-26")
    before = lab.live()
    rows.rows = [(1, "new", 1), (3, "new", 1)]
    lab.run(job, force=True)
    assert set(before) <= set(lab.live())
    assert lab.rows() == [(1, "new", 1), (2, "new", 1), (3, "new", 1)]


def test_duplicates_in_the_batch_are_resolved_by_sequence(lab):
    rows = [(1, "old", 1), (1, "newest", 3), (1, "middle", 2)]
    outcome = lab.run(lab.job(rows, ORDERS, target=TARGET, write=merge()))
    assert lab.rows() == [(1, "newest", 3)]
    assert outcome.notes == ("2 of 3 rows were older versions or duplicates",)


def test_ties_are_resolved_the_same_way_in_one_batch_and_in_two(lab):
    one, other = (1, "a", 1), (1, "b", 1)
    together = lab.run(lab.job([one, other], ORDERS, target=delta("both"), write=merge()))
    assert "same sequence_by" in together.notes[1]
    lab.run(lab.job([one], ORDERS, target=delta("ab"), write=merge()), "2026-04-25")
    lab.run(lab.job([other], ORDERS, target=delta("ab"), write=merge()), "2026-04-26")
    lab.run(lab.job([other], ORDERS, target=delta("ba"), write=merge()), "2026-04-25")
    lab.run(lab.job([one], ORDERS, target=delta("ba"), write=merge()), "2026-04-26")
    assert lab.rows("both") == lab.rows("ab") == lab.rows("ba")


def test_rows_with_a_null_in_the_key_can_be_put_aside(lab, shelf):
    """They are in a table beside the target, once, and leave it when they are corrected."""
    rows = shelf([(1, "new", 1), (None, "lost", 1)])
    job = lab.job(rows, ORDERS, target=TARGET, write=merge(null_keys="quarantine"))
    outcome = lab.run(job)
    lab.run(job, force=True)
    assert lab.rows() == [(1, "new", 1)]
    assert lab.rows("out__quarantine") == [(None, "lost", 1, "2026-04-25")]
    assert "null in the key: 1 row, put aside in" in " ".join(outcome.notes)
    rows.rows = [(1, "new", 1), (2, "found", 1)]
    lab.run(job, force=True)
    assert lab.rows() == [(1, "new", 1), (2, "found", 1)]
    assert lab.rows("out__quarantine") == []


def test_insert_new_can_keep_the_stored_event_and_say_so(lab):
    write = InsertNew(key="id", conflicts="keep")
    lab.run(lab.job([(1, "a", 1)], ORDERS, target=TARGET, write=write))
    job = lab.job([(1, "b", 1), (2, "b", 1)], ORDERS, target=TARGET, write=write)
    outcome = lab.run(job, "2026-04-26")
    assert lab.rows() == [(1, "a", 1), (2, "b", 1)]
    assert "1 rows have a key that is stored with other content" in " ".join(outcome.notes)


def test_delete_insert_replaces_the_rows_of_its_condition(lab):
    write = DeleteInsert(where="status = 'EU'")
    schema = "id int, status string, d date"
    seed = lab.job([(1, "EU", DAY), (2, "US", DAY)], schema, target=delta("out"), write=Replace())
    lab.run(seed)
    target = delta("out", time="d")
    lab.run(lab.job([(3, "EU", DAY)], schema, target=target, write=write, name="eu"))
    assert lab.rows() == [(2, "US", DAY), (3, "EU", DAY)]


def test_delete_insert_refuses_rows_that_it_would_not_replace(lab):
    write = DeleteInsert(where="status = 'EU'")
    schema = "id int, status string, d date"
    job = lab.job([(3, "US", DAY)], schema, target=delta("out", time="d"), write=write)
    with pytest.raises(RefusedError, match="SP-O02"):
        lab.run(job)


def test_a_table_with_mapped_columns_takes_any_name(lab):
    """Blanks, semicolons and quotes in names, in the key and in the sequence."""
    names = ('order"; drop table x; --', "a b", "select")
    columns = f"`{names[0]}` string, `{names[1]}` bigint, `{names[2]}` string"
    path = lab.root / "out"
    lab.spark.sql(
        f"CREATE TABLE delta.`{path}` ({columns}) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    write = Merge(key=names[0], sequence_by=names[1])
    lab.run(lab.job([("k", 1, "'"), ("l", 1, '"')], columns, target=TARGET, write=write))
    lab.run(lab.job([("k", 2, ";")], columns, target=TARGET, write=write), "2026-04-26")
    stored = lab.spark.read.format("delta").load(str(path)).collect()
    assert sorted(map(tuple, stored)) == [("k", 2, ";"), ("l", 1, '"')]


@pytest.mark.parametrize("condition", ["status = 'EU') OR (true", "status ==== 'x'", "nowhere = 1"])
def test_a_text_that_is_no_condition_is_refused_before_anything_is_written(lab, condition):
    """Between the parentheses of another condition the first would mean every row."""
    for write in (DeleteInsert(where=condition), merge(delete_when=condition)):
        with pytest.raises(RefusedError, match="SP-D09"):
            lab.run(lab.job([(1, "EU", 1)], ORDERS, target=TARGET, write=write))
    assert not (lab.root / "out" / "_delta_log").exists()


def test_removed_keys_are_remembered_when_the_log_is_cleaned_up(lab):
    """Receipts go with the log's clean-up; what they said of removed keys does not."""
    write = merge(delete_when="status = 'gone'")
    lab.run(lab.job([(1, "new", 1), (2, "new", 1)], ORDERS, target=TARGET, write=write))
    lab.run(lab.job([(1, "gone", 5)], ORDERS, target=TARGET, write=write), "2026-04-26")
    table = lab.table()
    table.optimize.compact()
    table.create_checkpoint()
    for version in range(lab.version()):
        (lab.root / "out" / "_delta_log" / f"{version:020d}.json").unlink()
    lab.run(lab.job([(1, "late", 4)], ORDERS, target=TARGET, write=write), "2026-04-24")
    assert lab.rows() == [(2, "new", 1)]


def test_keys_that_a_crashed_attempt_wanted_removed_are_not_remembered(lab):
    write = merge(delete_when="status = 'gone'")
    lab.run(lab.job([(2, "new", 1)], ORDERS, target=TARGET, write=write))
    with pytest.raises(SetpointError):
        lab.run(
            lab.job([(1, "gone", 5)], ORDERS, target=TARGET, write=write),
            "2026-04-26",
            fault="audited:raise",
        )
    lab.run(lab.job([(1, "late", 4)], ORDERS, target=TARGET, write=write), "2026-04-24")
    assert lab.rows() == [(1, "late", 4), (2, "new", 1)]


def test_an_older_frame_is_superseded_too(lab):
    """publish() looks at the newest window as run does."""
    first = lab.spark.createDataFrame([(1, "a", 1)], ORDERS)
    older = lab.spark.createDataFrame([(2, "b", 1)], ORDERS)
    publish(first, target=TARGET, write=Replace(), window="2026-04-26")
    outcome = publish(older, target=TARGET, write=Replace(), window="2026-04-25")
    assert outcome.reason == "superseded by 2026-04-26"
    assert lab.rows() == [(1, "a", 1)]


def test_a_removal_and_an_older_row_that_are_committed_at_once(lab, monkeypatch):
    """The removal changes no file, so the connector sees no conflict; the row is removed yet."""
    write = merge(delete_when="status = 'gone'")
    lab.run(lab.job([(2, "new", 1)], ORDERS, target=TARGET, write=write))
    removal = lab.job([(1, "gone", 5)], ORDERS, target=TARGET, write=write)
    late = lab.job([(1, "late", 4), (3, "new", 1)], ORDERS, target=TARGET, write=write)

    monkeypatch.setattr(delta_rewrite, "is_likely", lambda *_: False)
    real, raced = delta_merge.merge, list[bool]()

    def racing(*given: Any) -> None:
        """Somebody else removes the key after our look and before our commit."""
        if not raced:
            raced.append(True)
            lab.run(removal, "2026-04-26")
        real(*given)

    monkeypatch.setattr(delta_merge, "merge", racing)
    lab.run(late, "2026-04-24")
    assert raced
    assert lab.rows() == [(2, "new", 1), (3, "new", 1)]
    assert lab.run(late, "2026-04-24").state == "unchanged"


def test_a_merge_of_no_rows_leaves_the_active_session_alone(lab):
    """The session in which a MERGE runs has settings that no other write may get."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    write = Merge(key="id", sequence_by="seq", when_missing="delete")
    schema = "id int, status string, seq long"
    lab.run(lab.job([(1, "new", 1)], schema, target=delta("out"), write=write), "2026-04-25")
    lab.run(lab.job([], schema, target=delta("out"), write=write), "2026-04-26")
    assert lab.rows() == []
    assert SparkSession.getActiveSession() is active
