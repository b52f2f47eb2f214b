"""What an Iceberg table says of its past: late numbers, rollbacks, properties set back."""

from __future__ import annotations

from typing import Any

import pytest
from test_contract import Cell, _sorted, row
from test_definition_changes import FIRST, MERGE, ONE, SECOND, TWO, by_day, expire

from setpoint import Merge, Overwrite, Replace, iceberg, not_null

SCHEMA = "id int, status string, seq long, d date"
WITH_REMOVALS = Merge(key="id", sequence_by="seq", delete_when="status = 'gone'")
COMPACT = (
    "CALL lake.system.rewrite_data_files("
    "table => 'sales.orders', options => map('rewrite-all','true'))"
)
PROPERTY = "setpoint.generations.job"


def cell_of(lab: Any, lake: Any, **layout: Any) -> Cell:
    return Cell(lab, "", "iceberg", iceberg("sales.orders", **layout), lake.rows, lake.snapshots)


def make_v1(lake: Any, partitioned: str = "") -> None:
    """A table of format version 1, whose commits have no numbers."""
    lake.catalog.create_namespace_if_not_exists("sales")
    lake.spark.sql(
        f"CREATE TABLE lake.sales.orders ({SCHEMA}) USING iceberg {partitioned} "
        "TBLPROPERTIES ('format-version'='1')"
    )


def upgrade(lake: Any) -> None:
    lake.spark.sql("ALTER TABLE lake.sales.orders SET TBLPROPERTIES ('format-version'='2')")


def roll_back(lake: Any, snapshot: int) -> None:
    lake.spark.sql(f"CALL lake.system.rollback_to_snapshot('sales.orders', {snapshot})")


def publish(lab: Any, rows: Any, day: str) -> None:
    lab.run(lab.job(rows, SCHEMA, target=iceberg("sales.orders"), write=WITH_REMOVALS), day)


@pytest.mark.parametrize("write", [Overwrite(), MERGE], ids=lambda item: item.name)
def test_a_deletion_after_an_upgrade_is_seen(lab: Any, lake: Any, write: Any) -> None:
    """A commit is known by its snapshot's id before the upgrade, and by its number after it."""
    make_v1(lake, "PARTITIONED BY (d)")
    by = {"partition_by": "d"} if isinstance(write, Overwrite) else {}
    job = by_day(cell_of(lab, lake, **by), write)
    lab.run(job, FIRST)
    upgrade(lake)
    lake.spark.sql("DELETE FROM lake.sales.orders WHERE id = 1")
    assert lab.run(job, FIRST).state == "published"
    assert lake.rows() == _sorted(ONE)


def test_without_numbers_the_newest_window_is_known_after_expiry(lab: Any, lake: Any) -> None:
    make_v1(lake)
    cell = cell_of(lab, lake)
    job = by_day(cell, Replace())
    lab.run(job, FIRST)
    lab.run(job, SECOND)
    lake.spark.sql(COMPACT)
    expire(lake)
    lab.run(by_day(cell, Replace(), audits=[not_null("id")]), FIRST)
    assert lake.rows() == _sorted(TWO)


def test_without_numbers_removed_keys_are_known_after_expiry(lab: Any, lake: Any) -> None:
    make_v1(lake)
    publish(lab, [row(1, "a", 1), row(5)], "2026-04-20")
    publish(lab, [row(1, "gone", 9)], FIRST)
    lake.spark.sql(COMPACT)
    expire(lake)
    publish(lab, [row(1, "late", 3)], SECOND)
    assert lake.rows() == [row(5)]


def test_a_window_that_was_rolled_back_over_an_upgrade_supersedes_nothing(
    lab: Any, lake: Any
) -> None:
    make_v1(lake)
    cell = cell_of(lab, lake)
    job, changed = by_day(cell, Replace()), by_day(cell, Replace(), audits=[not_null("id")])
    lab.run(job, FIRST)
    first = lake.table().current_snapshot().snapshot_id
    upgrade(lake)
    lab.run(job, SECOND)
    roll_back(lake, first)
    assert "superseded" not in lab.plan(changed, FIRST).reason
    assert lab.run(changed, FIRST).state == "published"


def test_a_rolled_back_window_supersedes_nothing_after_compaction_and_expiry(
    lab: Any, lake: Any
) -> None:
    """No publish was between that could have written the rollback down; earlier metadata tells."""
    cell = cell_of(lab, lake)
    job, changed = by_day(cell, Replace()), by_day(cell, Replace(), audits=[not_null("id")])
    lab.run(job, FIRST)
    first = lake.table().current_snapshot().snapshot_id
    lab.run(job, SECOND)
    roll_back(lake, first)
    lake.spark.sql(COMPACT)
    expire(lake)
    assert "superseded" not in lab.plan(changed, FIRST).reason
    lab.run(changed, FIRST)
    assert lake.rows() == _sorted(ONE)


