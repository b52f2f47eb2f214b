"""A Hive-style Parquet table as a source: the files behind its partitions' locations.

The metastore has no versions. What is pinned is the list of files; the table is read by its
name, and looked at again after the rows were staged: a change in between is an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from setpoint.model.fingerprint import digest
from setpoint.model.grain import Grain
from setpoint.model.mark import Mark
from setpoint.model.run import Pinned
from setpoint.model.slice import NULL_PARTITION, SliceRule, typed
from setpoint.model.source import Source
from setpoint.model.span import Span, Stretch, windows_of
from setpoint.model.window import Window
from setpoint.sources.failures import changed, clip_rule, gone, missing, unreadable
from setpoint.sources.names import check_names, clipped, look_at_names
from setpoint.sources.schema import schema_digest
from setpoint.targets.parquet.metastore import Metastore, TableInfo
from setpoint.targets.parquet.storage import files_at
from setpoint.targets.parquet.target import name_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A partition's values, and where it lies.
Place = tuple[Mapping[str, str], str]


class HiveSource:
    """The source port for Parquet tables of a metastore."""

    def __init__(
        self,
        name: str,
        source: Source,
        table: str,
        session: Callable[[], SparkSession],
        every: Grain,
        timezone: str,
    ) -> None:
        self._name = name
        self._source = source
        self._table = name_parts(table)
        self._session = session
        self._every = every
        self._timezone = timezone
        self._found: tuple[Metastore, TableInfo] | None = None
        self._together: tuple[Window, ...] = ()
        self._now: dict[Window, Pinned] = {}

    @property
    def label(self) -> str:
        return self._source.label

    def connectors(self) -> frozenset[str]:
        return frozenset({"hive"})

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        metastore, info = self._looked_up()
        places: list[Place] = [({}, info.location)]
        if info.partition_columns:
            places = [(item.spec, item.location) for item in metastore.partitions()]
        rule = None if self._source.time is None else self._rule(info)
        if rule is not None:
            self._check_names(rule, places)
        columns = schema_digest(json.loads(info.schema)["fields"])
        files = files_at(info.root, self._session)
        listed = {
            location: [
                f"{location}/{file.path} {file.size} {file.modified_ms}"
                for file in files.listed(location)
                if not file.path.rpartition("/")[2].startswith(("_", "."))
            ]
            for spec, location in places
            if rule is None or any(_may_hold(rule, window, spec) for window in windows)
        }
        return {
            window: _pinned(
                columns,
                [
                    name
                    for spec, location in places
                    if rule is None or _may_hold(rule, window, spec)
                    for name in listed[location]
                ],
            )
            for window in windows
        }

    def pin_published(self, window: Window, recorded: Mapping[str, Any]) -> Pinned:
        pinned = self.pin([window])[window]
        if pinned.fingerprint != recorded.get("fingerprint"):
            raise gone(self._name, self.label, "The state", "a metastore keeps no versions")
        return pinned

    def bounds(self, window: Window) -> str:
        if self._source.time is None:
            return "whole table"
        return self._rule(self._looked_up()[1]).predicate(window)

    def read(self, session: SparkSession, window: Window, pinned: Pinned) -> DataFrame:
        return self._read(session, window)

    def read_span(
        self, session: SparkSession, span: Span, pins: Mapping[Window, Pinned]
    ) -> DataFrame:
        return self._read(session, span)

    def _read(self, session: SparkSession, stretch: Stretch) -> DataFrame:
        self._together, self._now = windows_of(stretch), {}
        frame = self._frame(session)
        if self._source.time is None:
            return frame
        info = self._looked_up()[1]
        rule = self._rule(info)
        if rule.by_name and rule.column not in info.partition_columns:
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

        return increment(self._frame(session), self._source, after, again, self.label)

    def confirm(self, window: Window, pinned: Pinned) -> None:
        now = self._now.pop(window, None)
        if now is None:
            # One look for all windows that were read together.
            self._found = None
            found = dict(self.pin(self._together if window in self._together else (window,)))
            now, self._now = found.pop(window), found
        if now.fingerprint != pinned.fingerprint:
            raise changed(self._name, self.label, "its partitions or files are others now")

    def _frame(self, session: SparkSession) -> DataFrame:
        metastore = Metastore(session, *self._table)
        try:
            # Other applications may have changed what this session remembers of the table.
            session.catalog.refreshTable(metastore.name)
            return session.table(metastore.name)
        except Exception as error:
            raise unreadable(self.label, error) from error

    def _check_names(
        self, rule: SliceRule, places: Sequence[tuple[Mapping[str, str], str]]
    ) -> None:
        """Refuse partitions by names of which some name no windows."""
        if not rule.by_name:
            return
        values = (_value(rule, spec) for spec, _ in places if rule.column in spec)
        ranges = ((value, value) for value in values)
        check_names(self._name, self.label, rule, self._every, ranges)

    def _rule(self, info: TableInfo) -> SliceRule:
        fields = json.loads(info.schema)["fields"]
        kinds = {item["name"]: str(item["type"]) for item in fields}
        column = self._source.time or ""
        return clip_rule(self._name, self.label, column, kinds, self._every, self._timezone)

    def _looked_up(self) -> tuple[Metastore, TableInfo]:
        if self._found is None:
            metastore = Metastore(self._session(), *self._table)
            info = metastore.table()
            if info is None:
                raise missing(self._name, self.label, "the metastore has no such table")
            self._found = metastore, info
        return self._found


def _may_hold(rule: SliceRule, window: Window, spec: Mapping[str, str]) -> bool:
    """Whether a partition can hold rows of a window, as far as its values tell."""
    return rule.column not in spec or rule.holds(window, _value(rule, spec))


def _value(rule: SliceRule, spec: Mapping[str, str]) -> Any:
    text = spec[rule.column]
    return None if text == NULL_PARTITION else typed(rule.kind, text)


def _pinned(columns: str, files: Sequence[str]) -> Pinned:
    fingerprint = digest(columns, *sorted(files))
    return Pinned(version=None, fingerprint=fingerprint, detail=f"files: {len(files):,}")
