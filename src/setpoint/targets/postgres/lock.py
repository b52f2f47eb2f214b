"""Who waits for whom: the advisory locks of a publish, held until its transaction ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setpoint.model.run import Statement
from setpoint.model.span import windows_of
from setpoint.model.write import KEYED
from setpoint.targets.postgres.commit import Again
from setpoint.targets.postgres.names import TableName
from setpoint.targets.postgres.receipts import RECEIPTS

if TYPE_CHECKING:
    import psycopg

_MOST_LOCKS = 50
_LAST = f"""
SELECT r.pipeline, r."every" FROM {RECEIPTS} r
WHERE r.table_id = to_regclass($1)::oid::int8 ORDER BY r.number DESC LIMIT 1
"""


def lock(connection: psycopg.Connection[Any], name: TableName, run: Statement) -> None:
    """Wait for the sessions that publish the same rows.

    Runs of one pipeline wait for each other window by window, and share the table. Who shares
    windows with others has the table alone: keyed writes, and a pipeline that is not the one
    that published last. It may be the same one under another name or with another grain, whose
    slices overlap in ways that no window's name tells. So has a chunk of many windows: locks take
    room that all sessions of a server share.
    """
    if isinstance(run.pipeline.write, KEYED) or run.pipeline.newest_counts:
        _wait(connection, [name.sql], alone=True)
        return
    windows = windows_of(run.window)
    alone = len(windows) > _MOST_LOCKS or not _published_last(connection, name, run)
    _wait(connection, [name.sql], alone=alone)
    if not alone and not _published_last(connection, name, run):
        raise Again  # somebody else was faster, between the look and the lock
    if not alone or len(windows) == 1:
        for window in windows:  # oldest first: two that wait for each other end as a deadlock
            _wait(connection, [name.sql, window.id], alone=True)


def _published_last(connection: psycopg.Connection[Any], name: TableName, run: Statement) -> bool:
    found = connection.execute(_LAST, [name.sql]).fetchone()
    return found == (run.pipeline.name, str(run.window.grain))


def _wait(connection: psycopg.Connection[Any], what: list[str], *, alone: bool) -> None:
    function = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
    text = "\n".join(["setpoint", *what])
    connection.execute(f"SELECT {function}(hashtextextended($1, 0))", [text])
