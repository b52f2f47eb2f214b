"""A table of a PostgreSQL database as a source: clipped by the server, read in one snapshot.

The driver takes a snapshot and looks at the table in it; the tasks enter the same snapshot and
fetch the rows themselves, each its own part. The snapshot is held until the attempt needs the
frame no more. PostgreSQL has no versions to come back to: whether a window's part changed is
told by a probe, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from setpoint.errors import PermanentError, SetpointError, TransientError
from setpoint.model.grain import Grain
from setpoint.model.mark import Mark
from setpoint.model.run import UNKNOWN, Pinned
from setpoint.model.slice import SliceRule
from setpoint.model.source import Source
from setpoint.model.span import Span, Stretch, windows_of
from setpoint.model.window import Window
from setpoint.sources.database.division import Part, division_of
from setpoint.sources.database.probe import asked, failed, filled, fingerprint_of
from setpoint.sources.database.relation import Relation, ranges_of, relation, stores_of
from setpoint.sources.database.snapshot import Snapshot, Snapshots, looking
from setpoint.sources.failures import changed, clip_rule, gone
from setpoint.sources.names import LOOKED_AT, check_names
from setpoint.targets.postgres.names import TableName, literal
from setpoint.targets.postgres.slices import moment, slice_sql

if TYPE_CHECKING:
    import psycopg
    from pyspark.sql import DataFrame, SparkSession

_PUBLISHED = "as published"
_ALL_RIGHTS = "GRANT SELECT, INSERT, UPDATE, DELETE ON"


class PostgresSource:
    """The source port for PostgreSQL; it holds a snapshot from `read` to `release`."""

    def __init__(
        self,
        name: str,
        source: Source,
        table: TableName,
        snapshots: Snapshots,
        every: Grain,
        timezone: str,
    ) -> None:
        self._name = name
        self._source = source
        self._table = table
        self._snapshots = snapshots
        self._every = every
        self._timezone = timezone
        self._looked: Relation | None = None
        self._seen: dict[Window, Pinned] = {}
        self._entered: dict[Window, Relation] = {}
        self._confirmed: set[Window] = set()

    @property
    def label(self) -> str:
        return self._source.label

    def connectors(self) -> frozenset[str]:
        return frozenset()

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        with self._looking() as connection:
            found = self._described(connection)
            return {window: self._pinned(connection, found, window) for window in windows}

    def pin_published(self, window: Window, recorded: Mapping[str, Any]) -> Pinned:
        what = "the state that was published"
        if not self._source.probe:
            raise gone(
                self._name, self.label, what, "a database keeps no versions, and there is no probe"
            )
        with self._looking() as connection:
            pinned = self._pinned(connection, self._described(connection), window)
        if pinned.fingerprint != recorded.get("fingerprint"):
            raise gone(self._name, self.label, what, "its probe gives another answer now")
        return replace(pinned, handle=_PUBLISHED)

    def confirm(self, window: Window, pinned: Pinned) -> None:
        """A snapshot keeps the rows as they were; the files and the partitions are looked at.

        The locks of the read keep almost everybody off. Who attaches a partition needs no lock
        that stands in their way, and a connection that was lost holds none. One look serves all
        windows that were read together.
        """
        read = self._entered.get(window)
        if read is None or window in self._confirmed:
            self._confirmed.discard(window)
            return
        with self._failures(), self._snapshots.now(window, self._doing) as connection:
            difference = read.difference(stores_of(connection, read.oid))
        if difference:
            raise changed(self._name, self.label, difference)
        self._confirmed = {other for other, entered in self._entered.items() if entered is read}
        self._confirmed.discard(window)

    def bounds(self, window: Window) -> str:
        rule = self._rule(self._relation())
        return slice_sql(rule, window) if rule is not None else "whole table"

    def read(self, session: SparkSession, window: Window, pinned: Pinned) -> DataFrame:
        return self._read(session, window, {window: pinned})

    def read_span(
        self, session: SparkSession, span: Span, pins: Mapping[Window, Pinned]
    ) -> DataFrame:
        return self._read(session, span, pins)

    def _read(
        self, session: SparkSession, stretch: Stretch, pins: Mapping[Window, Pinned]
    ) -> DataFrame:
        with self._failures():
            snapshot, found = self._enter(stretch, pins)
            rule = self._rule(found)
            if rule is not None and rule.by_name:
                ranges = ranges_of(snapshot.connection, found, rule.column, LOOKED_AT)
                check_names(self._name, self.label, rule, self._every, ranges)
            condition = slice_sql(rule, stretch) if rule is not None else "true"
            return self._frame(session, snapshot, found, Part(condition, rule, stretch))

    def read_increment(
        self,
        session: SparkSession,
        pinned: Pinned,
        after: Mark | None,
        again: tuple[str, str] | None,
    ) -> tuple[DataFrame, Mark | None]:
        from setpoint.sources.database.cursor import increment_of

        window = Window.parse(str(self._every), self._every, self._timezone)
        with self._failures():
            snapshot, found = self._enter(window, {window: pinned})
            condition, mark = increment_of(
                snapshot.connection, found, self._source, after, again, self.label
            )
            return self._frame(session, snapshot, found, Part(condition)), mark

    def seen(self, window: Window, pinned: Pinned) -> Pinned:
        return self._seen.get(window, pinned)

    def release(self, window: Window) -> None:
        self._seen.pop(window, None)
        self._entered.pop(window, None)
        self._snapshots.release(window)

    def _enter(self, stretch: Stretch, pins: Mapping[Window, Pinned]) -> tuple[Snapshot, Relation]:
        """The snapshot of a read, and the table in it; the probe is asked again there.

        The receipts then tell of the very rows that were read, whatever was committed since
        the runs were planned.
        """
        snapshot, locked = self._snapshots.of(stretch, self._table)
        # What could not be locked by its name is locked by the plan of a query of all its rows.
        found = self._described(snapshot.connection, planned="false" if locked else "true")
        if found.moved:
            raise self._too_late(found.moved)
        self._confirmed.clear()
        for window in windows_of(stretch):
            self._entered[window] = found
            if self._source.probe:
                seen, pinned = self._pinned(snapshot.connection, found, window), pins[window]
                if pinned.handle == _PUBLISHED and seen.fingerprint != pinned.fingerprint:
                    what, because = "the state that was published", "it has changed just now"
                    raise gone(self._name, self.label, what, because)
                self._seen[window] = seen
        return snapshot, found

    def _frame(
        self, session: SparkSession, snapshot: Snapshot, found: Relation, part: Part
    ) -> DataFrame:
        from setpoint.sources.database.wire import frame_of, wired

        clipped = part.rule.column if part.rule is not None else ""
        columns = [wired(item, clipped=item.name == clipped) for item in found.columns]
        connection, server = snapshot.connection, self._snapshots.server
        division = division_of(connection, found, part, self._source.partitions)
        label = f"the source {self._name} ({self.label} on {server.name}, {server.shown})"
        return frame_of(session, server, snapshot, found.name.sql, columns, division, label)

    def _pinned(
        self, connection: psycopg.Connection[Any], found: Relation, window: Window
    ) -> Pinned:
        tasks = self._source.partitions if found.blocks else 1
        shown = f"{found.kind} of {self._snapshots.server.shown}"
        detail = ", ".join(filter(None, [shown, f"partitions: {tasks}" if tasks else ""]))
        rule, probe = self._rule(found), self._source.probe
        if not probe:
            return Pinned(None, UNKNOWN, f"{detail}, no probe")
        rows = self._asked(connection, filled(probe, window, rule, constant))
        columns = [(column.name, column.base) for column in found.columns]
        fingerprint = fingerprint_of(self._name, self.label, probe, rows, columns)
        return Pinned(None, fingerprint, detail)

    def _asked(self, connection: psycopg.Connection[Any], query: str) -> list[tuple[Any, ...]]:
        import psycopg

        server = self._snapshots.server
        doing = f"asking the probe of the source {self._name} ({self.label})"
        try:
            return asked(connection, query)
        except psycopg.Error as error:
            told = self._of_source(server.explain(error, doing))
            said, code = server.said(error), error.sqlstate or type(error).__name__
            raise failed(self._name, self.label, told, said, code) from error

    def _rule(self, found: Relation) -> SliceRule | None:
        column = self._source.time
        if column is None:
            return None
        return clip_rule(self._name, self.label, column, found.kinds, self._every, self._timezone)

    def _relation(self) -> Relation:
        if self._looked is None:
            with self._looking() as connection:
                self._described(connection)
        assert self._looked is not None
        return self._looked

    @contextmanager
    def _looking(self) -> Iterator[psycopg.Connection[Any]]:
        with self._failures(), looking(self._snapshots.server, self._doing) as connection:
            yield connection

    def _described(
        self, connection: psycopg.Connection[Any], *, planned: str = "false"
    ) -> Relation:
        found = relation(connection, self._table, planned=planned)
        if found is None:
            server = self._snapshots.server
            raise PermanentError(
                "SP-R01",
                f"The source {self._name} ({self.label}) is not in the database of the connection "
                f"{server.name} ({server.shown}).",
                why="Names are taken literally, with their case; a name alone is one of public.",
                next="Create the table, or correct the name or the connection of the source.",
            )
        self._looked = found
        return found

    @property
    def _doing(self) -> str:
        return f"looking at the source {self._name} ({self.label})"

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """What the server refuses, as a failure of a source and not of a target."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise self._of_source(self._snapshots.server.explain(error, self._doing)) from error
        except SetpointError as error:
            if error.code.startswith(("SP-T", "SP-P")):
                raise self._of_source(error) from error
            raise

    def _of_source(self, error: SetpointError) -> SetpointError:
        what, why = error.what, error.why
        # The server names the table without its schema.
        own = f"{_ALL_RIGHTS} {self._table.table} TO"
        advice = error.next.replace(own, f"GRANT SELECT ON {self._table.sql} TO")
        advice = advice.replace(_ALL_RIGHTS, "GRANT SELECT ON")
        if "lock timeout" in what:
            what = (
                f"The source {self._name} ({self.label}) is locked; PostgreSQL gave up waiting "
                "for it."
            )
            why = "Another session has it to itself, as TRUNCATE, ALTER TABLE and VACUUM FULL do."
        elif what.endswith("(53200)"):
            why = "Each partition of a table that is read is locked, as weakly as by a query."
            advice = "Raise max_locks_per_transaction of the server, then run again."
        return type(error)("SP-R01", what, why=why, state=error.state, next=advice)

    def _too_late(self, moved: str) -> TransientError:
        return TransientError(
            "SP-R04",
            f"The source {self._name} ({self.label}) changed when its read began: {moved}.",
            why="The snapshot is of before the change, and the rows of then are not there any "
            "more.",
            next="Run again; a retry reads everything afresh.",
        )


def constant(kind: str, value: Any) -> str:
    """A value of a column's kind as PostgreSQL writes it."""
    match kind:
        case "string":
            return literal(str(value))
        case "integer" | "long":
            return str(int(value))
        case _:
            return moment(kind, value)
