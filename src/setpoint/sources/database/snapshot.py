"""One look at a PostgreSQL database that many connections share.

The driver holds a transaction open and exports what it sees; every task begins a transaction
of its own that sees the same. What is committed meanwhile is seen by none of them, and a task
that runs twice reads the same rows twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setpoint.errors import SetpointError
from setpoint.model.window import Window
from setpoint.targets.postgres.names import literal
from setpoint.targets.postgres.server import SETTINGS, Server

if TYPE_CHECKING:
    import psycopg

_REPEATABLE = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_TIMED_FROM = 17  # the server's version that can limit a whole transaction
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
            *_untimed(self.connection),
        )


@contextmanager
def looking(server: Server, doing: str) -> Iterator[psycopg.Connection[Any]]:
    """A transaction that sees one state of the database and cannot change it."""
    with server.session(doing, before=_REPEATABLE, **_KEEPALIVE) as connection:
        for statement in _untimed(connection):
            connection.execute(statement)
        yield connection


class Snapshots:
    """The snapshots of one server that reads hold, one for all inputs of a window."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._held: dict[Window, tuple[ExitStack, Snapshot]] = {}

    def of(self, window: Window) -> Snapshot:
        """The snapshot of a window's reads, taken by the first of them."""
        if window not in self._held:
            with ExitStack() as stack:
                made = stack.enter_context(exported(self.server))
                self._held[window] = stack.pop_all(), made
        return self._held[window][1]

    def release(self, window: Window) -> None:
        """Let go of a window's snapshot; harmless when there is none, or the server has."""
        held = self._held.pop(window, None)
        if held is not None:
            with suppress(SetpointError):
                held[0].close()


@contextmanager
def exported(server: Server) -> Iterator[Snapshot]:
    """A snapshot that others can enter while the block lasts."""
    with looking(server, "holding a snapshot") as connection:
        found = connection.execute("SELECT pg_catalog.pg_export_snapshot()").fetchone()
        # Of several hosts that the URL may name only the one that was reached knows it.
        place = {"host": connection.info.host, "port": connection.info.port}
        yield Snapshot(connection, str(found[0]) if found else "", place)


def _untimed(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    timed = connection.info.server_version >= _TIMED_FROM * 10_000
    return ("SET LOCAL transaction_timeout = 0",) if timed else ()
