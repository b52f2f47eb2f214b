"""The promise on real Spark and real Delta tables: a run is a statement about a window."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import setpoint
from setpoint import RefusedError, Window, delta, source
from setpoint.flow.plan import Bound
from setpoint.flow.run import plan_windows, run_window
from setpoint.project.config import Config
from setpoint.project.wiring import Project
from setpoint.targets.delta.target import DeltaTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAY = dt.date(2026, 4, 25)
BEFORE, AFTER = DAY - dt.timedelta(1), DAY + dt.timedelta(1)
A = [(1, 1.5, DAY), (2, 2.5, DAY)]
B = [(1, 9.0, DAY), (3, 3.0, DAY), (4, 4.0, DAY)]


def append(place: Any, rows: list[tuple[Any, ...]]) -> None:
    """Somebody else's write."""
    ids, amounts, days = zip(*rows, strict=True)
    table = pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "amount": pa.array(amounts, pa.float64()),
            "d": pa.array(days, pa.date32()),
        }
    )
    write_deltalake(str(place), table, mode="append", partition_by=["d"])


def test_one_run_and_three_runs_leave_the_same_state(lab: Any) -> None:
    """The second and the third run find the window done: no new version, no new file."""
    job = lab.job(A)
    assert lab.run(job).state == "published"
    rows, live, version = lab.rows(), lab.live(), lab.version()
    assert rows == sorted(A)
    assert [lab.run(job).state for _ in range(2)] == ["unchanged", "unchanged"]
    assert (lab.rows(), lab.live(), lab.version()) == (rows, live, version)


def test_a_forced_run_publishes_what_the_code_gives_now(lab: Any, shelf: Any) -> None:
    """--force runs although nothing changed, and its rows are the ones that stay."""
    held = shelf(A)
    job = lab.job(held)
    lab.run(job)
    held.rows = B
    assert lab.run(job).state == "unchanged"
    outcome = lab.run(job, force=True)
    assert outcome.state == "published"
    assert lab.rows() == sorted(B)
    assert lab.state(job).generation == 2


def test_a_forced_run_stays_forced_when_it_is_retried(lab: Any, shelf: Any) -> None:
    """A passing failure does not turn a forced run into an unchanged one."""
    held = shelf(A)
    job = lab.job(held)
    lab.run(job)
    held.rows = B
    outcome = lab.run(job, force=True, fault="read@1:raise")
    assert (outcome.state, outcome.tries) == ("published", 2)
    assert lab.rows() == sorted(B)


@pytest.mark.parametrize("before", ["nothing", "rows", "empty"])
def test_an_empty_result_leaves_an_empty_slice(lab: Any, before: str) -> None:
    """Over nothing, over rows and over an empty slice: no row, a receipt, one more generation."""
    generation = 0
    if before != "nothing":
        lab.run(lab.job([(9, 9.0, AFTER)]), "2026-04-26")
        lab.run(lab.job(A if before == "rows" else []))
        generation = 1
    neighbour = [(9, 9.0, AFTER)] if generation else []
    empty = lab.job([], "id int, amount double,  d date")  # other code than the first empty run
    outcome = lab.run(empty)
    assert outcome.state == "published"
    assert lab.rows() == neighbour
    state = lab.state(empty)
    assert state.generation == generation + 1
    assert (state.receipt.rows, state.untouched, state.rows) == (0, True, 0)
    assert lab.run(empty).state == "unchanged"


def test_an_empty_result_of_a_join_leaves_an_empty_slice(lab: Any) -> None:
    """Adaptive execution may drop the whole plan of an empty join; the slice is still emptied."""
    lab.run(lab.job(A))
    spark = lab.spark

    def joined(window: Window) -> DataFrame:
        left = spark.createDataFrame(A, "id int, amount double, d date").repartition(2, "id")
        right = spark.createDataFrame([(77,)], "id int").repartition(2, "id")
        return left.join(right, "id")

    job = lab.define(joined)
    lab.run(job)
    assert lab.rows() == []
    assert lab.state(job).receipt.rows == 0