def test_a_window_that_expired_in_the_ordinary_way_still_supersedes(lab: Any, lake: Any) -> None:
    cell = cell_of(lab, lake)
    job, changed = by_day(cell, Replace()), by_day(cell, Replace(), audits=[not_null("id")])
    lab.run(job, FIRST)
    lab.run(job, SECOND)
    lake.spark.sql(COMPACT)
    expire(lake)
    assert "superseded" in lab.plan(changed, FIRST).reason


@pytest.mark.parametrize("kept", ["the newest", "all but one in the middle"])
def test_a_window_supersedes_after_pyiceberg_expired_it(lab: Any, lake: Any, kept: str) -> None:
    """It takes its parent out of a snapshot: that looks like a snapshot that never had one."""
    cell = cell_of(lab, lake)
    job, changed = by_day(cell, Replace()), by_day(cell, Replace(), audits=[not_null("id")])
    for day in (FIRST, SECOND):
        lab.run(job, day)
    lake.spark.sql("INSERT INTO lake.sales.orders SELECT * FROM lake.sales.orders WHERE id < 0")
    lake.spark.sql("DELETE FROM lake.sales.orders WHERE id < 2")
    rows = lake.rows()
    ids = [item.snapshot_id for item in lake.table().snapshots()]
    gone = ids[:-1] if kept == "the newest" else ids[-2:-1]
    lake.table().maintenance.expire_snapshots().by_ids(gone).commit()
    assert "superseded" in lab.plan(changed, FIRST).reason
    lab.run(changed, FIRST)
    assert lake.rows() == rows


@pytest.mark.parametrize("others_publish", [False, True])
def test_a_window_that_was_rolled_back_to_its_earlier_publish_supersedes_after_expiry(
    lab: Any, lake: Any, others_publish: bool
) -> None:
    cell = cell_of(lab, lake)
    job, changed = by_day(cell, Replace()), by_day(cell, Replace(), audits=[not_null("id")])
    lab.run(job, FIRST)
    lab.run(job, SECOND)
    second = lake.table().current_snapshot().snapshot_id
    lab.run(changed, SECOND, force=True)
    roll_back(lake, second)
    if others_publish:
        lab.run(changed, FIRST, force=True)
    lake.spark.sql(COMPACT)
    rows = lake.rows()
    expire(lake)
    assert "superseded" in lab.plan(job, FIRST).reason
    lab.run(job, FIRST)
    assert lake.rows() == rows


def test_a_window_that_was_rolled_back_is_known_after_pyiceberg_expired_all(
    lab: Any, lake: Any
) -> None:
    cell = cell_of(lab, lake)
    job, changed = by_day(cell, Replace()), by_day(cell, Replace(), audits=[not_null("id")])
    lab.run(job, FIRST)
    first = lake.table().current_snapshot().snapshot_id
    lab.run(job, SECOND)
    roll_back(lake, first)
    lake.spark.sql(COMPACT)
    current = lake.table().current_snapshot().snapshot_id
    others = [s.snapshot_id for s in lake.table().snapshots() if s.snapshot_id != current]
    lake.table().maintenance.expire_snapshots().by_ids(others).commit()
    lab.run(changed, FIRST)
    assert lake.rows() == _sorted(ONE)


def test_a_removal_that_was_rolled_back_keeps_nothing_out(lab: Any, lake: Any) -> None:
    publish(lab, [row(5)], "2026-04-20")
    before = lake.table().current_snapshot().snapshot_id
    publish(lab, [row(1, "gone", 9)], FIRST)
    roll_back(lake, before)
    lake.spark.sql(COMPACT)
    expire(lake)
    publish(lab, [row(1, "late", 3)], SECOND)
    assert row(1, "late", 3) in lake.rows()


def test_a_property_that_was_set_back_hides_no_publish(lab: Any, lake: Any) -> None:
    target = iceberg("sales.orders", partition_by="d")
    one, other = (lab.job([row(n)], SCHEMA, target=target) for n in (1, 2))
    lab.run(one)
    kept = lake.table().properties[PROPERTY]
    lab.run(other)
    with lake.table().transaction() as change:
        change.set_properties({PROPERTY: kept})
    lab.run(one)
    assert lake.rows() == [row(1)]


def test_a_property_that_somebody_wrote_over_is_made_again(lab: Any, lake: Any) -> None:
    job = lab.job([row(1)], SCHEMA, target=iceberg("sales.orders", partition_by="d"))
    lab.run(job)
    with lake.table().transaction() as change:
        change.set_properties({PROPERTY: "x"})
    assert lab.run(job).state == "unchanged"
    assert lab.run(job, force=True).receipt.generation == 2
    assert lake.table().properties[PROPERTY].startswith("{")
    assert lake.rows() == [row(1)]
