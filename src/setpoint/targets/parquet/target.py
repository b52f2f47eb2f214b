"""A Hive-style Parquet table as the target of one pipeline."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from setpoint.errors import (
    NOTHING_STARTED,
    RefusedError,
    UsageError,
)
from setpoint.model import tombstones
from setpoint.model.audit import Audit, AuditResult
from setpoint.model.pipeline import Pipeline
from setpoint.model.ports import Leftover, Published, Recall, Staged, recalled
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Chunk, Run, Statement
from setpoint.model.scope import Scope
from setpoint.model.table import Parquet
from setpoint.model.window import Window
from setpoint.model.write import Overwrite, Replace
from setpoint.targets import leftovers
from setpoint.targets.chunk import alone_by_pattern
from setpoint.targets.parquet.manifest import latest
from setpoint.targets.parquet.metastore import Metastore
from setpoint.targets.parquet.storage import Files, files_at
from setpoint.targets.parquet.view import RUNS, Unit, View, table_id
from setpoint.targets.refusals import holds_live_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from setpoint.targets.parquet.publisher import Publisher


_NAME = re.compile(r"[A-Za-z0-9_]+")


class ParquetTarget:
    """The target port for Parquet tables; the metastore is asked through the session."""

    def __init__(
        self, pipeline: Pipeline, table: Parquet, session: Callable[[], SparkSession]
    ) -> None:
        self._pipeline, self._spec, self._session = pipeline, table, session
        self._known: Metastore | None = None
        self._staging_below: str | None = None
        self._rewrites = count()
        self._database, self._table = name_parts(table.table)

    @property
    def uri(self) -> str:
        return f"parquet:{self._database}.{self._table}"

    def connectors(self) -> frozenset[str]:
        return frozenset({"hive"})

    def mechanism(self) -> str:
        parts = bool(self._spec.partition_by)
        if self._is_direct:
            what = "the partitions' locations" if parts else "the table's location"
            return f"one swap of {what} to the staged folder, under a lock"
        what = "partitions that change" if parts else "table"
        return f"a rewrite of the {what} beside the old rows and one swap, under a lock"

    def table_id(self) -> str | None:
        view = self._view()
        return view.identity if view else None

    def published_windows(self) -> Sequence[str]:
        view = self._view()
        return sorted(latest(view.entries(view.units), self._pipeline.name)) if view else ()

    def check_definition(self) -> None:
        """Compare the definition with the existing table: columns, grain, partitioning."""
        view = self._view()
        if view is None:
            return
        stated, there = self._spec.partition_by, view.info.partition_columns
        if stated != there:
            raise RefusedError(
                "SP-T02",
                f"{self._pipeline.name} says partition_by={stated}, but {self.uri} is partitioned "
                f"by {there}.",
                why="The window would own other rows than the pipeline says.",
                next="Correct partition_by.",
            )
        _ = view.rule

    def inspect(
        self, windows: Sequence[Window], recall: Recall | None = None
    ) -> Mapping[Window, SliceState]:
        view = self._view()
        if view is None:
            return {window: SliceState(0, None, None) for window in windows}
        return view.states(windows, recalled(recall, lambda: view.identity))

    def location(self, run: Statement, attempt: str) -> str:
        from setpoint.targets.parquet import stage

        return stage.location(run, attempt)

    def stage(
        self, frame: DataFrame, run: Statement, attempt: str, audits: Sequence[Audit]
    ) -> Staged:
        from setpoint.spark.audits import check_columns
        from setpoint.spark.tombstones import keep
        from setpoint.targets.parquet import schema, stage

        view = self._view()
        root = self._staging_below = self._root(view)
        if view is None:
            self._refuse_foreign_files(root)
        partition_by = self._partition_columns(view)
        fit = schema.fit(
            frame.schema,
            view.info.schema if view else None,
            partition_by=partition_by,
            needed=self._pipeline.needed_columns(),
            evolve=self._spec.evolve,
            label=run.label,
        )
        check_columns(audits, frame.schema, run.label)
        staged = stage.write(
            frame,
            run,
            attempt,
            audits,
            files=self._files(root),
            root=root,
            fit=fit,
            scope=view.scope if view else self._scope(frame),
            partition_by=partition_by,
            direct=self._is_direct,
        )
        if staged.handle.tombstones:
            place = f"{root}/{staged.handle.tombstones}"
            keep(stage.read_back(frame.sparkSession, staged), self._pipeline.write, place)
        return staged

    def audit(
        self, session: SparkSession, staged: Staged, run: Run, audits: Sequence[Audit]
    ) -> list[AuditResult]:
        from setpoint.spark.audits import set_level
        from setpoint.spark.batch import to_keep
        from setpoint.targets.parquet.stage import read_back

        rule = staged.handle.scope.rule
        constant = [rule.column] if rule and staged.handle.only_value else []
        rows = staged.rows - staged.deletes
        return set_level(
            audits, to_keep(read_back(session, staged)), rows=rows, constant_columns=constant
        )

    def sample(
        self, session: SparkSession, staged: Staged, audit: Audit
    ) -> tuple[dict[str, Any], ...]:
        from setpoint.spark.audits import sample, violation
        from setpoint.spark.batch import to_keep
        from setpoint.targets.parquet.stage import read_back

        frame = to_keep(read_back(session, staged))
        return sample(frame.where(violation(audit, frame.schema)))

    def publish(
        self,
        session: SparkSession,
        run: Run,
        receipt: Receipt,
        staged: Staged | None,
        expected: SliceState,
    ) -> Published:
        publisher = self._publisher(session, run, staged)
        (published,) = publisher.publish([receipt], staged, {run.window: expected})
        return published

    def alone(self) -> str:
        if by_pattern := alone_by_pattern(self._pipeline.write):
            return by_pattern
        if not self._is_direct:
            return "windows share files, and each publish computes new ones"
        if not self._metastore().swaps_several():
            return "this metastore moves one partition at a time"
        return ""

    def divide(
        self,
        session: SparkSession,
        staged: Staged,
        chunk: Chunk,
        attempts: Mapping[Window, str],
        audits: Sequence[Audit],
    ) -> Mapping[Window, Staged]:
        from setpoint.targets.parquet.chunk import divided

        return divided(session, staged, chunk, attempts, audits)

    def publish_chunk(
        self,
        session: SparkSession,
        chunk: Chunk,
        receipts: Sequence[Receipt],
        parts: Sequence[Staged] | None,
        expected: Mapping[Window, SliceState],
    ) -> Sequence[Published]:
        from setpoint.targets.parquet.chunk import together

        staged = together(parts) if parts else None
        return self._publisher(session, chunk, staged).publish(receipts, staged, expected)

    def landed(self, window: str, attempt: str) -> Published | None:
        view = self._view()
        if view is None:
            return None
        for entry in view.entries(view.units):
            if entry.receipt.attempt == attempt and entry.receipt.window == window:
                return Published(entry.receipt, entry.commit, view.identity)
        return None

    def has_stage(self, location: str) -> bool:
        root = self._staging_below or self._root(self._view())
        return bool(self._files(root).listed(f"{root}/{location}"))

    def drop_stage(self, location: str) -> None:
        view = self._view()
        root = self._root(view)
        place = f"{root}/{location}"
        if view and any(f"{unit.location}/".startswith(f"{place}/") for unit in view.units):
            raise holds_live_rows(location, self.uri)
        self._files(root).drop(place)
        if tombstones.folder_of(location) not in (view.tombstones() if view else ()):
            self._files(root).drop(f"{root}/{tombstones.folder_of(location)}")

    def tidy_stage(self, staged: Staged) -> None:
        """Remove the batch, and contents that were computed in vain."""
        view = self._view()
        root, place = staged.handle.root, f"{staged.handle.root}/{staged.location}"
        live = [unit.location for unit in view.units] if view else []
        if not any(f"{location}/".startswith(f"{place}/") for location in live):
            self.drop_stage(staged.location)
            return
        files = self._files(root)
        for name in sorted({file.path.split("/")[0] for file in files.listed(place)}):
            folder = f"{place}/{name}"
            if not any(f"{location}/".startswith(f"{folder}/") for location in live):
                self._files(root).drop(folder)

    def leftovers(self) -> Sequence[Leftover]:
        view = self._view()
        root = self._root(view)
        in_use: list[str] = []
        if view is not None:
            in_use = [unit.location for unit in view.units]
            for held in view.hold(view.units).values():
                in_use += held.manifest.superseded if held.manifest else ()
        staged = (
            replace(file, path=f"{RUNS}/{file.path}")
            for file in self._files(root).listed(f"{root}/{RUNS}")
        )
        return leftovers.find(staged, RUNS, (place.removeprefix(f"{root}/") for place in in_use))

    def _view(self) -> View | None:
        metastore = self._metastore()
        info = metastore.table()
        if info is None:
            return None
        identity = table_id(self._database, self._table, info)
        if info.partition_columns:
            units = [Unit(item.spec, item.location) for item in metastore.partitions()]
        else:
            units = [Unit({}, info.location)]
        return View(self._pipeline, info, identity, units, self._files(info.root))

    def _publisher(self, session: SparkSession, run: Statement, staged: Staged | None) -> Publisher:
        from setpoint.targets.parquet.publisher import Publisher

        root = staged.handle.root if staged else self._root(self._view())
        return Publisher(
            session,
            run,
            root=root,
            files=self._files(root),
            metastore=self._metastore(),
            look=self._view,
            numbers=self._rewrites,
        )

    def _metastore(self) -> Metastore:
        session, known = self._session(), self._known
        if known is None or known.session is not session:
            known = self._known = Metastore(session, self._database, self._table)
        return known

    def _files(self, root: str) -> Files:
        return files_at(root, self._session)

    def _root(self, view: View | None) -> str:
        return view.info.root if view else self._metastore().default_location()

    def _partition_columns(self, view: View | None) -> tuple[str, ...]:
        return view.info.partition_columns if view else self._spec.partition_by

    @property
    def _is_direct(self) -> bool:
        """Whether what is staged becomes visible as it is."""
        write = self._pipeline.write
        if isinstance(write, Overwrite):
            return self._pipeline.slice_column in self._spec.partition_by
        return isinstance(write, Replace)

    def _scope(self, frame: DataFrame) -> Scope:
        rule = self._pipeline.slice_rule(lambda name: frame.schema[name].dataType.typeName())
        return Scope(self._pipeline.write, rule)

    def _refuse_foreign_files(self, root: str) -> None:
        found = [f.path for f in self._files(root).listed(root) if not f.path.startswith("_")]
        if found:
            raise RefusedError(
                "SP-T02",
                f"{root} holds files, but the metastore has no table {self.uri} (for example "
                f"{found[0]!r:.80}).",
                why="A table created there would hide them or mix with them.",
                next="Move the files away, or create the table over them first.",
            )


def name_parts(name: str) -> tuple[str, str]:
    parts = name.split(".")
    if len(parts) == 3 and parts[0] == "spark_catalog":
        parts = parts[1:]
    if len(parts) > 2 or not all(_NAME.fullmatch(part) for part in parts):
        raise UsageError(
            "SP-D01",
            f"{name!r:.120} is not the name of a table in a metastore.",
            why="A metastore takes letters, digits and '_' in the names of databases and tables.",
            state=NOTHING_STARTED,
            next='Write parquet(table="database.table").',
        )
    database, table = parts if len(parts) == 2 else ("default", parts[0])
    return database.lower(), table.lower()
