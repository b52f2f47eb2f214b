"""Publishing to Delta: look, compare, commit on what was seen, and read the log's own word."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.errors import PermanentError, SetpointError
from setpoint.model.ports import Fenced, Published, Staged
from setpoint.model.receipt import Receipt, SliceState, files_digest
from setpoint.model.run import Run
from setpoint.model.write import KEYED, InsertNew, Merge
from setpoint.targets.delta import commit, merge
from setpoint.targets.delta.fence import refuse_if_fenced
from setpoint.targets.delta.log import Snapshot, open_snapshot
from setpoint.targets.delta.mechanism import choose
from setpoint.targets.delta.removed import Removed
from setpoint.targets.delta.slices import Slices, count_rows
from setpoint.targets.delta.storage import Storage
from setpoint.targets.refusals import (
    after_commit,
    changed_meanwhile,
    kept_stored,
    lost_races,
    not_in_table,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TURNS = 100


class Publisher:
    """One publish of one run."""

    def __init__(self, session: SparkSession, run: Run, storage: Storage, removed: Removed) -> None:
        self._session, self._run = session, run
        self._storage, self._removed = storage, removed

    def publish(self, receipt: Receipt, staged: Staged | None, expected: SliceState) -> Published:
        """Commit on what was looked at; look again when another writer was faster."""
        run, write = self._run, self._run.pipeline.write
        for _ in range(_TURNS):
            snapshot = open_snapshot(self._storage)
            refuse_if_fenced(run.pipeline, snapshot, run.window, expected, staged)
            by_files = choose(snapshot, write, run.pipeline.slice_column).kind == "files"
            if staged is not None and (staged.files is not None) != by_files:
                raise changed_meanwhile(f"at {self._storage.uri}", "features")
            receipt = replace(receipt, looked_at=snapshot.version if snapshot else None)
            if isinstance(write, Merge):
                removed = self._removed.after(snapshot, run.window, staged)
                receipt = replace(receipt, tombstones=removed)
            try:
                notes = self._commit(snapshot, receipt, staged, by_files=by_files)
            except commit.TableMoved:
                continue
            with after_commit(run):
                if by_files:
                    # The log took exactly the version after the one we looked at, or nothing.
                    version = snapshot.version + 1 if snapshot else 0
                    return self._counted(receipt, staged, version)
                published, now = self._confirmed(receipt)
                if staged is not None and self._missed(receipt, now):
                    # A removal was committed while we merged: apply it, in a publish of its own.
                    expected = replace(expected, generation=receipt.generation)
                    receipt = replace(receipt, generation=receipt.generation + 1)
                    continue
                notes = (*notes, *self._slipped_in(receipt, staged, published, now))
                return replace(published, notes=notes)
        raise lost_races(run, _TURNS)

    def _commit(
        self, snapshot: Snapshot | None, receipt: Receipt, staged: Staged | None, *, by_files: bool
    ) -> tuple[str, ...]:
        run, storage, write = self._run, self._storage, self._run.pipeline.write
        if snapshot is None or by_files:
            commit.commit_files(snapshot, storage, run, receipt, staged)
            return ()
        fence = snapshot.fence(receipt, run.pipeline.newest_counts)
        if staged is None or not isinstance(write, KEYED):
            commit.commit_through_connector(self._session, storage, run, receipt, staged, fence)
            return ()
        refuse = isinstance(write, InsertNew) and write.conflicts == "refuse"
        version, unapplied = snapshot.version, snapshot.unapplied(run.pipeline.name)
        kept = merge.contradictions(self._session, version, storage, run, staged, refuse=refuse)
        merge.merge(self._session, storage, run, receipt, staged, fence, unapplied)
        return kept_stored(kept)

    def _counted(self, receipt: Receipt, staged: Staged | None, version: int) -> Published:
        """Count the published slice in the log: nobody has to remember to check."""
        run, snapshot = self._run, open_snapshot(self._storage, version)
        if snapshot is None:
            raise PermanentError(
                "SP-P04",
                f"The commit of {run.label} was acknowledged, but there is no table now.",
                state="It is not known what the target holds.",
                next="Find out who removed the table, then run again.",
            )
        if staged is not None:
            files = Slices(run.pipeline, snapshot).files([run.window])[run.window]
            rows, kept = count_rows(files), receipt.rows - staged.deletes
            if files_digest(file.path for file in files) != receipt.files or rows != kept:
                raise PermanentError(
                    "SP-P04",
                    f"{run.label} was published with {kept:,} rows, but its slice holds "
                    f"{rows} rows in {len(files)} files.",
                    why="This must not happen; somebody may have written to the log by hand.",
                    state=f"The table is at version {version}; the old rows are in the one before.",
                    next="Please report this with the table's _delta_log.",
                )
        return Published(receipt, version, snapshot.table_id)

    def _confirmed(self, receipt: Receipt) -> tuple[Published, Snapshot]:
        """Read the target's own word; a writer may skip a commit without saying so."""
        run, snapshot = self._run, open_snapshot(self._storage)
        published = snapshot.landed(run.window.id, receipt.attempt) if snapshot else None
        if snapshot and published and published.receipt.generation == receipt.generation:
            return published, snapshot
        state = SliceState(0, None, None)
        if snapshot is not None:
            state = Slices(run.pipeline, snapshot).states([run.window], {})[run.window]
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
