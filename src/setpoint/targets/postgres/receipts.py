"""The tables of the schema `setpoint`: receipts and tombstones, changed with the rows they tell of.

All receipts are kept: PostgreSQL has no log retention that would take them away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setpoint.errors import UNCHANGED, PermanentError
from setpoint.model.receipt import Receipt, seal, unseal
from setpoint.targets.postgres.names import OURS, TableName, quote
from setpoint.targets.postgres.server import SETTINGS

if TYPE_CHECKING:
    import psycopg

RECEIPTS = f"{OURS}.receipts"
TOMBSTONES = f"{OURS}.tombstones"
_TURNS = 5
# `table_rows` counts the table after a keyed write; `drifted` tells that the table was not as the
# receipt before had left it: another count, or rows of others. `scope` says by which definition
# it was published (`Claim.kind_of`). `columns` are the attribute numbers of the columns that were
# written, in receipts of a time when these did not say so themselves.
_TABLES = f"""
CREATE TABLE IF NOT EXISTS {RECEIPTS} (
    number bigint GENERATED ALWAYS AS IDENTITY,
    table_id bigint NOT NULL,
    target text NOT NULL,
    pipeline text NOT NULL,
    "window" text NOT NULL,
    generation bigint NOT NULL,
    attempt text NOT NULL,
    xid bigint NOT NULL,
    data_xid bigint NOT NULL,
    seen text NOT NULL,
    rows_kept bigint NOT NULL,
    table_rows bigint,
    drifted boolean NOT NULL DEFAULT false,
    receipt text NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now(),
    "every" text NOT NULL DEFAULT '',
    columns int[],
    scope text NOT NULL DEFAULT '',
    PRIMARY KEY (table_id, pipeline, "window", generation)
);
CREATE TABLE IF NOT EXISTS {TOMBSTONES} (
    table_id bigint NOT NULL,
    key text[] NOT NULL,
    sequence text[] NOT NULL,
    pipeline text NOT NULL,
    "window" text NOT NULL,
    target text NOT NULL DEFAULT '',
    PRIMARY KEY (table_id, key, pipeline, "window")
);
ALTER TABLE {RECEIPTS} ADD COLUMN IF NOT EXISTS "every" text NOT NULL DEFAULT '';
ALTER TABLE {RECEIPTS} ADD COLUMN IF NOT EXISTS columns int[];
ALTER TABLE {RECEIPTS} ADD COLUMN IF NOT EXISTS scope text NOT NULL DEFAULT '';
ALTER TABLE {TOMBSTONES} ADD COLUMN IF NOT EXISTS target text NOT NULL DEFAULT '';
CREATE INDEX IF NOT EXISTS receipts_of_attempt ON {RECEIPTS} (attempt);
CREATE INDEX IF NOT EXISTS tombstones_of_window
    ON {TOMBSTONES} (table_id, pipeline, "window");
"""


def of_table(alias: str, oid: str, name: str) -> str:
    """The condition that a row of ours is about a table.

    Ids alone do not tell: a restored dump hands them out anew. A name that no table has any
    more is that of a table which was renamed.
    """
    return (
        f"{alias}.table_id = {oid} AND ({alias}.target = {name} OR {alias}.target NOT IN "
        "(SELECT n.nspname || '.' || c.relname FROM pg_catalog.pg_class c "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p')))"
    )


# No error, whatever is missing: an error would end the transaction in which it is asked.
_STANDING = f"""
SELECT current_user::text, pg_get_userbyid(n.nspowner)::text,
       (SELECT count(*) = 4 FROM pg_catalog.pg_attribute a
        WHERE (a.attrelid = r.oid AND a.attname IN ('every', 'columns', 'scope'))
           OR (a.attrelid = t.oid AND a.attname = 'target')),
       has_schema_privilege(n.oid, 'USAGE'), has_schema_privilege(n.oid, 'CREATE'),
       has_table_privilege(r.oid, 'SELECT'), has_table_privilege(r.oid, 'INSERT'),
       has_table_privilege(t.oid, 'SELECT') AND has_table_privilege(t.oid, 'INSERT')
       AND has_table_privilege(t.oid, 'UPDATE') AND has_table_privilege(t.oid, 'DELETE')
FROM (VALUES (1)) one
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = '{OURS}'
LEFT JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = 'receipts'
LEFT JOIN pg_catalog.pg_class t ON t.relnamespace = n.oid AND t.relname = 'tombstones'
"""
_LATEST = f"""
SELECT DISTINCT ON ("window") "window", receipt, number, generation, xid, data_xid, seen, rows_kept,
       columns
FROM {RECEIPTS} r
WHERE {of_table("r", "$1", "$2")} AND pipeline = $3
  AND ($4::text[] IS NULL OR "window" = ANY ($4::text[]))
ORDER BY "window", generation DESC
"""


@dataclass(frozen=True)
class Landed:
    """A receipt's row: the receipt, and what tells later whether its rows are still there.

    `data_xid` is the transaction that wrote the rows, `seen` the transactions that it saw,
    `rows_kept` the rows it left in its slice, `columns` the numbers of the columns it wrote, if the
    receipt itself does not tell of them.
    """

    receipt: Receipt | None
    number: int
    generation: int
    xid: int
    data_xid: int
    seen: str
    rows_kept: int
    columns: Sequence[int] | None


@dataclass(frozen=True)
class Left:
    """What a keyed write left: the table's rows, the transactions it saw, and its own."""

    rows: int
    seen: str
    xid: int


