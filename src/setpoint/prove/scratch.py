"""A scratch database for a proof: told from production by asking it, and left as others want it.

A URL does not tell which database it leads to: names, poolers and parameters differ. A lock does:
one that is taken through one connection is taken for all that are in the same database.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from setpoint import edge
from setpoint.errors import NOTHING_STARTED, PermanentError, SetpointError, UsageError
from setpoint.model.secret import Secret
from setpoint.targets.postgres.names import OURS, quote
from setpoint.targets.postgres.server import Server

if TYPE_CHECKING:
    import psycopg

_SCHEMAS = "SELECT nspname::text FROM pg_catalog.pg_namespace WHERE right(nspname, $1) = $2"
_TABLES = f"""
SELECT c.relname::text, obj_description(c.oid, 'pg_class'),
       EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid
               AND a.attname = 'target' AND NOT a.attisdropped)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = '{OURS}' AND c.relkind = 'r'
"""


@contextmanager
def scratch_database(scratch: Server, target: Server, token: str) -> Iterator[Secret]:
    """The URL of a scratch database that is not the target's; what a proof makes there goes.

    The schemas of a proof end in its token. Of the schema that receipts and stages share with
    everybody, only what tells of those schemas is removed.
    """
    _refuse_production(scratch, target)
    try:
        with scratch.session("looking at the scratch database") as connection:
            others = _schemas(connection, token)
    except SetpointError as error:
        raise PermanentError(
            "SP-V04",
            f"The scratch database of [prove] postgres cannot be used: {error.what}",
            why="A proof writes its tables there, and never to production.",
            state=NOTHING_STARTED,
            next="Correct the connection that [prove] postgres names.",
        ) from error
    try:
        yield scratch.url
    finally:
        _remove(scratch, token, others)


def is_same_database(one: Server, two: Server) -> bool:
    """Whether two connections lead to the same database of the same server."""
    key = int(edge.new_attempt_id(), 16) >> 1
    with one.session("asking a database who it is") as holding:
        holding.execute("SELECT pg_catalog.pg_advisory_xact_lock($1)", [key])
        with two.session("asking a database who it is") as trying:
            found = trying.execute(
                "SELECT pg_catalog.pg_try_advisory_xact_lock($1)", [key]
            ).fetchone()
    return found is not None and not found[0]


def _refuse_production(scratch: Server, target: Server) -> None:
    try:
        same = is_same_database(scratch, target)
    except SetpointError as error:
        raise PermanentError(
            "SP-V04",
            f"The scratch database of [prove] postgres cannot be told from the target's: "
            f"{error.what}",
            why="A proof does not write to the database of the target, by whatever name it is "
            "reached, so both are asked.",
            state=NOTHING_STARTED,
            next="Make both reachable, or leave the setting out: then a proof starts a server of "
            "its own.",
        ) from error
    if same:
        raise UsageError(
            "SP-V04",
            f"[prove] postgres names the database of the target itself ({scratch.shown}).",
            why="A proof does not write there. Both connections were asked: they lead to one "
            "database.",
            state=NOTHING_STARTED,
            next="Name a connection to another database, or leave the setting out.",
        )


def _schemas(connection: psycopg.Connection[Any], token: str) -> list[str]:
    ending = f"_{token}"
    return [name for (name,) in connection.execute(_SCHEMAS, [len(ending), ending]).fetchall()]


def _remove(scratch: Server, token: str, others: list[str]) -> None:
    """Remove what the proof has made, in one transaction, and nothing that others have."""
    try:
        with scratch.session("removing what a proof has made") as connection:
            mine = [schema for schema in _schemas(connection, token) if schema not in others]
            for name, comment, has_target in connection.execute(_TABLES).fetchall():
                table = f"{quote(OURS)}.{quote(name)}"
                if _tells_of(comment, mine):
                    connection.execute(f"DROP TABLE {table}")
                elif has_target:
                    connection.execute(
                        f"DELETE FROM {table} WHERE split_part(target, '.', 1) = ANY ($1::text[])",
                        [mine],
                    )
            for schema in mine:
                connection.execute(f"DROP SCHEMA {quote(schema)} CASCADE")
    except SetpointError as error:
        raise PermanentError(
            "SP-V14",
            f"What the proof has made in the scratch database could not be removed: {error.what}",
            why=f"Its schemas end in _{token}, and nobody else needs them.",
            state="Nothing of production was written.",
            next=f"Remove the schemas of {scratch.shown} whose names end in _{token}.",
        ) from error


def _tells_of(comment: str | None, schemas: list[str]) -> bool:
    """Whether a table is the stage of a table in one of the schemas."""
    try:
        about = json.loads(comment or "null")
    except ValueError:
        return False
    target = str(about.get("target", "")) if isinstance(about, dict) else ""
    return any(schema in target for schema in schemas)