@pytest.mark.parametrize("stray", [AFTER, BEFORE, None])
def test_a_row_outside_the_window_is_refused_with_an_example(
    lab: Any, stray: dt.date | None
) -> None:
    """One stray row refuses the run; nothing is written, nothing is left behind."""
    lab.run(lab.job([(9, 9.0, AFTER)]), "2026-04-26")
    rows, version = lab.rows(), lab.version()
    with pytest.raises(RefusedError) as caught:
        lab.run(lab.job([*A, (666, 6.0, stray)]))
    assert caught.value.code == "SP-O02"
    assert "1 of 3 rows" in caught.value.what
    assert "666" in caught.value.what
    assert (lab.rows(), lab.version()) == (rows, version)
    assert len(lab.stages()) == 1


def test_a_row_outside_is_refused_before_the_table_exists(lab: Any) -> None:
    """A refused first run creates no table."""
    with pytest.raises(RefusedError):
        lab.run(lab.job([(1, 1.0, AFTER)]))
    assert not DeltaTable.is_deltatable(str(lab.root / "out"))


def test_new_run_key_with_the_same_rows_commits_the_receipt_alone(lab: Any) -> None:
    """Other code, same rows, other order and other files: no data file is touched."""
    lab.run(lab.job(A))
    live, version = lab.live(), lab.version()
    outcome = lab.run(lab.job(list(reversed(A))))
    assert outcome.only_receipt
    assert lab.version() == version + 1
    kinds = {kind for action in lab.actions(lab.version()) for kind in action}
    assert not {"add", "remove"} & kinds
    assert {"txn", "commitInfo"} <= kinds
    assert lab.live() == live
    assert lab.state(lab.job(list(reversed(A)))).generation == 2
    assert lab.run(lab.job(list(reversed(A)))).state == "unchanged"
    assert sorted(lab.stages()) == sorted({path.rsplit("/", 1)[0] for path in live})


def test_changed_code_republishes(lab: Any) -> None:
    """A run of other code replaces the slice and counts one generation."""
    lab.run(lab.job(A))
    plan = lab.plan(lab.job(B), "2026-04-25")
    assert plan.reason == "the code changed"
    assert lab.run(lab.job(B)).state == "published"
    assert lab.rows() == sorted(B)
    assert lab.state(lab.job(B)).generation == 2


def test_a_to_b_to_a_republishes_a(lab: Any) -> None:
    """The latest receipt counts, never an older one with the same run key."""
    for rows in (A, B, A):
        assert lab.run(lab.job(rows)).state == "published"
        assert lab.rows() == sorted(rows)
    assert lab.state(lab.job(A)).generation == 3


def test_changed_parameter_runs(lab: Any) -> None:
    """A parameter is part of the run key."""
    spark = lab.spark

    def scaled(window: Window, factor: int = 1) -> DataFrame:
        from pyspark.sql import functions as F

        return spark.createDataFrame([(1, 2.0)], "id int, amount double").select(
            "id", (F.col("amount") * factor).alias("amount"), window.date.alias("d")
        )

    job = lab.define(scaled)
    lab.run(job)
    assert lab.run(job).state == "unchanged"
    assert lab.plan(job, "2026-04-25", parameters={"factor": 3}).reason == "the parameters changed"
    lab.run(job, parameters={"factor": 3})
    assert lab.rows() == [(1, 6.0, DAY)]


def test_changed_input_runs_and_other_windows_do_not(lab: Any) -> None:
    """New rows in the source make their own window stale and no other."""
    append(lab.root / "lake", [*A, (5, 5.0, AFTER)])

    def copied(window: Window, orders: DataFrame = source(delta("lake"), time="d")) -> DataFrame:
        return orders

    job = lab.define(copied)
    assert lab.run(job).receipt.rows == 2
    assert lab.run(job, "2026-04-26").receipt.rows == 1
    append(lab.root / "lake", [(6, 6.0, AFTER)])
    assert lab.run(job).state == "unchanged"
    assert lab.plan(job, "2026-04-26").reason == "the input orders (rows: +1) changed"
    assert lab.run(job, "2026-04-26").receipt.rows == 2
    assert lab.rows() == sorted([*A, (5, 5.0, AFTER), (6, 6.0, AFTER)])


