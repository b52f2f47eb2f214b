"""A Delta table as the target of one pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from setpoint.errors import PermanentError, RefusedError, TransientError
from setpoint.model.audit import Audit, AuditResult
from setpoint.model.pipeline import Pipeline
from setpoint.model.ports import Fenced, Leftover, Published, Recall, Staged
from setpoint.model.receipt import Receipt, SliceState, unseal
from setpoint.model.run import Run
from setpoint.model.slice import SliceRule
from setpoint.model.table import Delta
from setpoint.model.window import Window
from setpoint.targets.delta.log import Snapshot, files_digest, open_snapshot
from setpoint.targets.delta.mechanism import Mechanism, choose, refuse_append_only
from setpoint.targets.delta.schema import same_type
from setpoint.targets.delta.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TURNS = 100
# Operations that change no row: the slice is what it was, though its files may differ.
_NEUTRAL = frozenset(
    {
        "OPTIMIZE",
        "VACUUM START",
        "VACUUM END",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "CHANGE COLUMN",
        "ADD COLUMNS",
    }
)


class DeltaTarget:
    """The target port for Delta Lake; reads the log without a JVM."""

    def __init__(self, pipeline: Pipeline, storage: Storage) -> None:
        self._pipeline = pipeline
        self._spec: Delta = pipeline.target
        self._storage = storage

    @property
    def uri(self) -> str:
        return self._storage.uri

    def connectors(self) -> frozenset[str]:
        return frozenset({"delta"}) if self._mechanism().kind == "connector" else frozenset()

    def mechanism(self) -> str:
        chosen = self._mechanism()
        if chosen.kind == "files":
            return f"one metadata-only commit ({chosen.reason})"
        return f"replaceWhere through the Delta connector ({chosen.reason})"

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
        refuse_append_only(snapshot)
        self._rule(snapshot)
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
        paths, rows = self._slices(snapshot, windows)
        return {
            window: self._state(snapshot, window, paths[window], rows[window], remembered)
            for window in windows
        }

    def location(self, run: Run, attempt: str) -> str:
        from setpoint.targets.delta import stage

        return stage.location(run, attempt)

    def stage(self, frame: DataFrame, run: Run, attempt: str, audits: Sequence[Audit]) -> Staged:
        from setpoint.spark.audits import check_columns
        from setpoint.targets.delta import schema, stage

        snapshot = self._snapshot()
        if snapshot is None:
            self._refuse_foreign_files()
        else:
            refuse_append_only(snapshot)
        partition_by = self._partition_columns(snapshot)
        column = self._column()
        fit = schema.fit(
            frame.schema.jsonValue()["fields"],
            snapshot,
            partition_by=partition_by,
            slice_column=column,
            evolve=self._spec.evolve,
            label=run.label,
        )
        rule = self._rule(snapshot, frame.schema[column].dataType.typeName())
        check_columns(audits, frame.schema, run.label)
        staged = stage.write(
            frame,
            run,
            attempt,
            audits,
            storage=self._storage,
            fit=fit,
            rule=rule,
            partition_by=partition_by,
        )
        if self._mechanism(snapshot).kind == "connector":
            return replace(staged, files=None)  # the connector names the files itself
        return staged

    def audit(
        self, session: SparkSession, staged: Staged, run: Run, audits: Sequence[Audit]
    ) -> list[AuditResult]:
        from setpoint.spark.audits import set_level
        from setpoint.targets.delta import stage

        handle: stage.DeltaStage = staged.handle
        return set_level(
            audits,
            stage.read_back(session, self._storage, staged),
            rows=staged.rows,
            constant_columns=[handle.rule.column] if handle.only_value else [],
            bounds=handle.integer_bounds(),
        )

    def sample(
        self, session: SparkSession, staged: Staged, run: Run, audit: Audit
    ) -> tuple[dict[str, Any], ...]:
        from setpoint.spark.audits import sample, violation
        from setpoint.targets.delta import stage

        frame = stage.read_back(session, self._storage, staged)
        return sample(frame.where(violation(audit, frame.schema)))

    def publish(
        self,
        session: SparkSession | None,
        run: Run,
        receipt: Receipt,
        staged: Staged | None,
        expected: SliceState,
    ) -> Published:
        from setpoint.targets.delta import commit, stage

        for _ in range(_TURNS):
            snapshot = self._snapshot()
            self._refuse_if_fenced(snapshot, run.window, expected, staged)
            rule = staged.handle.rule if staged else self._rule(snapshot)
            chosen = self._mechanism(snapshot)
            try:
                if chosen.kind == "files":
                    commit.commit_files(
                        snapshot,
                        self._storage,
                        run,
                        receipt,
                        staged,
                        rule,
                        self._partition_columns(snapshot),
                    )
                else:
                    if session is None:
                        raise TypeError("the connector needs a session")
                    frame = stage.read_back(session, self._storage, staged) if staged else None
                    commit.commit_through_connector(
                        session,
                        frame,
                        snapshot,
                        self._storage,
                        run,
                        receipt,
                        staged,
                        rule,
                        self._partition_columns(snapshot),
                    )
            except commit.TableMoved:
                continue
            if chosen.kind == "files":
                # The log took exactly the version after the one we looked at, or nothing.
                version = snapshot.version + 1 if snapshot else 0
                return self._counted(run, receipt, staged, version)
            return self._confirm(run, receipt)
        raise TransientError(
            "SP-P01",
            f"The commit of {run.label} lost {_TURNS} races against other writers of the table.",
            next="Run again when the table is less busy; it is always safe.",
        )

    def landed(self, window: Window, attempt: str) -> Published | None:
        snapshot = self._snapshot()
        if snapshot is None:
            return None
        for entry in snapshot.table.history():
            for receipt in unseal(entry.get("userMetadata")):
                if receipt.attempt == attempt and receipt.window == window.id:
                    return Published(receipt, int(entry["version"]), snapshot.table_id)
        return None

    def has_stage(self, location: str) -> bool:
        return bool(self._storage.files(location))

    def drop_stage(self, location: str) -> None:
        snapshot = self._snapshot()
        live = snapshot.files if snapshot else ()
        if any(file.path.startswith(f"{location}/") for file in live):
            raise PermanentError(
                "SP-P04",
                f"The stage {location} holds live files of {self.uri}.",
                why="Removing it would lose published rows.",
                state="Nothing was removed.",
                next="Please report this with the output of: setpoint show",
            )
        self._storage.drop(location)

    def tidy_stage(self, staged: Staged) -> None:
        if not staged.handle.files or self._mechanism().kind == "connector":
            self._storage.drop(staged.location)

    def leftovers(self) -> Sequence[Leftover]:
        from setpoint.targets.delta.leftovers import find

        return find(self._storage, self._snapshot())

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
            paths, rows = self._slices(snapshot, [run.window])
            if files_digest(paths[run.window]) != receipt.files or rows[run.window] != receipt.rows:
                raise PermanentError(
                    "SP-P04",
                    f"{run.label} was published with {receipt.rows:,} rows, but its slice holds "
                    f"{rows[run.window]} rows in other files.",
                    why="This must not happen; somebody may have written to the log by hand.",
                    state=f"The table is at version {version}; the old rows are in the one before.",
                    next="Please report this with the table's _delta_log.",
                )
        return Published(receipt, version, snapshot.table_id)

    def _confirm(self, run: Run, receipt: Receipt) -> Published:
        """Read the target's own word; a writer may skip a commit without saying so."""
        published = self.landed(run.window, receipt.attempt)
        if published is None:
            state = self.inspect([run.window])[run.window]
            if state.generation >= receipt.generation:
                raise Fenced(state)
            raise PermanentError(
                "SP-P04",
                f"The commit of {run.label} was acknowledged, but its receipt is not in the log.",
                state="The window holds either its old rows or the new ones, never a mixture.",
                next="Look at the table's history, then: setpoint recover",
            )
        return published

    def _refuse_if_fenced(
        self,
        snapshot: Snapshot | None,
        window: Window,
        expected: SliceState,
        staged: Staged | None,
    ) -> None:
        if snapshot is None:
            if expected.generation or staged is None:
                raise Fenced(SliceState(0, None, None))
            return
        generation = snapshot.generation(self._pipeline.name, window.id)
        if generation == expected.generation and staged is not None:
            self._refuse_if_moved_away(snapshot, staged)
            return
        paths, rows = self._slices(snapshot, [window])
        state = self._state(snapshot, window, paths[window], rows[window], {})
        if generation != expected.generation or not state.untouched:
            raise Fenced(state)

    def _refuse_if_moved_away(self, snapshot: Snapshot, staged: Staged) -> None:
        """The table's columns may have changed since the stage was fitted to them."""
        fitted = json.loads(staged.handle.fit.schema_json)["fields"]
        added = set(staged.handle.fit.added)
        same = snapshot.partition_columns == staged.handle.partition_by and [
            (field.name, field.nullable) for field in snapshot.fields
        ] == [(item["name"], item["nullable"]) for item in fitted if item["name"] not in added]
        if not same or not all(
            same_type(field.kind, item["type"])
            for field, item in zip(snapshot.fields, fitted, strict=False)
        ):
            raise TransientError(
                "SP-P01",
                f"The columns of the table at {self.uri} changed while the rows were staged.",
                next="Run again; the new attempt looks at the new columns.",
            )

    def _snapshot(self) -> Snapshot | None:
        return open_snapshot(self._storage)

    def _mechanism(self, snapshot: Snapshot | None = None) -> Mechanism:
        return choose(snapshot or self._snapshot(), self._column(), self._spec.partition_by)

    def _column(self) -> str:
        column = self._spec.slice_column
        if column is None:  # refused when the pipeline is defined
            raise TypeError("the target names no column for the window")
        return column

    def _partition_columns(self, snapshot: Snapshot | None) -> tuple[str, ...]:
        return snapshot.partition_columns if snapshot else self._spec.partition_by

    def _rule(self, snapshot: Snapshot | None, returned_kind: str | None = None) -> SliceRule:
        column = self._column()
        kind = returned_kind
        if snapshot is not None:
            field = snapshot.field(column)
            if field is None:
                raise RefusedError(
                    "SP-T02",
                    f"The table at {self.uri} has no column {column}.",
                    why="It is the column that says which window a row belongs to.",
                    next="Correct partition_by or time of the pipeline's target.",
                )
            kind = field.kind
        return SliceRule.of(column, str(kind), self._pipeline.every, self._pipeline.timezone)

    def _slices(
        self, snapshot: Snapshot, windows: Sequence[Window]
    ) -> tuple[dict[Window, list[str]], dict[Window, int | None]]:
        """The live files of each window, and their rows where the log tells."""
        paths: dict[Window, list[str]] = {window: [] for window in windows}
        rows: dict[Window, int | None] = dict.fromkeys(windows, 0)
        for window, file in self._owned(snapshot, windows):
            paths[window].append(file.path)
            known = rows[window]
            rows[window] = None if file.rows is None or known is None else known + file.rows
        return paths, rows

    def _owned(self, snapshot: Snapshot, windows: Sequence[Window]) -> Iterable[tuple[Window, Any]]:
        rule = self._rule(snapshot)
        if rule.column in snapshot.partition_columns:
            owner = rule.index(windows)
            for file in snapshot.files:
                window = owner(file.partition.get(rule.column))
                if window is not None:
                    yield window, file
            return
        for file in snapshot.files:
            least, most = file.least.get(rule.column), file.most.get(rule.column)
            for window in windows:
                if rule.overlaps(window, least, most):
                    yield window, file

    def _state(
        self,
        snapshot: Snapshot,
        window: Window,
        paths: Sequence[str],
        rows: int | None,
        remembered: Mapping[tuple[str, int], tuple[Receipt, int | None]],
    ) -> SliceState:
        generation = snapshot.generation(self._pipeline.name, window.id)
        found: tuple[Receipt, int | None] | None
        found = snapshot.receipts.get((self._pipeline.name, window.id))
        if found is None or found[0].generation != generation:
            found = remembered.get((window.id, generation))
        if not generation or found is None:
            return SliceState(generation, None, None, rows)
        receipt, version = found
        same_files = not snapshot.has_deletion_vectors and receipt.files == files_digest(paths)
        untouched = same_files or self._only_neutral(snapshot, window, version)
        return SliceState(generation, receipt, untouched, rows, version)

    def _only_neutral(self, snapshot: Snapshot, window: Window, version: int | None) -> bool:
        """Whether no commit since the publish looked at the table can have changed the window.

        The connector may let a foreign append slip in between its look and its commit, so the
        commits in between count too.
        """
        history = {int(entry["version"]): entry for entry in snapshot.table.history()}
        if version is None or version not in history:
            return False
        looked_at = history[version].get("readVersion")
        base = looked_at if isinstance(looked_at, int) and 0 <= looked_at < version else version
        others = [number for number in range(base + 1, snapshot.version + 1) if number != version]
        return all(
            number in history and self._is_neutral(history[number], window) for number in others
        )

    def _is_neutral(self, entry: Mapping[str, Any], window: Window) -> bool:
        receipts = unseal(entry.get("userMetadata"))
        if receipts:
            return all(
                receipt.pipeline == self._pipeline.name
                and receipt.timezone == window.timezone
                and receipt.every == str(window.grain)
                and receipt.window != window.id
                for receipt in receipts
            )
        return entry.get("operation") in _NEUTRAL

    def _refuse_foreign_files(self) -> None:
        from setpoint.targets.delta.stage import FOLDER

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
