"""An Iceberg table as a source: pinned to a snapshot, clipped to the window.

The files that a window needs are found in the table's metadata, without a JVM; their names,
and those of the files that take rows away from them, are the fingerprint of the input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from setpoint.model.fingerprint import digest
from setpoint.model.grain import Grain
from setpoint.model.mark import Mark
from setpoint.model.run import Pinned
from setpoint.model.slice import SliceRule
from setpoint.model.source import Source
from setpoint.model.window import Window
from setpoint.sources.failures import clip_rule, gone, missing, unreadable
from setpoint.targets.iceberg.catalog import CatalogSettings, TableName
from setpoint.targets.iceberg.log import Version, open_version
from setpoint.targets.iceberg.slices import files_of
from setpoint.targets.iceberg.types import KINDS

if TYPE_CHECKING:
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
        number = recorded.get("version")
        version = self._newest().at(int(number)) if number is not None else None
        if version is None:
            raise gone(self._name, self.label, f"Snapshot {number}", "it has expired")
        pinned = self._pinned(version, [window])[window]
        if pinned.fingerprint != recorded.get("fingerprint"):
            raise gone(self._name, self.label, f"Snapshot {number}", "the table is another one now")
        return pinned

    def bounds(self, window: Window) -> str:
        if self._source.time is None:
            return "whole table"
        return self._rule(self._newest()).predicate(window)

    def read(self, session: SparkSession, window: Window, pinned: Pinned) -> DataFrame:
        frame = self._frame(session, pinned)
        if self._source.time is None:
            return frame
        return frame.where(self._rule(self._newest()).predicate(window))

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
        reader = session.read
        if pinned.version is not None:
            reader = reader.option("versionAsOf", str(pinned.version))
        try:
            return reader.table(self._table.sql)
        except Exception as error:
            raise unreadable(self.label, error) from error

    def _pinned(self, version: Version, windows: Sequence[Window]) -> dict[Window, Pinned]:
        rule = self._rule(version) if self._source.time is not None else None
        number = version.head.snapshot_id if version.head else None
        found = {}
        for window, slice_files in files_of(version, rule, windows, version.files).items():
            files = slice_files.all
            rows = sum(file.record_count for file in files)
            found[window] = Pinned(
                version=number,
                fingerprint=digest(version.table_id, version.digest_of(files)),
                detail=f"snapshot {number or 'none'}, files: {len(files):,}, rows: {rows:,}",
                rows=None if version.delete_files else rows,
            )
        return found

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
