"""One look at a PostgreSQL database that many connections share.

The driver holds a transaction open and exports what it sees; every task begins a transaction
of its own that sees the same. What is committed meanwhile is seen by none of them, and a task
that runs twice reads the same rows twice.

That holds for rows, not for the files they lie in: a table that is truncated or rewritten is so
for every snapshot. So the driver locks what is read as weakly as a query does, which keeps off
just that, and it does so before the snapshot is taken, so that nothing can happen in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from setpoint.errors import SetpointError
from setpoint.model.span import Stretch, windows_of
from setpoint.model.window import Window
from setpoint.targets.postgres.names import TableName, literal
from setpoint.targets.postgres.server import SETTINGS, Server

if TYPE_CHECKING:
    import psycopg

_REPEATABLE = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_TIMED_FROM = 17  # the server's version that can limit a whole transaction
# How long a look waits for a session that has the table to itself.
LOOK_SECONDS = 30.0
# The driver has the lock already: a task only waits behind a session that waits for the driver.
TASK_SECONDS = 10.0
# What LOCK TABLE refuses and a query need not: foreign tables, materialized views, rights that are
# given by column. Whether the relation is there at all is asked afterwards.
_NOT_LOCKABLE = ("42809", "42501", "42P01", "3F000")
# A firewall forgets a connection that says nothing for long, and the snapshot with it.
_KEEPALIVE: Mapping[str, Any] = {"keepalives_idle": 60}


@dataclass(frozen=True)
class Snapshot:
    """An exported snapshot: the driver's own connection to it, and how tasks enter it."""

    connection: psycopg.Connection[Any]
    id: str
    place: Mapping[str, Any]

    def entering(self) -> tuple[str, ...]:
        """The statements with which a task's transaction begins."""
        settings = [text.strip() for text in SETTINGS.split(";")]
        return (
            _REPEATABLE,
            f"SET TRANSACTION SNAPSHOT {literal(self.id)}",
            *settings,
            f"SET LOCAL lock_timeout = '{TASK_SECONDS:g}s'",
            *_untimed(self.connection),
        )

    def lock(self, table: TableName) -> bool:
        """Lock one more table, after the snapshot was taken: look whether it is as it was then."""
        return _locked(self.connection, table)


@contextmanager
def looking(server: Server, doing: str) -> Iterator[psycopg.Connection[Any]]:
    """A transaction that sees one state of the database and cannot change it."""
    with server.session(doing, before=_REPEATABLE, **_KEEPALIVE) as connection:
        for statement in (f"SET LOCAL lock_timeout = '{LOOK_SECONDS:g}s'", *_untimed(connection)):
            connection.execute(statement)
        yield connection


class Snapshots:
    """The snapshots of one server that reads hold, one for all inputs of a window."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._held: dict[Window, tuple[ExitStack, Snapshot]] = {}

    def of(self, stretch: Stretch, table: TableName) -> tuple[Snapshot, bool]:
        """The snapshot of the reads of a window, or of windows that are read together.

        The first read takes it. Also tells whether the table is locked.
        """
        windows = windows_of(stretch)
        if windows[0] in self._held:
            held = self._held[windows[0]][1]
            return held, held.lock(table)
        with ExitStack() as stack:
            made, locked = stack.enter_context(exported(self.server, table))
            self._held.update(dict.fromkeys(windows, (stack.pop_all(), made)))
        return made, locked

    def now(self, window: Window, doing: str) -> AbstractContextManager[psycopg.Connection[Any]]:
        """A look at the state of now, on the very server that a window's snapshot is of."""
        held = self._held.get(window)
        place = held[1].place if held else {}
        return looking(replace(self.server, url=self.server.reached_at(place)), doing)

    def release(self, window: Window) -> None:
        """Let go of a window's snapshot; harmless when there is none, or the server has.

        Windows that are read together are released together.
        """
        held = self._held.pop(window, None)
        if held is not None:
            with suppress(SetpointError):
                held[0].close()


@contextmanager
def exported(server: Server, table: TableName) -> Iterator[tuple[Snapshot, bool]]:
    """A snapshot that others can enter while the block lasts, and whether the table is locked."""
    with looking(server, "holding a snapshot") as connection:
        # LOCK is no query: it is the next statement that takes the snapshot.
        locked = _locked(connection, table)
        found = connection.execute("SELECT pg_catalog.pg_export_snapshot()").fetchone()
        # Of several hosts that the URL may name only the one that was reached knows it.
        place = {"host": connection.info.host, "port": connection.info.port}
        yield Snapshot(connection, str(found[0]) if found else "", place), locked


def _locked(connection: psycopg.Connection[Any], table: TableName) -> bool:
    """Lock a table, its partitions and children, and what a view reads; False if refused."""
    import psycopg

    try:
        with connection.transaction():
            connection.execute(f"LOCK TABLE {table.sql} IN ACCESS SHARE MODE".encode())
    except psycopg.Error as error:
        if error.sqlstate in _NOT_LOCKABLE:
            return False
        raise
    return True


def _untimed(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    timed = connection.info.server_version >= _TIMED_FROM * 10_000
    return ("SET LOCAL transaction_timeout = 0",) if timed else ()
