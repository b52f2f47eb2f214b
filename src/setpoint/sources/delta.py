"""A Delta table as a source: pinned to a version, clipped to the window.

The files that a window needs are found in the log, without a JVM; their names are the
fingerprint of the input. Spark then reads just those files. Tables with features that change
how files are read (deletion vectors, column mapping) are read through the connector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from setpoint.errors import PermanentError, RefusedError, SetpointError, some_of
from setpoint.model.fingerprint import digest
from setpoint.model.grain import Grain
from setpoint.model.mark import Mark
from setpoint.model.pipeline import Source
from setpoint.model.run import Pinned
from setpoint.model.slice import SliceRule, typed
from setpoint.model.window import Window
from setpoint.targets.delta.log import DataFile, Snapshot, open_snapshot
from setpoint.targets.delta.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Reader features that leave a plain Parquet reading of the live files right.
_PLAIN_READERS = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})


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

    @property
    def label(self) -> str:
        return self._source.table.label

    def connectors(self) -> frozenset[str]:
        return frozenset() if _reads_plainly(self._newest()) else frozenset({"delta"})

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        snapshot = self._newest()
        if self._source.time is None:
            everything = _pinned(snapshot, snapshot.files)
            return dict.fromkeys(windows, everything)
        rule = self._rule(snapshot)
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
        return {window: _pinned(snapshot, files) for window, files in chosen.items()}

    def bounds(self, window: Window) -> str:
        if self._source.time is None:
            return "whole table"
        return self._rule(self._newest()).predicate(window)

    def read(self, session: SparkSession, window: Window, pinned: Pinned) -> DataFrame:
        snapshot = self._at(pinned.version)
        rule = None if self._source.whole else self._rule(snapshot)
        files = snapshot.files
        if rule is not None:
            files = tuple(_overlapping(snapshot, rule, window))
        if _reads_plainly(snapshot):
            frame = self._plainly(session, snapshot, files)
        else:
            frame = self._through_connector(session, snapshot.version)
        return frame if rule is None else frame.where(rule.predicate(window))

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
            raise _unreadable(self.label, error) from error

    def _through_connector(self, session: SparkSession, version: int) -> DataFrame:
        try:
            return (
                session.read.format("delta")
                .option("versionAsOf", version)
                .load(self._storage.spark_path())
            )
        except Exception as error:
            raise _unreadable(self.label, error) from error

    def _rule(self, snapshot: Snapshot) -> SliceRule:
        column = self._source.time or ""
        field = snapshot.field(column)
        if field is None:
            known = some_of((field.name for field in snapshot.fields), column)
            raise RefusedError(
                "SP-R02",
                f"The source {self._name} ({self.label}) has no column {column}; it has {known}.",
                why="The read is clipped to the window on that column.",
                next="Correct time= of the source.",
            )
        try:
            return SliceRule.of(column, str(field.kind), self._every, self._timezone)
        except SetpointError as error:
            raise RefusedError(
                "SP-R02",
                f"The source {self._name} ({self.label}) cannot be clipped to a window: "
                f"{error.what}",
                why="Each run would read rows of other windows too.",
                next="Give a timestamp column as time=, or run the pipeline less often.",
            ) from error

    def _newest(self) -> Snapshot:
        if not self._snapshots:
            self._at(None)
        return self._snapshots[max(self._snapshots)]

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


def _overlapping(snapshot: Snapshot, rule: SliceRule, window: Window) -> list[DataFile]:
    """The files that can hold rows of the window, by partition value or by statistics."""
    if rule.column in snapshot.partition_columns:
        return [
            file for file in snapshot.files if rule.holds(window, file.partition.get(rule.column))
        ]
    return [
        file
        for file in snapshot.files
        if rule.overlaps(window, file.least.get(rule.column), file.most.get(rule.column))
    ]


def _ends_before(file: DataFile, column: str, low: Any) -> bool:
    """Whether a file is known to hold no row from a value on, and none without a value."""
    most = file.partition.get(column) if column in file.partition else file.most.get(column)
    return bool(most is not None and most < low and file.nulls.get(column) == 0)


def _pinned(snapshot: Snapshot, files: Sequence[DataFile]) -> Pinned:
    names = sorted(f"{file.path} {file.size}" for file in files)
    if snapshot.has_deletion_vectors:
        names.append(f"version {snapshot.version}")
    rows = sum(file.rows or 0 for file in files)
    return Pinned(
        version=snapshot.version,
        fingerprint=digest(snapshot.table_id, *names),
        detail=f"version {snapshot.version}, files: {len(files):,}, rows: {rows:,}",
    )


def _reads_plainly(snapshot: Snapshot) -> bool:
    features = set(snapshot.table.protocol().reader_features or ())
    mapping = snapshot.configuration.get("delta.columnMapping.mode", "none")
    return features <= _PLAIN_READERS and mapping == "none"


def _unreadable(label: str, error: Exception) -> SetpointError:
    from setpoint.spark.failures import explain

    return explain(error, f"reading {label}", code="SP-R01")