def test_a_lookup_is_read_whole_and_its_change_is_seen(lab: Any) -> None:
    """whole=True reads every row, and any change of the table makes the window stale."""
    append(lab.root / "lookup", [(1, 10.0, BEFORE), (2, 20.0, AFTER)])
    spark = lab.spark

    def looked_up(
        window: Window, prices: DataFrame = source(delta("lookup"), whole=True)
    ) -> DataFrame:
        ids = spark.createDataFrame([(1,), (2,)], "id int")
        return ids.join(prices.drop("d"), "id").withColumn("d", window.date)

    job = lab.define(looked_up)
    lab.run(job)
    assert lab.rows() == [(1, 10.0, DAY), (2, 20.0, DAY)]
    append(lab.root / "lookup", [(2, 21.0, DAY)])
    lab.run(job)
    assert lab.rows() == [(1, 10.0, DAY), (2, 20.0, DAY), (2, 21.0, DAY)]


def test_a_foreign_append_is_noticed_and_healed(lab: Any) -> None:
    """Rows that somebody else put into the slice are gone after the next run."""
    job = lab.job(A)
    lab.run(job)
    append(lab.root / "out", [(66, 6.0, DAY)])
    assert lab.plan(job, "2026-04-25").reason.startswith("somebody else changed")
    lab.run(job)
    assert lab.rows() == sorted(A)


def test_a_foreign_delete_is_noticed_and_healed(lab: Any) -> None:
    """Rows that somebody else removed are back after the next run."""
    job = lab.job(A)
    lab.run(job)
    lab.table().delete("id = 1")
    assert lab.run(job).state == "published"
    assert lab.rows() == sorted(A)


def test_a_foreign_write_into_another_slice_changes_nothing_here(lab: Any) -> None:
    """Only the window's own slice counts."""
    job = lab.job(A)
    lab.run(job)
    append(lab.root / "out", [(66, 6.0, AFTER)])
    assert lab.run(job).state == "unchanged"
    lab.run(lab.job(B))
    assert lab.rows() == sorted([*B, (66, 6.0, AFTER)])


def test_a_restored_table_is_healed(lab: Any) -> None:
    """RESTORE brings old rows back; the receipt in the log is newer, so the window runs."""
    lab.run(lab.job(A))
    lab.run(lab.job(B))
    lab.table().restore(0)
    assert lab.rows() == sorted(A)
    assert lab.run(lab.job(B)).state == "published"
    assert lab.rows() == sorted(B)
    assert lab.state(lab.job(B)).generation == 3


def test_a_restore_to_before_the_window_existed_is_healed(lab: Any) -> None:
    """Also when the restored version has no row of the window."""
    lab.run(lab.job([(9, 9.0, AFTER)]), "2026-04-26")
    lab.run(lab.job(A))
    lab.table().restore(0)
    assert lab.run(lab.job(A)).state == "published"
    assert lab.rows() == sorted([*A, (9, 9.0, AFTER)])


def test_optimize_leaves_the_window_unchanged(lab: Any) -> None:
    """Compaction moves rows to other files; the window still holds this run."""
    rows = [(n, float(n), DAY) for n in range(6)]
    spark = lab.spark

    def spread(window: Window) -> DataFrame:
        return spark.createDataFrame(rows, "id int, amount double, d date").repartition(3)

    job = lab.define(spread)
    lab.run(job)
    assert len(lab.live()) > 1
    lab.table().optimize.compact()
    assert len(lab.live()) == 1
    assert lab.run(job).state == "unchanged"
    assert lab.rows() == rows


def test_a_foreign_write_after_optimize_is_still_noticed(lab: Any) -> None:
    """Being lenient with compaction does not hide a write that follows it."""
    job = lab.job(A)
    lab.run(job)
    append(lab.root / "out", [(66, 6.0, DAY)])
    lab.table().optimize.compact()
    assert lab.run(job).state == "published"
    assert lab.rows() == sorted(A)


def test_neighbours_stay_byte_for_byte(lab: Any) -> None:
    """Re-runs of one window leave every other file and its entry in the log alone."""
    lab.run(lab.job([(7, 7.0, BEFORE)]), "2026-04-24")
    lab.run(lab.job([(9, 9.0, AFTER)]), "2026-04-26")
    neighbours = lab.live()
    entries = _adds(lab)
    for rows in (A, B, [], A):
        lab.run(lab.job(rows))
        live = lab.live()
        assert {path: live[path] for path in neighbours} == neighbours
        for path, entry in entries.items():
            assert _adds(lab)[path] == entry
    for version in range(2, lab.version() + 1):
        removed = {a["remove"]["path"] for a in lab.actions(version) if "remove" in a}
        assert not removed & set(entries)


