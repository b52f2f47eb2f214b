"""Who waits for whom: the advisory locks of a publish, held until its transaction ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setpoint.model.run import Run
from setpoint.model.write import KEYED
from setpoint.targets.postgres.commit import Again
from setpoint.targets.postgres.names import TableName
from setpoint.targets.postgres.receipts import RECEIPTS

if TYPE_CHECKING:
    import psycopg

_LAST = f"""
SELECT r.pipeline, r."every" FROM {RECEIPTS} r
WHERE r.table_id = to_regclass($1)::oid::int8 ORDER BY r.number DESC LIMIT 1
"""


def lock(connection: psycopg.Connection[Any], name: TableName, run: Run) -> None:
    """Wait for the sessions that publish the same rows.

    Runs of one pipeline wait for each other window by window, and share the table. Who shares
    windows with others has the table alone: keyed writes, and a pipeline that is not the one
    that published last. It may be the same one under another name or with another grain, whose
    slices overlap in ways that no window's name tells.
    """
    if isinstance(run.pipeline.write, KEYED) or run.pipeline.newest_counts:
        _wait(connection, [name.sql], alone=True)
        return
    alone = not _published_last(connection, name, run)
    _wait(connection, [name.sql], alone=alone)
    if not alone and not _published_last(connection, name, run):
        raise Again  # somebody else was faster, between the look and the lock
    _wait(connection, [name.sql, run.window.id], alone=True)


def _published_last(connection: psycopg.Connection[Any], name: TableName, run: Run) -> bool:
    found = connection.execute(_LAST, [name.sql]).fetchone()
    return found == (run.pipeline.name, str(run.window.grain))


def _wait(connection: psycopg.Connection[Any], what: list[str], *, alone: bool) -> None:
    function = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
    text = "\n".join(["setpoint", *what])
    connection.execute(f"SELECT {function}(hashtextextended($1, 0))", [text])
