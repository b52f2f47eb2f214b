"""An Iceberg table as the target of one pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from setpoint.errors import RefusedError, TransientError
from setpoint.model import tombstones
from setpoint.model.audit import Audit, AuditResult
from setpoint.model.pipeline import Pipeline
from setpoint.model.ports import Leftover, Published, Recall, Staged, recalled
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Chunk, Run, Statement
from setpoint.model.scope import Scope
from setpoint.model.table import Iceberg
from setpoint.model.window import Window
from setpoint.model.write import KEYED, DeleteInsert, Overwrite, Replace
from setpoint.targets import leftovers
from setpoint.targets.chunk import alone_by_pattern
from setpoint.targets.iceberg.catalog import CatalogSettings, TableName
from setpoint.targets.iceberg.log import Version, open_version
from setpoint.targets.iceberg.partitions import Layout, columns_of, refuse_unsupported
from setpoint.targets.iceberg.slices import Slices
from setpoint.targets.iceberg.storage import FOLDER, Storage
from setpoint.targets.refusals import holds_live_rows

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import DataFrame, SparkSession

    from setpoint.targets.iceberg.draft import Draft
    from setpoint.targets.iceberg.publisher import Publisher


class IcebergTarget:
    """The target port for Apache Iceberg; looks and commits without a JVM."""

    def __init__(
        self, pipeline: Pipeline, table: Iceberg, name: TableName, settings: CatalogSettings
    ) -> None:
        self._pipeline, self._spec = pipeline, table
        self._name, self._settings = name, settings
        self._opened: Catalog | None = None
        self._shares_files = False
        self._own: tuple[SparkSession, SparkSession] | None = None
        self._rewrites = count(1)

    @property
    def uri(self) -> str:
        return f"iceberg:{self._name}"

    def connectors(self) -> frozenset[str]:
        version = self._version()
        if version is None:
            return frozenset()
        reads = isinstance(self._pipeline.write, (*KEYED, DeleteInsert)) and version.has_files
        if reads or self._shares_files or self._layout(version).needs_connector:
            return frozenset({"iceberg"})
        return frozenset()

    def mechanism(self) -> str:
        needs = bool(self.connectors())
        match self._pipeline.write:
            case Replace():
                return "one snapshot that swaps all files for the staged ones"
            case Overwrite() if not needs:
                return "one snapshot that swaps the slice's files for the staged ones"
            case Overwrite() | DeleteInsert():
                return "one snapshot; files that hold other rows too are rewritten without these"
            case _:
                return "one snapshot; the files in which a key changes are rewritten"

    def table_id(self) -> str | None:
        version = self._version()
        return version.table_id if version else None

    def published_windows(self) -> Sequence[str]:
        version = self._version()
        return sorted(version.last_publishes(self._pipeline.name)) if version else ()

    def check_definition(self) -> None:
        """Compare the definition with the existing table: columns, grain, partitioning."""
        version = self._version()
        if version is None:
            return
        if version.table.format_version > 2:
            raise RefusedError(
                "SP-T02",
                f"The table {self._name} has format version {version.table.format_version}.",
                why="Its rows have ids of their own, which a publish of whole files would lose.",
                next="Use a table of format version 2.",
            )
        _ = Slices(self._pipeline, version).rule
        layout = self._layout(version)
        refuse_unsupported(layout, self._name)
        stated, actual = self._spec.partition_by, columns_of(layout)
        if stated and actual and stated != actual:
            raise RefusedError(
                "SP-T02",
                f"{self._pipeline.name} says partition_by={stated}, but the table {self._name} is "
                f"partitioned by {actual}.",
                why="The window would own other files than the pipeline says.",
                next="Correct partition_by, or give the column as time= instead.",
            )

    def inspect(
        self, windows: Sequence[Window], recall: Recall | None = None
    ) -> Mapping[Window, SliceState]:
        version = self._version()
        if version is None:
            return {window: SliceState(0, None, None) for window in windows}
        slices = Slices(self._pipeline, version)
        if isinstance(self._pipeline.write, Overwrite):
            self._shares_files = any(item.shared for item in slices.files(windows).values())
        return slices.states(windows, recalled(recall, lambda: version.table_id))

    def location(self, run: Statement, attempt: str) -> str:
        return f"{FOLDER}/{run.pipeline.name}/{run.window.slug}/{attempt}"

    def stage(
        self, frame: DataFrame, run: Statement, attempt: str, audits: Sequence[Audit]
    ) -> Staged:
        from setpoint.spark.audits import check_columns
        from setpoint.spark.tombstones import keep
        from setpoint.targets.iceberg import schema, stage

        version = self._version()
        fields = frame.schema.jsonValue()["fields"]
        fit = schema.fit(
            fields,
            version.schema if version else None,
            version.table.metadata.last_column_id if version else 0,
            needed=self._pipeline.needed_columns(),
            evolve=self._spec.evolve,
            label=run.label,
        )
        check_columns(audits, frame.schema, run.label)
        if version is not None:
            rule = Slices(self._pipeline, version).rule
            layout, storage = self._layout(version), version.storage
        else:
            rule = self._pipeline.slice_rule(lambda name: frame.schema[name].dataType.typeName())
            new = self._draft(fields, fit.columns)
            layout, storage = Layout.of(new.spec, new.schema), new.storage
        refuse_unsupported(layout, self._name)
        staged = stage.write(
            frame,
            run,
            attempt,
            audits,
            location=self.location(run, attempt),
            storage=storage,
            fit=fit,
            scope=Scope(self._pipeline.write, rule),
            layout=layout,
        )
        if staged.handle.tombstones:
            place = storage.spark_path(staged.handle.tombstones)
            keep(stage.read_back(frame.sparkSession, staged), self._pipeline.write, place)
        return staged

    def audit(
        self, session: SparkSession, staged: Staged, run: Run, audits: Sequence[Audit]
    ) -> list[AuditResult]:
        from setpoint.spark.audits import set_level
        from setpoint.spark.batch import to_keep
        from setpoint.targets.iceberg import stage

        rule = staged.handle.scope.rule
        constant = rule is not None and rule.only_value(run.window) is not None
        return set_level(
            audits,
            to_keep(stage.read_back(session, staged)),
            rows=staged.rows - staged.deletes,
            constant_columns=[rule.column] if rule and constant else [],
        )

    def sample(
        self, session: SparkSession, staged: Staged, audit: Audit
    ) -> tuple[dict[str, Any], ...]:
        from setpoint.spark.audits import sample, violation
        from setpoint.spark.batch import to_keep
        from setpoint.targets.iceberg import stage

        frame = to_keep(stage.read_back(session, staged))
        return sample(frame.where(violation(audit, frame.schema)))

    def publish(
        self,
        session: SparkSession,
        run: Run,
        receipt: Receipt,
        staged: Staged | None,
        expected: SliceState,
    ) -> Published:
        (published,) = self._publisher(session, run).publish(
            [receipt], staged, {run.window: expected}
        )
        return published

    def alone(self) -> str:
        return alone_by_pattern(self._pipeline.write)

    def divide(
        self,
        session: SparkSession,
        staged: Staged,
        chunk: Chunk,
        attempts: Mapping[Window, str],
        audits: Sequence[Audit],
    ) -> Mapping[Window, Staged]:
        from setpoint.targets.iceberg.chunk import divided

        return divided(session, staged, chunk, attempts, audits)

    def publish_chunk(
        self,
        session: SparkSession,
        chunk: Chunk,
        receipts: Sequence[Receipt],
        parts: Sequence[Staged] | None,
        expected: Mapping[Window, SliceState],
    ) -> Sequence[Published]:
        from setpoint.targets.iceberg.chunk import together

        staged = together(parts) if parts else None
        return self._publisher(session, chunk).publish(receipts, staged, expected)

    def landed(self, window: str, attempt: str) -> Published | None:
        version = self._version()
        return version.landed(window, attempt) if version else None

    def has_stage(self, location: str) -> bool:
        storage = self._storage(self._version())
        return storage is not None and bool(storage.files(location))

    def drop_stage(self, location: str) -> None:
        version = self._version()
        storage = self._storage(version)
        if storage is None:
            return
        if version is not None and self._is_live(version, location):
            raise holds_live_rows(location, self.uri)
        storage.drop(location)
        place = tombstones.folder_of(location)
        if version is None or place not in version.tombstones(self._pipeline.name):
            storage.drop(place)

    def tidy_stage(self, staged: Staged) -> None:
        """Remove what a publish wrote and did not use: a batch that was merged, a lost turn."""
        version = self._version()
        if version is None:
            return
        depth = len(staged.location.split("/"))
        found = version.storage.files(staged.location)
        names = {file.path.split("/")[depth] for file in found}
        if not isinstance(self._pipeline.write, KEYED):
            # What was staged is what was published; a merge has read it, and written other files.
            names -= {file.path.split("/")[depth] for file in staged.handle.files}
        for name in sorted(names):
            place = f"{staged.location}/{name}"
            if not self._is_live(version, place):
                version.storage.drop(place)

    def leftovers(self) -> Sequence[Leftover]:
        version = self._version()
        storage = self._storage(version)
        in_use = version.paths_in_use() if version else ()
        return leftovers.find(storage.files(FOLDER), FOLDER, in_use) if storage else ()

    def _reader(self, session: SparkSession) -> SparkSession:
        """A session of our own that knows the catalog, so that no other is disturbed."""
        from setpoint.spark.session import EXTENSIONS
        from setpoint.targets.iceberg.reader import reader

        if self._own is None or self._own[0] is not session:
            if EXTENSIONS["iceberg"] not in (session.conf.get("spark.sql.extensions", "") or ""):
                self._shares_files = True
                raise TransientError(
                    "SP-P01",
                    f"The table {self._name} has files now that only the connector can rewrite.",
                    next="Run again; the new attempt starts with the connector.",
                )
            self._own = (session, reader(session, self._settings, self._name))
        return self._own[1]

    def _publisher(self, session: SparkSession, run: Statement) -> Publisher:
        from setpoint.targets.iceberg.publisher import Publisher

        return Publisher(
            run,
            self._name,
            look=self._version,
            open_session=lambda: self._reader(session),
            draft=self._draft,
            numbers=self._rewrites,
        )

    def _draft(
        self,
        fields: Sequence[dict[str, Any]],
        columns: Sequence[str],
        location: str | None = None,
    ) -> Draft:
        from setpoint.targets.iceberg.draft import draft

        here = {item["name"]: item for item in fields}
        ordered = [here[name] for name in columns]
        return draft(self._catalog, self._settings, self._name, self._spec, ordered, location)

    def _storage(self, version: Version | None) -> Storage | None:
        from setpoint.targets.iceberg.draft import storage_before

        if version is not None:
            return version.storage
        return storage_before(self._catalog, self._settings, self._name)

    def _is_live(self, version: Version, place: str) -> bool:
        paths = (version.storage.relative(file.file_path) for file in version.files)
        return any(path is not None and path.startswith(f"{place}/") for path in paths)

    def _layout(self, version: Version) -> Layout:
        return Layout.of(version.table.spec(), version.schema)

    def _version(self) -> Version | None:
        return open_version(self._catalog, self._name)

    @property
    def _catalog(self) -> Catalog:
        if self._opened is None:
            self._opened = self._settings.open()
        return self._opened
