"""A Delta table as a source: pinned to a version, clipped to the window.

The files that a window needs are found in the log, without a JVM; their names and the table's
columns are the fingerprint of the input. Spark then reads just those files. Tables with features
that change how files are read (deletion vectors, column mapping) are read through the connector.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from setpoint.errors import PermanentError, SetpointError
from setpoint.model.fingerprint import digest
from setpoint.model.grain import Grain
from setpoint.model.mark import Mark
from setpoint.model.run import Pinned
from setpoint.model.slice import SliceRule, typed
from setpoint.model.source import Source
from setpoint.model.span import Span, Stretch, windows_of
from setpoint.model.window import Window
from setpoint.sources.failures import clip_rule, gone, unreadable
from setpoint.sources.names import check_names, clipped, look_at_names
from setpoint.sources.schema import schema_digest
from setpoint.targets.delta.log import DataFile, Snapshot, open_snapshot
from setpoint.targets.delta.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Reader features that leave a plain Parquet reading of the live files right.
_PLAIN_READERS = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
_STORED_AS = "delta.columnMapping.physicalName"
_ROUNDED = {"timestamp": timedelta(milliseconds=1), "date": timedelta(0)}


class DeltaSource:
    """The source port for Delta Lake."""

    def __init__(
        self, name: str, source: Source, storage: Storage, every: Grain, timezone: str
    ) -> None:
        self._name = name
        self._source = source
        self._storage = storage
        self._every = every
        self._timezone = timezone
        self._snapshots: dict[int, Snapshot] = {}
        self._current: Snapshot | None = None

    @property
    def label(self) -> str:
        return self._source.label

    def connectors(self) -> frozenset[str]:
        return frozenset() if _reads_plainly(self._newest()) else frozenset({"delta"})

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        snapshot = self._newest()
        columns = _columns(snapshot)
        if self._source.time is None:
            everything = _pinned(snapshot, columns, snapshot.files)
            return dict.fromkeys(windows, everything)
        rule = self._rule(snapshot)
        self._check_names(snapshot, rule)
        chosen: dict[Window, list[DataFile]] = {window: [] for window in windows}
        if rule.column in snapshot.partition_columns:
            owner = rule.index(windows)
            for file in snapshot.files:
                window = owner(file.partition.get(rule.column))
                if window is not None:
                    chosen[window].append(file)
        else:
            for window in windows:
                chosen[window] = _overlapping(snapshot, rule, window)
        return {window: _pinned(snapshot, columns, files) for window, files in chosen.items()}

    def pin_published(self, window: Window, recorded: Mapping[str, Any]) -> Pinned:
        version = recorded.get("version")
        try:
            snapshot = self._at(int(version)) if version is not None else None
        except SetpointError as error:
            raise gone(self._name, self.label, f"version {version}", error.what) from error
        if snapshot is None:
            raise gone(self._name, self.label, "its version", "the receipt does not name it")
        files = snapshot.files
        if not self._source.whole and not self._source.cursor:
            rule = self._rule(snapshot)
            self._check_names(snapshot, rule)
            files = tuple(_overlapping(snapshot, rule, window))
        pinned = _pinned(snapshot, _columns(snapshot), files)
        if pinned.fingerprint != recorded.get("fingerprint"):
            raise gone(self._name, self.label, f"version {version}", "the table is another one now")
        self._refuse_removed(snapshot, files)
        return pinned

    def _refuse_removed(self, snapshot: Snapshot, files: Sequence[DataFile]) -> None:
        """Refuse a version of which VACUUM has removed files.

        It removes none that the newest version needs, so only the others are looked for.
        """
        live = {file.path for file in self._newest().files}
        # A clone's files lie in another table, under a path of their own.
        old = [file.path for file in files if file.path not in live and ":/" not in file.path]
        removed = self._storage.missing(old)
        if removed:
            because = f"{len(removed):,} of its files were removed, by VACUUM or otherwise"
            raise gone(self._name, self.label, f"version {snapshot.version}", because)

    def confirm(self, window: Window, pinned: Pinned) -> None:
        """A version does not change while it is read."""

    def bounds(self, window: Window) -> str:
        if self._source.time is None:
            return "whole table"
        return self._rule(self._newest()).predicate(window)

    def read(self, session: SparkSession, window: Window, pinned: Pinned) -> DataFrame:
        return self._read(session, window, pinned.version)

    def read_span(
        self, session: SparkSession, span: Span, pins: Mapping[Window, Pinned]
    ) -> DataFrame:
        versions = {pins[window].version for window in span}
        if len(versions) == 1:
            return self._read(session, span, versions.pop())
        from setpoint.spark.union import united

        # What several publishes have read may be several versions.
        return united([(window, self.read(session, window, pins[window])) for window in span])

    def _read(self, session: SparkSession, stretch: Stretch, version: int | None) -> DataFrame:
        snapshot = self._at(version)
        rule = None if self._source.whole else self._rule(snapshot)
        files = snapshot.files
        if rule is not None:
            files = tuple(_overlapping(snapshot, rule, stretch))
        if _reads_plainly(snapshot):
            frame = self._plainly(session, snapshot, files)
        else:
            frame = self._through_connector(session, snapshot.version)
        if rule is None:
            return frame
        if rule.by_name and snapshot.files and not self._check_names(snapshot, rule):
            everything = frame
            if _reads_plainly(snapshot):
                everything = self._plainly(session, snapshot, snapshot.files[:1])
            look_at_names(self._name, self.label, rule, self._every, everything)
        return clipped(frame, rule, stretch, self.label)

    def read_increment(
        self,
        session: SparkSession,
        pinned: Pinned,
        after: Mark | None,
        again: tuple[str, str] | None,
    ) -> tuple[DataFrame, Mark | None]:
        from setpoint.spark.increment import increment

        snapshot = self._at(pinned.version)
        if _reads_plainly(snapshot):
            frame = self._plainly(session, snapshot, self._from_mark(snapshot, after, again))
        else:
            frame = self._through_connector(session, snapshot.version)
        return increment(frame, self._source, after, again, self.label)

    def _from_mark(
        self, snapshot: Snapshot, after: Mark | None, again: tuple[str, str] | None
    ) -> Sequence[DataFile]:
        """The files that can hold rows at the mark or after it, or without a cursor at all."""
        column, lookback = self._source.cursor[0], self._source.lookback
        kind = after.kinds[0] if after is not None else ""
        field = snapshot.field(column)
        same = field is not None and field.kind == kind
        if after is None or again is not None or not same or kind not in ("date", "timestamp"):
            return snapshot.files
        back = lookback if isinstance(lookback, timedelta) else timedelta(days=lookback or 0)
        try:
            # The log keeps times to the millisecond, cut off.
            low = typed(kind, after.values[0]) - back - _ROUNDED[kind]
        except OverflowError:
            return snapshot.files
        return [file for file in snapshot.files if not _ends_before(file, column, low)]

    def _plainly(
        self, session: SparkSession, snapshot: Snapshot, files: Sequence[DataFile]
    ) -> DataFrame:
        from setpoint.spark.files import read_files

        schema = snapshot.table.schema().to_json()
        columns = snapshot.partition_columns
        try:
            return read_files(session, self._storage.spark_path(), schema, columns, files)
        except Exception as error:
            raise unreadable(self.label, error) from error

    def _through_connector(self, session: SparkSession, version: int) -> DataFrame:
        try:
            return (
                session.read.format("delta")
                .option("versionAsOf", version)
                .load(self._storage.spark_path())
            )
        except Exception as error:
            raise unreadable(self.label, error) from error

    def _check_names(self, snapshot: Snapshot, rule: SliceRule) -> bool:
        """Refuse a column of names that names no windows, as far as the log tells its values."""
        if not rule.by_name:
            return True
        ranges = (_range(snapshot, file, rule.column) for file in snapshot.files)
        return check_names(self._name, self.label, rule, self._every, ranges)

    def _rule(self, snapshot: Snapshot) -> SliceRule:
        kinds = {field.name: str(field.kind) for field in snapshot.fields}
        column = self._source.time or ""
        return clip_rule(self._name, self.label, column, kinds, self._every, self._timezone)

    def _newest(self) -> Snapshot:
        if self._current is None:
            self._current = self._at(None)
        return self._current

    def _at(self, version: int | None) -> Snapshot:
        if version in self._snapshots:
            return self._snapshots[version]
        snapshot = open_snapshot(self._storage, version)
        if snapshot is None:
            raise PermanentError(
                "SP-R01",
                f"The source {self._name} is not a Delta table: {self._storage.uri}",
                next="Create the table or correct the path of the source.",
            )
        self._snapshots[snapshot.version] = snapshot
        return snapshot


def _overlapping(snapshot: Snapshot, rule: SliceRule, stretch: Stretch) -> list[DataFile]:
    """The files that can hold rows of the stretch, by partition value or by statistics."""
    if rule.column in snapshot.partition_columns:
        owner = rule.index(windows_of(stretch))
        return [file for file in snapshot.files if owner(file.partition.get(rule.column))]
    return [
        file
        for file in snapshot.files
        if rule.overlaps(stretch, *_range(snapshot, file, rule.column))
    ]


def _range(snapshot: Snapshot, file: DataFile, column: str) -> tuple[Any, Any]:
    """The least and the most value of a column in a file, as far as the log tells them."""
    if column in snapshot.partition_columns:
        value = file.partition.get(column)
        return value, value
    field = snapshot.field(column)
    # Statistics go by the name that files hold a column under; that of another may be this one's.
    stored = (field.metadata if field else {}).get(_STORED_AS, column)
    return file.least.get(stored), file.most.get(stored)


def _ends_before(file: DataFile, column: str, low: Any) -> bool:
    """Whether a file is known to hold no row from a value on, and none without a value."""
    most = file.partition.get(column) if column in file.partition else file.most.get(column)
    return bool(most is not None and most < low and file.nulls.get(column) == 0)


def _pinned(snapshot: Snapshot, columns: str, files: Sequence[DataFile]) -> Pinned:
    names = sorted(f"{file.path} {file.size}" for file in files)
    if snapshot.has_deletion_vectors:
        names.append(f"version {snapshot.version}")
    rows = sum(file.rows or 0 for file in files)
    return Pinned(
        version=snapshot.version,
        fingerprint=digest(snapshot.table_id, columns, *names),
        detail=f"version {snapshot.version}, files: {len(files):,}, rows: {rows:,}",
        rows=None if any(file.rows is None for file in files) else rows,
    )


def _columns(snapshot: Snapshot) -> str:
    """The columns, as part of the fingerprint: a rename leaves every file as it is."""
    return schema_digest(json.loads(snapshot.table.schema().to_json())["fields"])


def _reads_plainly(snapshot: Snapshot) -> bool:
    features = set(snapshot.table.protocol().reader_features or ())
    mapping = snapshot.configuration.get("delta.columnMapping.mode", "none")
    return features <= _PLAIN_READERS and mapping == "none"