def _adds(lab: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for version in range(lab.version() + 1):
        for action in lab.actions(version):
            if "add" in action:
                found[action["add"]["path"]] = action["add"]
    return found


def test_a_grain_change_does_not_hide_what_it_replaced(lab: Any) -> None:
    """An hour that was replaced inside a day makes the day stale, though no receipt names it."""
    noon = dt.datetime(2026, 4, 25, 12, tzinfo=dt.timezone.utc)
    night = dt.datetime(2026, 4, 25, 1, tzinfo=dt.timezone.utc)
    place = delta("out", partition_by="t")
    daily = lab.job([(1, noon), (2, night)], "id int, t timestamp", target=place)
    hourly = lab.job([(3, noon)], "id int, t timestamp", every="hour", target=place)
    lab.run(daily)
    lab.run(hourly, "2026-04-25T12")
    assert [row[0] for row in lab.rows()] == [2, 3]
    assert lab.run(daily).state == "published"
    assert [row[0] for row in lab.rows()] == [1, 2]


def test_receipts_outlive_the_clean_up_of_the_log(lab: Any) -> None:
    """The ledger remembers what the log has forgotten; without both, the window runs again."""
    job = lab.job(A)
    lab.run(job)
    lab.run(lab.job([(9, 9.0, AFTER)]), "2026-04-26")
    forget_the_log(lab)
    assert lab.run(job).state == "unchanged"
    ledger = lab.root / ".setpoint" / "ledger.db"
    with Project(Config(root=lab.root, ledger="sqlite:///other.db")) as amnesiac:
        fresh = replace(lab, project=amnesiac)
        plan = fresh.plan(job, "2026-04-25")
        assert plan.reason == "published before, but its receipt is gone from the target's log"
        assert fresh.run(job).state == "published"
        assert fresh.state(job).generation == 2
    assert ledger.exists()
    assert lab.rows() == sorted([*A, (9, 9.0, AFTER)])


def forget_the_log(lab: Any) -> None:
    """A checkpoint, and the commits before it cleaned up."""
    lab.table().create_checkpoint()
    for version in range(lab.version()):
        (lab.root / "out" / "_delta_log" / f"{version:020d}.json").unlink()
    assert len(lab.table().history()) == 1


def test_a_deleted_ledger_loses_history_only(lab: Any) -> None:
    """Without the ledger the target still says what it holds."""
    job = lab.job(A)
    lab.run(job)
    for file in (lab.root / ".setpoint").iterdir():
        file.unlink()
    with Project(Config(root=lab.root, ledger="sqlite:///.setpoint/ledger.db")) as fresh:
        assert replace(lab, project=fresh).run(job).state == "unchanged"


def test_a_checkpoint_changes_nothing(lab: Any) -> None:
    """Receipts and generations survive checkpoints of the log."""
    for rows in (A, B, A):
        lab.run(lab.job(rows))
        lab.table().create_checkpoint()
    assert lab.state(lab.job(A)).generation == 3
    assert lab.run(lab.job(A)).state == "unchanged"


def test_a_commit_that_landed_unseen_is_not_undone(lab: Any) -> None:
    """A store may repeat a put that had landed and report a conflict with itself.

    The window then holds our own receipt; taking it for somebody else's would drop the stage,
    and with it the live files.
    """

    class Repeating(DeltaTarget):
        def publish(self, *args: Any, **kwargs: Any) -> Any:
            super().publish(*args, **kwargs)
            return super().publish(*args, **kwargs)

    job = lab.job(A)
    bound = Bound(job, Repeating(job, job.target, lab.project.adapters.storage(job.target)), {})
    world = lab.world()
    (plan,) = plan_windows(bound, lab.windows(job, "2026-04-25"), world, parameters={})
    run_window(bound, plan, world)
    assert lab.rows() == sorted(A)
    assert lab.run(job).state == "unchanged"


def test_a_project_elsewhere_is_named_by_its_configuration(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`setpoint.run(config=...)` writes where that file's project lies, not where we stand."""
    (lab.root / "setpoint.toml").write_text("")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    states = [
        setpoint.run(lab.job(A), "2026-04-25", config=lab.root / "setpoint.toml").state
        for _ in range(2)
    ]
    assert states == ["published", "unchanged"]
    assert lab.rows() == sorted(A)
    assert not any(elsewhere.iterdir())
