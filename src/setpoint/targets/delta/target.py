"""A Delta table as the target of one pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from setpoint.errors import RefusedError
from setpoint.model.audit import Audit, AuditResult
from setpoint.model.pipeline import Pipeline
from setpoint.model.ports import Leftover, Published, Recall, Staged, recalled
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Chunk, Run, Statement
from setpoint.model.scope import Scope
from setpoint.model.table import Delta
from setpoint.model.window import Window
from setpoint.model.write import InsertNew, Merge
from setpoint.targets import leftovers
from setpoint.targets.chunk import alone_by_pattern
from setpoint.targets.delta.log import Snapshot, open_snapshot
from setpoint.targets.delta.looks import Looks
from setpoint.targets.delta.mechanism import Mechanism, choose, refuse_append_only
from setpoint.targets.delta.removed import Removed
from setpoint.targets.delta.slices import Slices
from setpoint.targets.delta.storage import FOLDER, MERGED, Storage
from setpoint.targets.refusals import holds_live_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DeltaTarget:
    """The target port for Delta Lake; reads the log without a JVM."""

    def __init__(self, pipeline: Pipeline, table: Delta, storage: Storage) -> None:
        self._pipeline = pipeline
        self._spec = table
        self._storage = storage
        self._removed = Removed(storage, pipeline.name)
        self._looks = Looks(storage)

    @property
    def uri(self) -> str:
        return self._storage.uri

    def connectors(self) -> frozenset[str]:
        connector = self._mechanism(self._looks.newest()).kind == "connector"
        return frozenset({"delta"}) if connector else frozenset()

    def mechanism(self) -> str:
        return self._mechanism(self._looks.newest()).words

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
        snapshot = self._looks.newest()
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
        snapshot = self._looks.newest()
        if snapshot is None:
            return {window: SliceState(0, None, None) for window in windows}
        remembered = recalled(recall, lambda: snapshot.table_id)
        return self._slices(snapshot).states(windows, remembered)

    def location(self, run: Statement, attempt: str) -> str:
        from setpoint.targets.delta import stage

        return stage.location(run, attempt)

    def stage(
        self, frame: DataFrame, run: Statement, attempt: str, audits: Sequence[Audit]
    ) -> Staged:
        from setpoint.spark.audits import check_columns
        from setpoint.spark.tombstones import keep
        from setpoint.targets.delta import schema, stage

        snapshot = self._looks.newest()
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
        from setpoint.targets.delta.publisher import Publisher

        publisher = Publisher(session, run, self._storage, self._removed)
        return publisher.publish(receipt, staged, expected)

    def alone(self) -> str:
        if by_pattern := alone_by_pattern(self._pipeline.write):
            return by_pattern
        mechanism = self._mechanism(self._looks.newest())
        return "" if mechanism.kind == "files" else mechanism.words

    def divide(
        self,
        session: SparkSession,
        staged: Staged,
        chunk: Chunk,
        attempts: Mapping[Window, str],
        audits: Sequence[Audit],
    ) -> Mapping[Window, Staged]:
        from setpoint.targets.delta.chunk import divided

        return divided(session, self._storage, staged, chunk, attempts, audits)

    def publish_chunk(
        self,
        session: SparkSession,
        chunk: Chunk,
        receipts: Sequence[Receipt],
        parts: Sequence[Staged] | None,
        expected: Mapping[Window, SliceState],
    ) -> Sequence[Published]:
        from setpoint.targets.delta import chunk as of_chunk

        return of_chunk.publish(self._storage, chunk, receipts, parts, expected)

    def landed(self, window: str, attempt: str) -> Published | None:
        snapshot = self._snapshot()
        return snapshot.landed(window, attempt) if snapshot else None

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
        # What was staged for the connector was copied; anything else was made live.
        if staged.handle.files and staged.files is not None:
            return
        files = [file.path for file in self._storage.files(staged.location)]
        merged = [path for path in files if path.startswith(f"{staged.location}/{MERGED}/")]
        if not merged:
            self.drop_stage(staged.location)
            return
        for path in set(files).difference(merged):  # the batch of a merge that wrote the table
            self._storage.remove(path)

    def leftovers(self) -> Sequence[Leftover]:
        if self._storage.is_local and FOLDER not in self._storage.entries():
            return ()
        snapshot = self._snapshot()
        in_use = snapshot.paths_in_use() if snapshot else ()
        return leftovers.find(self._storage.files(FOLDER), FOLDER, in_use)

    def _snapshot(self) -> Snapshot | None:
        """The newest version, read anew: before anything is removed, and to tell what landed."""
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