def ensure_schema(connection: psycopg.Connection[Any]) -> None:
    """The schema `setpoint` with its tables, made on first use, by several at once if need be."""
    import psycopg

    for _ in range(_TURNS):
        there = _Standing.of(connection)
        if there.complete:
            there.refuse_unless("USAGE, CREATE")
            return
        try:
            # To make it again needs a right that the owner of a schema may well lack.
            make = f"CREATE SCHEMA IF NOT EXISTS {OURS}; " if there.owner is None else ""
            with connection.transaction():
                connection.execute(f"{SETTINGS}; {make}{_TABLES}")
            return
        except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject):
            continue  # IF NOT EXISTS looks before it makes: another session was in between
        except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateColumn):
            continue
        except psycopg.errors.InsufficientPrivilege as error:
            raise there.not_allowed("USAGE, CREATE") from error
    raise PermanentError(
        "SP-T03",
        f"The tables of the schema {OURS} could not be made.",
        state=UNCHANGED,
        next="Run again; if it happens twice, look at the server's log.",
    )


def exists(connection: psycopg.Connection[Any]) -> bool:
    """Whether both tables are there, in their present shape; refused if they may not be read."""
    there = _Standing.of(connection)
    if there.owner is not None:
        there.refuse_unless("USAGE")
    return there.complete


@dataclass(frozen=True)
class _Standing:
    """What is there of the schema, and what this user may do in it."""

    user: str
    owner: str | None
    complete: bool
    privileges: frozenset[str]

    @classmethod
    def of(cls, connection: psycopg.Connection[Any]) -> _Standing:
        found = connection.execute(_STANDING).fetchone()
        user, owner, complete, *allowed = found or ("", None, False)
        names = ("USAGE", "CREATE", "SELECT", "INSERT", "REMEMBER")
        may = frozenset(name for name, yes in zip(names, allowed, strict=False) if yes)
        return cls(user, owner, complete, may)

    def refuse_unless(self, wanted: str) -> None:
        """Refuse a user who may not read, or with CREATE not publish."""
        needed = {"USAGE", "SELECT"} if self.complete else {"USAGE"}
        if "CREATE" in wanted:
            needed |= {"CREATE", "INSERT", "REMEMBER"}
        if not needed <= self.privileges:
            raise self.not_allowed(wanted)

    def not_allowed(self, wanted: str) -> PermanentError:
        user = quote(self.user)
        grant = (
            f"Have it granted: GRANT {wanted} ON SCHEMA {OURS} TO {user}; GRANT SELECT, INSERT, "
            f"UPDATE, DELETE ON ALL TABLES IN SCHEMA {OURS} TO {user}"
        )
        make = f"Have it made once: CREATE SCHEMA {OURS} AUTHORIZATION {user}"
        return PermanentError(
            "SP-T03",
            f"The user {self.user} may not use the schema {OURS}, which belongs to {self.owner}."
            if self.owner
            else f"The user {self.user} may not create the schema {OURS} in the database.",
            why="Receipts and stages are kept there, in the transaction of the rows.",
            state=UNCHANGED,
            next=grant if self.owner else make,
        )


def latest(
    connection: psycopg.Connection[Any],
    table: int,
    name: TableName,
    pipeline: str,
    windows: Sequence[str] | None = None,
) -> dict[str, Landed]:
    """The latest receipt of each window."""
    ids = None if windows is None else list(windows)
    found = connection.execute(_LATEST, [table, str(name), pipeline, ids]).fetchall()
    return {row[0]: Landed(_read(row[1]), *row[2:]) for row in found}


def last_keyed(
    connection: psycopg.Connection[Any], table: int, name: TableName, pipeline: str
) -> Left | None:
    """What the pipeline's last keyed write left behind."""
    found = connection.execute(
        f"SELECT table_rows, seen, data_xid FROM {RECEIPTS} r WHERE {of_table('r', '$1', '$2')} "
        "AND pipeline = $3 AND table_rows IS NOT NULL ORDER BY number DESC LIMIT 1",
        [table, str(name), pipeline],
    ).fetchone()
    return Left(*found) if found else None


def forget_removals(connection: psycopg.Connection[Any], name: TableName) -> None:
    """A table that is made anew has lost no key yet."""
    connection.execute(f"DELETE FROM {TOMBSTONES} WHERE target = $1", [str(name)])


def of_attempt(
    connection: psycopg.Connection[Any], pipeline: str, window: str, attempt: str
) -> tuple[Receipt, int, int] | None:
    """An attempt's receipt with its transaction and table."""
    row = connection.execute(
        f"SELECT receipt, xid, table_id FROM {RECEIPTS} "
        'WHERE attempt = $1 AND "window" = $2 AND pipeline = $3',
        [attempt, window, pipeline],
    ).fetchone()
    receipt = _read(row[0]) if row else None
    return (receipt, row[1], row[2]) if row and receipt else None


def insert(
    connection: psycopg.Connection[Any], receipt: Receipt, values: Mapping[str, Any]
) -> None:
    """Write a receipt; the primary key is the fence behind the lock."""
    row = {
        "pipeline": receipt.pipeline,
        '"window"': receipt.window,
        "generation": receipt.generation,
        '"every"': receipt.every,
        "attempt": receipt.attempt,
        "receipt": seal([receipt]),
        **values,
    }
    places = ", ".join(f"${n}" for n in range(1, len(row) + 1))
    connection.execute(
        f"INSERT INTO {RECEIPTS} ({', '.join(row)}) VALUES ({places})", list(row.values())
    )


def _read(text: str) -> Receipt | None:
    found = unseal(text)
    return found[0] if found else None
