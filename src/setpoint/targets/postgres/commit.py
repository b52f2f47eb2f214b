"""The end of the publishing transaction; an answer that is lost is asked for again."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Timer
from typing import TYPE_CHECKING, Any

from setpoint.errors import UNCHANGED, SetpointError, TransientError, UnknownCommitError
from setpoint.model.run import Statement
from setpoint.targets.postgres.names import literal
from setpoint.targets.postgres.server import Server
from setpoint.targets.refusals import unseen

if TYPE_CHECKING:
    import psycopg

    from setpoint.targets.postgres.stage import PostgresStage

_ASKED = 50
_REST = "-rest"
# What says nothing about the transaction; nor does any other word with which a server hangs up.
_LOST = ("", "40003", "57P01", "57P02", "57P03")


class MoreStaged(Exception):
    """The stage holds other rows than those of the tasks that won."""


class Again(Exception):
    """Another session was faster: look again."""


@contextmanager
def limited(
    connection: psycopg.Connection[Any], seconds: float, silent: Event | None = None
) -> Iterator[None]:
    """Hang up on a server that is silent for so long: whoever waits for it sees a lost connection.

    `silent` is set when that has happened.
    """
    line = socket.socket(fileno=socket.dup(connection.pgconn.socket))

    def hang_up() -> None:
        if silent is not None:
            silent.set()
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)

    watch = Timer(seconds, hang_up)
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()
        line.close()


def commit(connection: psycopg.Connection[Any], server: Server, run: Statement, xid: int) -> bool:
    """Commit; if the answer is lost, ask the server what became of the transaction.

    False: it has landed, but the connection is gone.
    """
    import psycopg

    silent = Event()
    try:
        with limited(connection, server.commit_seconds, silent):
            status = connection.execute("COMMIT").statusmessage
    except psycopg.Error as error:
        code = error.sqlstate or ""
        if not (connection.closed or code in _LOST or code.startswith("08")):
            raise  # the server answered: a deferred constraint, for example
        said = server.said(error)
        if silent.is_set():
            said = f"there was no answer within {server.commit_seconds:g} s"
        settle(server, run, xid, said)
        return False
    if status != "COMMIT":
        raise TransientError(
            "SP-P01",
            f"PostgreSQL answered the commit of {run.label} with {status}.",
            why="The transaction had failed before, so nothing of it was kept.",
            state=UNCHANGED,
            next="Run again; it is always safe.",
        )
    return True


def settle(server: Server, run: Statement, xid: int, said: str) -> None:
    """Return when the transaction has committed; raise when it has not, or nobody knows."""
    import psycopg

    try:
        asking = server.session("asking what became of a commit")
        with asking as connection, limited(connection, server.commit_seconds):
            for _ in range(_ASKED):
                found = connection.execute(
                    "SELECT pg_xact_status($1::text::xid8)", [str(xid)]
                ).fetchone()
                if not found or found[0] != "in progress":
                    break
                connection.execute("SELECT pg_sleep(0.2)")
    except (SetpointError, psycopg.Error) as error:
        raise unseen(run, said) from error
    match found[0] if found else None:
        case "committed":
            return
        case "aborted":
            raise TransientError(
                "SP-T01",
                f"The connection was lost during the commit of {run.label}: {said}",
                why="The server says that the transaction was rolled back.",
                state=UNCHANGED,
                next="Run again; it is always safe.",
            )
        case _:
            raise unseen(run, said)


def unread(run: Statement, xid: int, said: str) -> UnknownCommitError:
    """The commit is known to have landed; what it left could not be read back."""
    return UnknownCommitError(
        "SP-P02",
        f"{run.label} is committed (PostgreSQL says so for transaction {xid}), but its receipt "
        f"could not be read back: {said}",
        why="The run is recorded by the receipt that the table's database holds.",
        state="The window holds the new rows.",
        next="Run the same window again; it is always safe. To settle the record only: "
        "setpoint recover",
    )


def drop_quietly(connection: psycopg.Connection[Any], stage: PostgresStage) -> bool:
    """Drop the stage with the commit, unless a task that lost its race still writes to it."""
    import psycopg

    connection.execute("SAVEPOINT stage")
    try:
        connection.execute(f"LOCK TABLE {stage.table.sql} IN ACCESS EXCLUSIVE MODE NOWAIT")
        connection.execute(f"DROP TABLE {stage.table.sql}; RELEASE SAVEPOINT stage")
    except psycopg.errors.LockNotAvailable:
        connection.execute("ROLLBACK TO SAVEPOINT stage")
        return False
    return True


def rename_rest(connection: psycopg.Connection[Any], stage: PostgresStage) -> None:
    """Let a stage of which only a part is published not be taken for one that was published.

    Other windows may still be published from it. Whoever recovers takes its rest for a leftover.
    """
    table = f"{literal(stage.table.sql)}::regclass"
    found = connection.execute(f"SELECT obj_description({table}, 'pg_class')").fetchone()
    about = json.loads(found[0]) if found and found[0] else {}
    if not str(about.get("attempt", "")).endswith(_REST):
        about["attempt"] = f"{about.get('attempt', '')}{_REST}"
        connection.execute(f"COMMENT ON TABLE {stage.table.sql} IS {literal(json.dumps(about))}")
