"""Publishing to Delta: look, compare, commit on what was seen, and read the log's own word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.errors import PermanentError, SetpointError
from setpoint.model.ports import Fenced, Published, Staged
from setpoint.model.receipt import Receipt, SliceState, files_digest
from setpoint.model.run import Run
from setpoint.model.write import KEYED, InsertNew, Merge
from setpoint.targets.delta import commit, merge, rewrite
from setpoint.targets.delta.fence import refuse_if_fenced
from setpoint.targets.delta.log import DataFile, Snapshot, fence_of, open_snapshot
from setpoint.targets.delta.mechanism import choose, demand_of
from setpoint.targets.delta.removed import Removed
from setpoint.targets.delta.slices import Slices, count_rows, stated
from setpoint.targets.delta.stage import DeltaStage
from setpoint.targets.delta.storage import Storage
from setpoint.targets.refusals import (
    after_commit,
    changed_meanwhile,
    kept_stored,
    not_in_table,
    refuse_incomplete,
)
from setpoint.targets.turns import Turns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TURNS = 100


@contextmanager
def _removal_pending(run: Run, generation: int) -> Iterator[None]:
    """The rows are published: what fails now must not say that nothing was."""
    try:
        yield
    except SetpointError as error:
        raise PermanentError(
            "SP-P01",
            f"A removal that was committed beside {run.label} could not be applied: {error.what}",
            why="Rows of keys that were removed may be in the table until it is.",
            state=f"The rows of {run.label} are published, generation {generation}.",
            next="Run the same window again with --force; it is always safe.",
        ) from error


class Publisher:
    """One publish of one run."""

    def __init__(self, session: SparkSession, run: Run, storage: Storage, removed: Removed) -> None:
        self._session, self._run = session, run
        self._storage, self._removed = storage, removed

    def publish(self, receipt: Receipt, staged: Staged | None, expected: SliceState) -> Published:
        """Commit the rows; and once more when a removal was committed while they were merged."""
        published, missed = self._land(receipt, staged, expected)
        while missed:
            generation = published.receipt.generation
            expected = replace(expected, generation=generation)
            receipt = replace(receipt, generation=generation + 1)
            with _removal_pending(self._run, generation):
                published, missed = self._land(receipt, staged, expected)
        return published

    def _land(
        self, receipt: Receipt, staged: Staged | None, expected: SliceState
    ) -> tuple[Published, bool]:
        """Commit on what was looked at; look again when another writer was faster.

        Also says whether a removal slipped in beside the rows.
        """
        run, write = self._run, self._run.pipeline.write
        turns = Turns(run, TURNS)
        for _ in turns:
            with turns.looking():
                snapshot = open_snapshot(self._storage)
            refuse_if_fenced(run.pipeline, snapshot, run.window, expected, staged)
            by_files = choose(snapshot, write, run.pipeline.slice_column).kind == "files"
            if staged is not None and (staged.files is not None) != by_files:
                raise changed_meanwhile(f"at {self._storage.uri}", "features")
            if staged is None and snapshot is not None:
                by_files = demand_of(snapshot) is None  # a receipt alone names no file
            (receipt,) = stated(run.pipeline, snapshot, staged, [receipt])
            if isinstance(write, Merge):
                removed = self._removed.after(snapshot, run.window, staged)
                receipt = replace(receipt, tombstones=removed)
            try:
                notes = self._commit(snapshot, receipt, staged, by_files=by_files)
            except commit.TableMoved as error:
                turns.refused(error)
                continue
            with after_commit(run):
                if by_files:
                    # The log took exactly the version after the one we looked at, or nothing.
                    version = snapshot.version + 1 if snapshot else 0
                    return self._counted(receipt, staged, version), False
                published, now = self._confirmed(receipt)
                if staged is not None and self._missed(receipt, now):
                    return published, True
                notes = (*notes, *self._slipped_in(receipt, staged, published, now))
                return replace(published, notes=notes), False
        raise AssertionError("the turns ended without an outcome")

    def _commit(
        self, snapshot: Snapshot | None, receipt: Receipt, staged: Staged | None, *, by_files: bool
    ) -> tuple[str, ...]:
        run, storage, write = self._run, self._storage, self._run.pipeline.write
        by_newest = run.pipeline.newest_counts
        fence = fence_of(snapshot, receipt, run.window, newest_counts=by_newest)
        if snapshot is None or by_files:
            stage = staged.handle if staged else None
            self._refuse_incomplete(staged)
            commit.commit_files(snapshot, storage, run, [receipt], stage, [fence])
            return ()
        if staged is None or not isinstance(write, KEYED):
            self._refuse_incomplete(staged)
            commit.commit_through_connector(self._session, storage, run, receipt, staged, fence)
            return ()
        version, unapplied = snapshot.version, snapshot.unapplied(run.pipeline.name)
        if rewrite.is_likely(snapshot, storage, run, receipt, staged, unapplied):
            whole = rewrite.rewritten(self._session, storage, run, receipt, staged, snapshot)
            if whole is not None:
                self._commit_rewritten(snapshot, receipt, staged, fence, *whole)
                return ()
        refuse = isinstance(write, InsertNew) and write.conflicts == "refuse"
        kept = merge.contradictions(self._session, version, storage, run, staged, refuse=refuse)
        self._refuse_incomplete(staged)
        merge.merge(self._session, storage, run, receipt, staged, fence, unapplied)
        return kept_stored(kept)

    def _commit_rewritten(
        self,
        snapshot: Snapshot,
        receipt: Receipt,
        staged: Staged,
        fence: commit.Fence,
        stage: DeltaStage,
        mode: commit.Mode,
    ) -> None:
        run, storage = self._run, self._storage
        self._refuse_incomplete(staged, stage)
        try:
            commit.commit_files(snapshot, storage, run, [receipt], stage, [fence], mode)
        except commit.TableMoved:
            rewrite.forget(storage, staged)
            raise
        with after_commit(run):
            version = snapshot.version + 1
            now = open_snapshot(storage, version)
            wanted = [file.path for file in stage.files]
            if mode == "append":
                wanted += [file.path for file in snapshot.files]
            live = [file.path for file in now.files] if now else []
            if sorted(live) != sorted(wanted):
                found = f"the table has {len(live)} files, not {len(wanted)}"
                raise other_files(run, found, storage, version)

    def _refuse_incomplete(
        self, staged: Staged | None, rewritten: DeltaStage | None = None
    ) -> None:
        """What was staged, and what was computed from it, is there with its removed keys."""
        if staged is None:
            return
        stage: DeltaStage = staged.handle
        wanted = {**stage.written, **(rewritten.written if rewritten else {})}
        listed, place = self._storage.files, staged.location
        refuse_incomplete(self._run, listed, place, wanted, stage.tombstones)

    def _counted(self, receipt: Receipt, staged: Staged | None, version: int) -> Published:
        """Count the published slice in the log: nobody has to remember to check."""
        run, snapshot = self._run, open_snapshot(self._storage, version)
        if snapshot is None:
            raise not_in_table(run, f"who removed the table at {self._storage.uri}")
        if staged is not None:
            files = Slices(run.pipeline, snapshot).files([run.window])[run.window]
            kept = receipt.rows - staged.deletes
            refuse_other_rows(run, receipt, kept, files, self._storage, version)
        return Published(receipt, version, snapshot.table_id)

    def _confirmed(self, receipt: Receipt) -> tuple[Published, Snapshot]:
        """Read the target's own word; a writer may skip a commit without saying so."""
        run, snapshot = self._run, open_snapshot(self._storage)
        published = snapshot.landed(run.window.id, receipt.attempt) if snapshot else None
        if snapshot and published and published.receipt.generation == receipt.generation:
            return published, snapshot
        state = SliceState(0, None, None)
        if snapshot is not None:
            state = Slices(run.pipeline, snapshot).states([run.window])[run.window]
        if state.generation >= receipt.generation or run.pipeline.newest_counts:
            raise Fenced(state)
        raise not_in_table(run)

    def _missed(self, receipt: Receipt, now: Snapshot) -> bool:
        """Whether removed keys are known now that the published receipt does not name."""
        if not isinstance(self._run.pipeline.write, Merge):
            return False
        return bool(now.unapplied(self._run.pipeline.name) - set(receipt.tombstones))

    def _slipped_in(
        self, receipt: Receipt, staged: Staged | None, published: Published, now: Snapshot
    ) -> tuple[str, ...]:
        """Events with other content that came between our look and the connector's own."""
        run, ours = self._run, now.commits.get(published.commit_version or 0)
        if staged is None or ours is None or not isinstance(run.pipeline.write, InsertNew):
            return ()
        if ours.read_version is None or ours.read_version == receipt.looked_at:
            return ()
        before, storage = int(ours.read_version), self._storage
        try:
            return kept_stored(
                merge.contradictions(self._session, before, storage, run, staged, refuse=False)
            )
        except SetpointError as error:  # the rows are published, whatever this look would say
            return (f"whether stored rows have other content could not be told: {error.what}",)


def refuse_other_rows(
    run: Run,
    receipt: Receipt,
    kept: int,
    files: Sequence[DataFile],
    storage: Storage,
    version: int,
) -> None:
    """The log must show the published slice with the rows and files that its receipt says."""
    rows = count_rows(files)
    if files_digest(file.path for file in files) == receipt.files and rows == kept:
        return
    found = f"its slice has {rows} rows in {len(files)} files, not {kept:,} rows"
    raise other_files(run, found, storage, version)


def other_files(run: Run, found: str, storage: Storage, version: int) -> PermanentError:
    """A commit has made another table than it was to make."""
    back = "Before it there was no table there: what it made may be removed."
    if version:
        restored = f"RESTORE TABLE delta.`{storage.spark_path()}` TO VERSION AS OF {version - 1}"
        back = f"To go back: {restored}"
    return PermanentError(
        "SP-P04",
        f"{run.label} was published, but {found}.",
        why="This must not happen; somebody may have written to the log by hand.",
        state=f"The rows from before are in the version before {version}."
        if version
        else "The commit has made the table.",
        next=f"Please report this with the table's _delta_log. {back}",
    )
