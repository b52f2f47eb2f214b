"""A Delta table as the target of one pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from setpoint.errors import PermanentError, RefusedError
from setpoint.model.audit import Audit, AuditResult
from setpoint.model.pipeline import Pipeline
from setpoint.model.ports import Fenced, Leftover, Published, Recall, Staged
from setpoint.model.receipt import Receipt, SliceState, files_digest
from setpoint.model.run import Run
from setpoint.model.scope import Scope
from setpoint.model.table import Delta
from setpoint.model.window import Window
from setpoint.model.write import KEYED, InsertNew, Merge
from setpoint.targets import leftovers
from setpoint.targets.delta.fence import refuse_if_fenced
from setpoint.targets.delta.log import Snapshot, open_snapshot
from setpoint.targets.delta.mechanism import Mechanism, choose, refuse_append_only
from setpoint.targets.delta.removed import Removed
from setpoint.targets.delta.slices import Slices, count_rows
from setpoint.targets.delta.storage import FOLDER, Storage
from setpoint.targets.refusals import (
    after_commit,
    changed_meanwhile,
    holds_live_rows,
    kept_stored,
    lost_races,
    not_in_table,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TURNS = 100


class DeltaTarget:
    """The target port for Delta Lake; reads the log without a JVM."""

    def __init__(self, pipeline: Pipeline, table: Delta, storage: Storage) -> None:
        self._pipeline = pipeline
        self._spec = table
        self._storage = storage
        self._removed = Removed(storage, pipeline.name)

    @property
    def uri(self) -> str:
        return self._storage.uri

    def connectors(self) -> frozenset[str]:
        connector = self._mechanism(self._snapshot()).kind == "connector"
        return frozenset({"delta"}) if connector else frozenset()

    def mechanism(self) -> str:
        return self._mechanism(self._snapshot()).words

    def table_id(self) -> str | None:
        snapshot = self._snapshot()
        return snapshot.table_id if snapshot else None

    def published_windows(self) -> Sequence[str]:
        snapshot = self._snapshot()
        if snapshot is None:
            return ()
        return sorted(w for name, w in snapshot.receipts if name == self._pipeline.name)

    def check_definition(self) -> None:
        """Compare the definition with the existing table: grain, partitioning, append-only."""
        snapshot = self._snapshot()
        if snapshot is None:
            return
        self._refuse_append_only(snapshot)
        self._slices(snapshot)
        stated = self._spec.partition_by
        if stated and snapshot.partition_columns and stated != snapshot.partition_columns:
            raise RefusedError(
                "SP-T02",
                f"{self._pipeline.name} says partition_by={stated}, but the table at {self.uri} is "
                f"partitioned by {snapshot.partition_columns}.",
                why="The window would own other files than the pipeline says.",
                next="Correct partition_by, or give the column as time= instead.",
            )

    def inspect(
        self, windows: Sequence[Window], recall: Recall | None = None
    ) -> Mapping[Window, SliceState]:
        snapshot = self._snapshot()
        if snapshot is None:
            return {window: SliceState(0, None, None) for window in windows}
        remembered = recall(snapshot.table_id) if recall else {}
        return self._slices(snapshot).states(windows, remembered)

    def location(self, run: Run, attempt: str) -> str:
        from setpoint.targets.delta import stage

        return stage.location(run, attempt)

    def stage(self, frame: DataFrame, run: Run, attempt: str, audits: Sequence[Audit]) -> Staged:
        from setpoint.spark.audits import check_columns
        from setpoint.spark.tombstones import keep
        from setpoint.targets.delta import schema, stage

        snapshot = self._snapshot()
        if snapshot is None:
            self._refuse_foreign_files()
        else:
            self._refuse_append_only(snapshot)
        partition_by = self._partition_columns(snapshot)
        fit = schema.fit(
            frame.schema.jsonValue()["fields"],
            snapshot,
            partition_by=partition_by,
            needed=self._pipeline.needed_columns(),
            evolve=self._spec.evolve,
            label=run.label,
        )
        if snapshot is not None:
            rule = self._slices(snapshot).rule
        else:
            rule = self._pipeline.slice_rule(lambda name: frame.schema[name].dataType.typeName())
        check_columns(audits, frame.schema, run.label)
        staged = stage.write(
            frame,
            run,
            attempt,
            audits,
            storage=self._storage,
            fit=fit,
            scope=Scope(self._pipeline.write, rule),
            partition_by=partition_by,
        )
        if staged.handle.tombstones:
            batch = stage.read_back(frame.sparkSession, self._storage, staged)
            keep(batch, self._pipeline.write, self._storage.spark_path(staged.handle.tombstones))
        if self._mechanism(snapshot).kind == "connector":
            return replace(staged, files=None)  # the connector names the files itself
        return staged

    def audit(
        self, session: SparkSession, staged: Staged, run: Run, audits: Sequence[Audit]
    ) -> list[AuditResult]:
        from setpoint.spark.audits import set_level
        from setpoint.spark.batch import to_keep
        from setpoint.targets.delta import stage

        handle: stage.DeltaStage = staged.handle
        return set_level(
            audits,
            to_keep(stage.read_back(session, self._storage, staged)),
            rows=staged.rows - staged.deletes,
            constant_columns=[handle.scope.rule.column]
            if handle.only_value and handle.scope.rule
            else [],
            bounds=handle.integer_bounds(),
        )

    def sample(
        self, session: SparkSession, staged: Staged, audit: Audit
    ) -> tuple[dict[str, Any], ...]:
        from setpoint.spark.audits import sample, violation
        from setpoint.spark.batch import to_keep
        from setpoint.targets.delta import stage

        frame = to_keep(stage.read_back(session, self._storage, staged))
        return sample(frame.where(violation(audit, frame.schema)))

    def publish(
        self,
        session: SparkSession,
        run: Run,
        receipt: Receipt,
        staged: Staged | None,
        expected: SliceState,
    ) -> Published:
        from setpoint.targets.delta import commit

        notes: tuple[str, ...] = ()
        for _ in range(_TURNS):
            snapshot = self._snapshot()
            refuse_if_fenced(self._pipeline, snapshot, run.window, expected, staged)
            chosen = self._mechanism(snapshot)
            if staged is not None and (staged.files is None) != (chosen.kind == "connector"):
                raise changed_meanwhile(f"at {self.uri}", "features")
            receipt = replace(receipt, looked_at=snapshot.version if snapshot else None)
            unapplied = snapshot.unapplied(self._pipeline.name) if snapshot else frozenset[str]()
            if isinstance(run.pipeline.write, Merge):
                receipt = replace(
                    receipt, tombstones=self._removed.after(snapshot, run.window, staged)
                )
            try:
                if snapshot is None or chosen.kind == "files":
                    commit.commit_files(snapshot, self._storage, run, receipt, staged)
                elif isinstance(run.pipeline.write, KEYED) and staged:
                    notes = self._merge(session, snapshot, run, receipt, staged, unapplied)
                else:
                    fence = snapshot.fence(receipt, self._pipeline.newest_counts)
                    commit.commit_through_connector(
                        session, self._storage, run, receipt, staged, fence
                    )
            except commit.TableMoved:
                continue
            with after_commit(run):
                if chosen.kind == "files":
                    # The log took exactly the version after the one we looked at, or nothing.
                    version = snapshot.version + 1 if snapshot else 0
                    return self._counted(run, receipt, staged, version)
                published = self._confirm(run, receipt)
                notes = (*notes, *self._slipped_in(session, run, receipt, staged, published))
                published = replace(published, notes=notes)
                if staged is not None and self._missed(receipt):
                    # A removal was committed while we merged: apply it, in a publish of its own.
                    expected = replace(expected, generation=receipt.generation)
                    receipt = replace(receipt, generation=receipt.generation + 1)
                    continue
                return published
        raise lost_races(run, _TURNS)

    def _missed(self, receipt: Receipt) -> bool:
        """Whether removed keys are known now that the published receipt does not name."""
        snapshot = self._snapshot()
        if snapshot is None or not isinstance(self._pipeline.write, Merge):
            return False
        return bool(snapshot.unapplied(self._pipeline.name) - set(receipt.tombstones))

    def _merge(
        self,
        session: SparkSession,
        snapshot: Snapshot,
        run: Run,
        receipt: Receipt,
        staged: Staged,
        unapplied: frozenset[str],
    ) -> tuple[str, ...]:
        from setpoint.targets.delta import merge

        write, storage = run.pipeline.write, self._storage
        refuse = isinstance(write, InsertNew) and write.conflicts == "refuse"
        kept = merge.contradictions(session, snapshot.version, storage, run, staged, refuse=refuse)
        fence = snapshot.fence(receipt, self._pipeline.newest_counts)
        merge.merge(session, storage, run, receipt, staged, fence, unapplied)
        return kept_stored(kept)

    def _slipped_in(
        self,
        session: SparkSession,
        run: Run,
        receipt: Receipt,
        staged: Staged | None,
        published: Published,
    ) -> tuple[str, ...]:
        """Events with other content that came between our look and the connector's own."""
        from setpoint.targets.delta import merge

        snapshot, version = self._snapshot(), published.commit_version
        if staged is None or snapshot is None or not isinstance(run.pipeline.write, InsertNew):
            return ()
        commit = snapshot.commits.get(version) if version is not None else None
        if commit is None or commit.read_version in (None, receipt.looked_at):
            return ()
        before = int(commit.read_version or 0)
        return kept_stored(
            merge.contradictions(session, before, self._storage, run, staged, refuse=False)
        )

    def landed(self, window: str, attempt: str) -> Published | None:
        snapshot = self._snapshot()
        if snapshot is None:
            return None
        # The newest: an attempt publishes twice when a removal slips in beside it.
        for version, commit in sorted(snapshot.commits.items(), reverse=True):
            for receipt in commit.receipts:
                if receipt.attempt == attempt and receipt.window == window:
                    return Published(receipt, version, snapshot.table_id)
        return None

    def has_stage(self, location: str) -> bool:
        return bool(self._storage.files(location))

    def drop_stage(self, location: str) -> None:
        snapshot = self._snapshot()
        live = snapshot.files if snapshot else ()
        if any(file.path.startswith(f"{location}/") for file in live):
            raise holds_live_rows(location, self.uri)
        self._storage.drop(location)
        self._removed.forget(location, snapshot)

    def tidy_stage(self, staged: Staged) -> None:
        if isinstance(self._pipeline.write, Merge):
            self._removed.mark(self._snapshot())
        # What was staged for the connector was copied by it; anything else is live now.
        if not staged.handle.files or staged.files is None:
            self.drop_stage(staged.location)

    def leftovers(self) -> Sequence[Leftover]:
        if self._storage.is_local and FOLDER not in self._storage.entries():
            return ()
        snapshot = self._snapshot()
        in_use = snapshot.paths_in_use() if snapshot else ()
        return leftovers.find(self._storage.files(FOLDER), FOLDER, in_use)

    def _counted(
        self, run: Run, receipt: Receipt, staged: Staged | None, version: int
    ) -> Published:
        """Count the published slice in the log: nobody has to remember to check."""
        snapshot = open_snapshot(self._storage, version)
        if snapshot is None:
            raise PermanentError(
                "SP-P04",
                f"The commit of {run.label} was acknowledged, but there is no table now.",
                state="It is not known what the target holds.",
                next="Find out who removed the table, then run again.",
            )
        if staged is not None:
            files = self._slices(snapshot).files([run.window])[run.window]
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

    def _confirm(self, run: Run, receipt: Receipt) -> Published:
        """Read the target's own word; a writer may skip a commit without saying so."""
        published = self.landed(run.window.id, receipt.attempt)
        if published is None or published.receipt.generation != receipt.generation:
            state = self.inspect([run.window])[run.window]
            if state.generation >= receipt.generation or self._pipeline.newest_counts:
                raise Fenced(state)
            raise not_in_table(run)
        return published

    def _snapshot(self) -> Snapshot | None:
        return open_snapshot(self._storage)

    def _mechanism(self, snapshot: Snapshot | None) -> Mechanism:
        return choose(snapshot, self._pipeline.write, self._pipeline.slice_column)

    def _refuse_append_only(self, snapshot: Snapshot) -> None:
        if not isinstance(self._pipeline.write, InsertNew):
            refuse_append_only(snapshot)

    def _partition_columns(self, snapshot: Snapshot | None) -> tuple[str, ...]:
        return snapshot.partition_columns if snapshot else self._spec.partition_by

    def _slices(self, snapshot: Snapshot) -> Slices:
        return Slices(self._pipeline, snapshot)

    def _refuse_foreign_files(self) -> None:
        foreign = [
            name
            for name in self._storage.entries()
            if name != FOLDER and not name.startswith(("_", "."))
        ]
        if foreign:
            raise RefusedError(
                "SP-T02",
                f"{self.uri} holds files but no Delta table (for example {foreign[0]!r:.80}).",
                why="A table created there would hide them or mix with them.",
                next="Choose an empty place, or convert the files to Delta first.",
            )
