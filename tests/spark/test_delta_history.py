"""What a Delta log says of its past: names of columns, numbers of transactions, two at one time."""

from __future__ import annotations

from typing import Any

import pytest
from test_contract import DAY, NEXT, row
from test_definition_changes import FIRST, MERGE, SECOND

from setpoint import delta
from setpoint.flow.run import plan_windows
from setpoint.flow.steps import How
from setpoint.targets.delta import commit, merge, publisher, rewrite

ORDERS = "id int, status string, seq long, d date"
NO_VECTORS = "'delta.enableDeletionVectors' = 'false'"
BY_NAME = (
    "'delta.columnMapping.mode' = 'name', "
    "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"
)


def place_of(lab: Any) -> str:
    return f"delta.`{lab.root}/out`"


def make(lab: Any, columns: str, partitioned: str = "") -> None:
    """A table whose columns can be renamed."""
    place = place_of(lab)
    lab.spark.sql(
        f"CREATE TABLE {place} ({columns}) USING delta {partitioned} TBLPROPERTIES ({NO_VECTORS})"
    )
    lab.spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ({BY_NAME})")


def rename(lab: Any, *pairs: tuple[str, str]) -> None:
    for old, new in pairs:
        lab.spark.sql(f"ALTER TABLE {place_of(lab)} RENAME COLUMN {old} TO {new}")


def rows_of(lab: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(item) for item in lab.spark.read.table(place_of(lab)).collect())


@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (d, e)"], ids=["files", "partitions"])
def test_the_slice_is_found_by_the_column_that_has_the_name_now(
    lab: Any, has_delta_connector: bool, partitioned: str
) -> None:
    """Files keep the statistics and partition values of a column under its first name."""
    make(lab, "id int, d date, e date", partitioned)
    rename(lab, ("d", "x"), ("e", "d"), ("x", "e"))
    rows = [(1, NEXT, DAY), (2, NEXT, DAY)]
    job = lab.job(rows, "id int, e date, d date", target=delta("out", time="d"))
    lab.run(job)
    lab.spark.sql(f"DELETE FROM {place_of(lab)} WHERE id = 1")
    assert not lab.state(job).untouched
    assert lab.run(job).state == "published"
    assert rows_of(lab) == rows


def test_a_column_that_took_the_name_of_another_is_not_taken_for_it(
    lab: Any, has_delta_connector: bool
) -> None:
    make(lab, "id int, d date")
    rename(lab, ("d", "ordered"))
    lab.spark.sql(f"ALTER TABLE {place_of(lab)} ADD COLUMN d date")
    rows = [(1, NEXT, DAY), (2, NEXT, DAY)]
    job = lab.job(rows, "id int, ordered date, d date", target=delta("out", time="d"))
    lab.run(job)
    lab.spark.sql(f"DELETE FROM {place_of(lab)} WHERE id = 1")
    assert lab.run(job).state == "published"
    assert rows_of(lab) == rows


def test_a_deletion_in_a_partition_with_a_stored_name_is_seen(
    lab: Any, has_delta_connector: bool
) -> None:
    """A table that was made with column mapping keeps its partitions under made-up names."""
    lab.spark.sql(
        f"CREATE TABLE {place_of(lab)} (id int, a string, d date) USING delta "
        f"PARTITIONED BY (d) TBLPROPERTIES ({BY_NAME}, {NO_VECTORS})"
    )
    target = delta("out", partition_by="d")
    rows = [(1, "x", DAY), (2, "y", DAY)]
    job = lab.job(rows, "id int, a string, d date", target=target)
    lab.run(job)
    lab.spark.sql(f"DELETE FROM {place_of(lab)} WHERE id = 1")
    assert lab.run(job).state == "published"
    assert rows_of(lab) == rows


def test_transactions_that_the_table_forgets_hide_no_publish(
    lab: Any, has_delta_connector: bool
) -> None:
    """`delta.setTransactionRetentionDuration` takes fences away; the log still has the receipts."""
    place = place_of(lab)
    one, other = lab.job([(1, 1.0, DAY)]), lab.job([(2, 2.0, DAY)])
    lab.run(one)
    lab.run(one, force=True)
    lab.spark.sql(
        f"ALTER TABLE {place} SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = "
        "'interval 1 seconds', 'delta.checkpointInterval' = '1')"
    )
    lab.spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('a' = 'b')")  # a checkpoint without them
    lab.run(other)
    windows = lab.windows(one, "2026-04-20..2026-05-20")
    plans = plan_windows(lab.bind(one), windows, lab.world(), parameters={}, how=How(False))
    assert not next(plan for plan in plans if plan.run.window.id == FIRST).is_unchanged
    lab.run(one)
    assert lab.rows() == [(1, 1.0, DAY)]


@pytest.mark.parametrize("through", ["files", "merge"])
def test_of_two_publishes_of_one_window_at_once_the_slower_one_looks_again(
    lab: Any, has_delta_connector: bool, monkeypatch: pytest.MonkeyPatch, through: str
) -> None:
    """Both saw the same generation, in different versions of the table: one of them must lose."""
    target = delta("out", time="d") if through == "files" else delta("out")
    rest = {"target": target} if through == "files" else {"target": target, "write": MERGE}
    monkeypatch.setattr(rewrite, "is_likely", lambda *_: False)

    def job(number: int, status: str, day: Any = DAY) -> Any:
        return lab.job([row(number, status, 5, day=day)], ORDERS, **rest)

    winner, loser = job(1, "winner"), job(1, "loser")
    lab.run(job(1, "first"))
    seen = lab.version()
    lab.run(job(9, "other", NEXT), SECOND)
    module, name = (commit, "commit_through_connector") if through == "files" else (merge, "merge")
    write, opened, done = getattr(module, name), publisher.open_snapshot, list[str]()

    def open_late(storage: Any, version: Any = None) -> Any:
        if version is None and done == ["loser"]:
            done.append("winner")
            return opened(storage, seen)  # it looked before the other window came
        return opened(storage, version)

    def write_after(*args: Any) -> Any:
        if not done:
            done.append("loser")
            lab.run(winner)
        return write(*args)

    monkeypatch.setattr(module, name, write_after)
    monkeypatch.setattr(publisher, "open_snapshot", open_late)
    lab.run(loser)
    assert done == ["loser", "winner"]
    monkeypatch.undo()
    lab.run(winner)
    assert row(1, "winner", 5) in rows_of(lab)
