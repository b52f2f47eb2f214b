"""An Iceberg table as a source: pinned to a snapshot, clipped to the window.

The files that a window needs are found in the table's metadata, without a JVM; their names,
those of the files that take rows away from them, and the table's columns are the fingerprint of
the input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from setpoint.model.fingerprint import digest
from setpoint.model.grain import Grain
from setpoint.model.mark import Mark
from setpoint.model.run import Pinned
from setpoint.model.slice import SliceRule
from setpoint.model.source import Source
from setpoint.model.span import Span, Stretch
from setpoint.model.window import Window
from setpoint.sources.failures import clip_rule, gone, missing, unreadable
from setpoint.sources.names import check_names, clipped, look_at_names
from setpoint.sources.schema import schema_digest
from setpoint.targets.iceberg.catalog import CatalogSettings, TableName
from setpoint.targets.iceberg.log import Version, open_version
from setpoint.targets.iceberg.ranges import is_value_of, values_of
from setpoint.targets.iceberg.slices import files_of
from setpoint.targets.iceberg.types import KINDS

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyspark.sql import DataFrame, SparkSession


class IcebergSource:
    """The source port for Iceberg."""

    def __init__(
        self,
        name: str,
        source: Source,
        table: TableName,
        settings: CatalogSettings,
        every: Grain,
        timezone: str,
    ) -> None:
        self._name = name
        self._source = source
        self._table = table
        self._settings = settings
        self._every = every
        self._timezone = timezone
        self._current: Version | None = None

    @property
    def label(self) -> str:
        return self._source.label

    def connectors(self) -> frozenset[str]:
        return frozenset({"iceberg"})

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        return self._pinned(self._newest(), windows)

    def pin_published(self, window: Window, recorded: Mapping[str, Any]) -> Pinned:
        number, newest = recorded.get("version"), self._newest()
        what = f"Snapshot {number}" if number is not None else "The table without a snapshot"
        versions = [newest] if number == _number(newest) else []
        if number is not None and (earlier := newest.at(int(number))) is not None:
            versions.append(earlier)
        if not versions:
            raise gone(self._name, self.label, what, "it has expired")
        # The time column may have had another name in one of them.
        time = self._source.time
        having = [v for v in versions if not time or time in v.schema.column_names]
        for version in having or versions[-1:]:
            pinned = self._pinned(version, [window])[window]
            if pinned.fingerprint == recorded.get("fingerprint"):
                return pinned
        raise gone(
            self._name, self.label, what, "the table is another one now, or has other columns"
        )

    def bounds(self, window: Window) -> str:
        if self._source.time is None:
            return "whole table"
        return self._rule(self._newest()).predicate(window)

    def read(self, session: SparkSession, window: Window, pinned: Pinned) -> DataFrame:
        return self._read(session, window, pinned)

    def read_span(
        self, session: SparkSession, span: Span, pins: Mapping[Window, Pinned]
    ) -> DataFrame:
        first = pins[span.windows[0]]
        if all(pins[window].handle is first.handle for window in span):
            return self._read(session, span, first)
        from setpoint.spark.union import united

        # What several publishes have read may be several versions.
        return united([(window, self.read(session, window, pins[window])) for window in span])

    def _read(self, session: SparkSession, stretch: Stretch, pinned: Pinned) -> DataFrame:
        frame = self._frame(session, pinned)
        if self._source.time is None:
            return frame
        version = self._version(pinned)
        rule = self._rule(version)
        if rule.by_name and version.files and not self._check_names(version, rule):
            look_at_names(self._name, self.label, rule, self._every, frame)
        return clipped(frame, rule, stretch, self.label)

    def read_increment(
        self,
        session: SparkSession,
        pinned: Pinned,
        after: Mark | None,
        again: tuple[str, str] | None,
    ) -> tuple[DataFrame, Mark | None]:
        from setpoint.spark.increment import increment

        return increment(self._frame(session, pinned), self._source, after, again, self.label)

    def confirm(self, window: Window, pinned: Pinned) -> None:
        """A snapshot does not change while it is read."""

    def _frame(self, session: SparkSession, pinned: Pinned) -> DataFrame:
        # In the session of the run: frames of two sessions cannot meet in Spark Connect.
        if session.conf.get(f"spark.sql.catalog.{self._table.catalog}", None) is None:
            for key, value in self._settings.for_spark().items():
                session.conf.set(key, value)
        reader, version = session.read, self._version(pinned)
        try:
            if pinned.version is None:
                # What is written from now on belongs to a later run.
                return reader.table(self._table.sql).where("false")
            frame = reader.option("versionAsOf", str(pinned.version)).table(self._table.sql)
            before, wanted, now = version.head_schema, version.schema, version.table.schema()
            if _columns(before) == _columns(wanted) == _columns(now):
                return frame
            from setpoint.sources.evolved import evolved

            return evolved(frame, before, wanted, now)
        except Exception as error:
            raise unreadable(self.label, error) from error

    def _version(self, pinned: Pinned) -> Version:
        """The version that was pinned: of the newest snapshot with the columns of now."""
        return pinned.handle if isinstance(pinned.handle, Version) else self._newest()

    def _pinned(self, version: Version, windows: Sequence[Window]) -> dict[Window, Pinned]:
        rule = self._rule(version) if self._source.time is not None else None
        if rule is not None:
            self._check_names(version, rule)
        number, columns = _number(version), _columns(version.schema)
        found = {}
        for window, slice_files in files_of(version, rule, windows, version.files).items():
            files = slice_files.all
            rows = sum(file.record_count for file in files)
            found[window] = Pinned(
                version=number,
                fingerprint=digest(version.table_id, columns, version.digest_of(files)),
                detail=f"snapshot {number or 'none'}, files: {len(files):,}, rows: {rows:,}",
                rows=None if version.delete_files else rows,
                handle=version,
            )
        return found

    def _check_names(self, version: Version, rule: SliceRule) -> bool:
        """Refuse a column of names that names no windows, as far as the metadata tells."""
        if not rule.by_name:
            return True
        specs, schema = version.table.specs(), version.schema
        known = (
            values_of(file, rule.column, rule.kind, schema, specs)
            for file in version.files
            # Texts in statistics are cut short; those of a partition are whole.
            if rule.kind != "string" or is_value_of(file, rule.column, schema, specs)
        )
        ranges = ((values.least, values.most) for values in known)
        return check_names(self._name, self.label, rule, self._every, ranges)

    def _rule(self, version: Version) -> SliceRule:
        types = {field.name: str(field.field_type) for field in version.schema.fields}
        kinds = {name: KINDS.get(text, text) for name, text in types.items()}
        column = self._source.time or ""
        return clip_rule(self._name, self.label, column, kinds, self._every, self._timezone)

    def _newest(self) -> Version:
        if self._current is None:
            self._current = open_version(self._settings.open(), self._table)
        if self._current is None:
            raise missing(self._name, self.label, f"the catalog has no table {self._table}")
        return self._current


def _number(version: Version) -> int | None:
    return version.head.snapshot_id if version.head else None


def _columns(schema: Schema) -> str:
    """The columns, as part of the fingerprint: a rename leaves every file as it is."""
    return schema_digest(json.loads(schema.model_dump_json())["fields"])
