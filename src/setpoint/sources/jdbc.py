"""Any database with a JDBC driver as a source, through Spark's reader.

The clip is part of the query that the database gets. What JDBC has no words for is a common
snapshot: with several partitions each asks in a transaction of its own, and a database that
changes meanwhile shows them different states. That is why one is the default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from setpoint.errors import SetpointError
from setpoint.model.grain import Grain
from setpoint.model.mark import Mark
from setpoint.model.origin import Jdbc
from setpoint.model.run import UNKNOWN, Pinned
from setpoint.model.secret import Secret, revealed, scrubbed, settings_of
from setpoint.model.slice import SliceRule
from setpoint.model.source import Source
from setpoint.model.window import Window
from setpoint.sources.database.dialect import Dialect, shown
from setpoint.sources.database.division import stretches
from setpoint.sources.database.probe import filled, fingerprint_of
from setpoint.sources.failures import changed, clip_rule, gone, unreadable
from setpoint.sources.names import check_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ORDERED = ("date", "timestamp", "timestamp_ntz")
_KINDS = {"tinyint": "integer", "smallint": "integer", "int": "integer", "bigint": "long"}
# Times without a zone stay what they are, whatever zone the JVM is in.
_DEFAULTS = {"fetchsize": "10000", "preferTimestampNTZ": "true"}


class JdbcSource:
    """The source port for databases that Spark reaches by JDBC."""

    def __init__(
        self,
        name: str,
        source: Source,
        origin: Jdbc,
        url: Secret,
        session: Callable[[], SparkSession],
        every: Grain,
        timezone: str,
    ) -> None:
        self._name = name
        self._source = source
        self._origin = origin
        self._url = url
        self._options = settings_of(origin.options, f"options= of jdbc({source.label!r})")
        self._session = session
        self._every = every
        self._timezone = timezone
        self._dialect = Dialect.of(url.reveal())

    @property
    def label(self) -> str:
        return self._source.label

    def connectors(self) -> frozenset[str]:
        return frozenset()

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        """What each window would read; a probe needs the driver, and so a session."""
        if not self._source.probe:
            return dict.fromkeys(windows, Pinned(None, UNKNOWN, f"{self._detail()}, no probe"))
        session = self._session()
        whole = self._reader(session)
        rule = self._rule(whole)
        return {window: self._probed(session, window, rule, whole) for window in windows}

    def pin_published(self, window: Window, recorded: Mapping[str, Any]) -> Pinned:
        what = "the state that was published"
        if not self._source.probe:
            raise gone(
                self._name, self.label, what, "a database keeps no versions, and there is no probe"
            )
        pinned = self.pin([window])[window]
        if pinned.fingerprint != recorded.get("fingerprint"):
            raise gone(self._name, self.label, what, "its probe gives another answer now")
        return pinned

    def confirm(self, window: Window, pinned: Pinned) -> None:
        """Whether rows changed while they were read is not known, and mostly does no harm.

        The next run asks the probe again. Where a published window is final that is too late.
        """
        if self._source.late.policy != "fail":
            return
        if self.pin([window])[window].fingerprint != pinned.fingerprint:
            raise changed(self._name, self.label, "its probe gives another answer now")

    def bounds(self, window: Window) -> str:
        # The type of the column, and with it the exact condition, is known to the database alone.
        if self._source.time is None:
            return "whole table"
        start, end = window.start.isoformat(), window.end.isoformat()
        return f"{self._source.time} from {start} to before {end}"

    def read(self, session: SparkSession, window: Window, pinned: Pinned) -> DataFrame:
        whole = self._reader(session)
        rule = self._rule(whole)
        if rule is None:
            return whole
        if rule.by_name:
            self._check_names(session, rule)
        return self._reader(session, self._predicates(rule, window))

    def _check_names(self, session: SparkSession, rule: SliceRule) -> None:
        """Ask the database for the ends of a column of names, as cheap as its clip."""
        column = self._dialect.quote(rule.column)
        query = f"SELECT min({column}) AS low, max({column}) AS high FROM {self._given()}"
        with self._failures():
            rows = self._reader(session, query=query).collect()
        ranges = [(row[0], row[1]) for row in rows]
        check_names(self._name, self.label, rule, self._every, ranges)

    def read_increment(
        self,
        session: SparkSession,
        pinned: Pinned,
        after: Mark | None,
        again: tuple[str, str] | None,
    ) -> tuple[DataFrame, Mark | None]:
        from setpoint.spark.increment import increment

        with self._failures():
            return increment(self._reader(session), self._source, after, again, self.label)

    def _reader(
        self, session: SparkSession, predicates: list[str] | None = None, query: str = ""
    ) -> DataFrame:
        """A frame of the table, or of a query, one partition for each predicate."""
        options, url = {**_DEFAULTS, **revealed(self._options)}, self._url.reveal()
        if self._dialect.driver:
            options.setdefault("driver", self._dialect.driver)
        table = f"({query}\n) setpoint" if query else self._given()
        with self._failures():
            if predicates is None:
                return session.read.jdbc(url, table, properties=options)
            return session.read.jdbc(url, table, predicates=predicates, properties=options)

    def _given(self) -> str:
        """What is read, as it stands after FROM."""
        query = self._origin.query.strip().rstrip(";")
        return f"({query}\n) setpoint" if query else self._dialect.table(self._origin.table)

    def _predicates(self, rule: SliceRule, window: Window) -> list[str]:
        """The window as conditions that do not overlap and leave no gap."""
        column, constant = self._dialect.quote(rule.column), self._dialect.constant
        if rule.kind not in _ORDERED:
            return [f"{column} = {constant(rule.kind, rule.only_value(window))}"]
        return [
            f"{column} >= {constant(rule.kind, low)} AND {column} < {constant(rule.kind, high)}"
            for low, high in stretches(*rule.bounds(window), self._source.partitions or 1)
        ]

    def _probed(
        self, session: SparkSession, window: Window, rule: SliceRule | None, whole: DataFrame
    ) -> Pinned:
        probe = self._source.probe
        query = filled(probe, window, rule, self._dialect.constant)
        try:
            with self._failures():
                rows = [tuple(row) for row in self._reader(session, query=query).collect()]
        except SetpointError as error:
            error.what = f"The probe of the source {self._name} failed. {error.what}"
            error.next = "Correct probe=; each of its columns needs a name, as in count(*) AS n."
            raise
        columns = [(field.name, field.dataType.simpleString()) for field in whole.schema.fields]
        fingerprint = fingerprint_of(self._name, self.label, probe, rows, columns)
        return Pinned(None, fingerprint, self._detail())

    def _rule(self, frame: DataFrame) -> SliceRule | None:
        column = self._source.time
        if column is None:
            return None
        kinds = {field.name: _kind(field.dataType.simpleString()) for field in frame.schema.fields}
        return clip_rule(self._name, self.label, column, kinds, self._every, self._timezone)

    def _detail(self) -> str:
        parts, tasks = [shown(self._url.reveal())], self._source.partitions or 1
        if tasks > 1 and self._source.time is not None:
            parts.append(f"partitions: {tasks}, without a common snapshot")
        if self._dialect.name == "postgresql":
            parts.append("postgres(...) would read it in one snapshot")
        return ", ".join(parts)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Spark's failures in our words, and without the password."""
        try:
            yield
        except Exception as error:
            told = error if isinstance(error, SetpointError) else unreadable(self.label, error)
            secrets = (self._url, *self._options.values())
            told.what = scrubbed(told.what, secrets, least=1)
            told.why = scrubbed(told.why, secrets, least=1)
            if told is error:
                raise
            if "No suitable driver" in told.what or "ClassNotFound" in told.what:
                told.next = "Name the driver's jar in [spark] jars of setpoint.toml."
            raise told from None


def _kind(spark: str) -> str:
    """A column's type as slices know it; whole numbers of databases may come as decimals."""
    if spark.startswith("decimal(") and spark.endswith(",0)"):
        return "long"
    return _KINDS.get(spark, spark)
