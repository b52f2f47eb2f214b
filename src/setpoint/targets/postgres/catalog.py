"""What PostgreSQL's catalog says about a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setpoint.errors import PermanentError, RefusedError
from setpoint.targets.postgres.names import TableName, quote

if TYPE_CHECKING:
    import psycopg

_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "i": "an index"}
_SLICE_KINDS = {
    "date": "date",
    "timestamp with time zone": "timestamp",
    "timestamp without time zone": "timestamp_ntz",
    "smallint": "integer",
    "integer": "integer",
    "bigint": "long",
}

_TABLE = """
SELECT c.oid::int8, c.relkind::text, row_security_active(c.oid),
       EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""
_SCHEMA = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1"
# A domain is judged by the type below all its domains; its own constraints speak when rows arrive.
_COLUMNS = """
WITH RECURSIVE below AS (
    SELECT a.attnum, a.atttypid AS type, a.atttypmod AS modifier, false AS required
    FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = $1::int8::oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT b.attnum, t.typbasetype, t.typtypmod, b.required OR t.typnotnull
    FROM below b JOIN pg_catalog.pg_type t ON t.oid = b.type
    WHERE t.typtype = 'd'
)
SELECT a.attname::text,
       pg_catalog.format_type(a.atttypid, a.atttypmod),
       pg_catalog.format_type(t.oid, NULL),
       b.modifier,
       t.typcategory::text,
       a.attnotnull OR b.required,
       a.attidentity::text,
       a.attgenerated::text,
       a.atthasdef,
       a.attnum::int4,
       CASE WHEN NOT co.collisdeterministic THEN format('%I.%I', cn.nspname, co.collname)
            ELSE '' END
FROM pg_catalog.pg_attribute a
JOIN below b ON b.attnum = a.attnum
JOIN pg_catalog.pg_type t ON t.oid = b.type AND t.typtype <> 'd'
LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation
LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace
WHERE a.attrelid = $1::int8::oid
ORDER BY a.attnum
"""
# Of the table and its partitions: the events with a BEFORE ROW trigger, and the foreign keys that
# make a DELETE change other rows.
_GUARDS = """
WITH RECURSIVE tree AS (
    SELECT $1::int8::oid AS oid
    UNION
    SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree ON tree.oid = i.inhparent
)
SELECT (SELECT coalesce(bit_or(t.tgtype::int4), 0) FROM pg_catalog.pg_trigger t
        WHERE t.tgrelid IN (SELECT oid FROM tree) AND t.tgtype & 3 = 3
          AND NOT t.tgisinternal AND t.tgenabled <> 'D'),
       (SELECT coalesce(array_agg(DISTINCT format('%s of %s', f.conname, f.conrelid::regclass)),
                        '{}')
        FROM pg_catalog.pg_constraint f
        WHERE f.confrelid IN (SELECT oid FROM tree) AND f.contype = 'f' AND f.conparentid = 0
          AND f.confdeltype IN ('c', 'n', 'd'))
"""
_EVENTS = {4: "INSERT", 8: "DELETE", 16: "UPDATE"}
_UNIQUES = """
SELECT array_agg(a.attname::text ORDER BY a.attname::text),
       coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false)
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid
 AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
WHERE i.indrelid = $1::int8::oid AND i.indisunique AND i.indimmediate AND i.indisvalid
  AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid, i.*
"""


@dataclass(frozen=True)
class StoredColumn:
    """A column of an existing table.

    `number` tells a column from another one that had its name before; `collation` is named if
    texts that differ can be equal in it.
    """

    name: str
    declared: str
    base: str
    modifier: int
    category: str
    required: bool
    identity: str
    generated: str
    has_default: bool
    number: int = 0
    collation: str = ""

    @property
    def fills_itself(self) -> bool:
        """Whether PostgreSQL gives it a value when a row does not."""
        return bool(self.identity or self.generated or self.has_default)

    @property
    def takes_no_value(self) -> bool:
        """Whether a row may not give it a value."""
        return bool(self.generated) or self.identity == "a"

    @property
    def slice_kind(self) -> str:
        """The type as slices know it; one that they do not know comes back as it is."""
        return "string" if self.category == "S" else _SLICE_KINDS.get(self.base, self.base)

    @property
    def precision_and_scale(self) -> tuple[int, int] | None:
        """The limits of a numeric column, if it has any."""
        if self.base != "numeric" or self.modifier < 0:
            return None
        bits = self.modifier - 4
        scale = bits & 0x7FF
        return (bits >> 16) & 0xFFFF, scale - 0x800 if scale >= 0x400 else scale


@dataclass(frozen=True)
class StoredTable:
    """An existing table that rows can be published to.

    `triggers` are the events on which a trigger may leave a row out or change it, `cascades`
    the foreign keys by which a DELETE here changes rows elsewhere.
    """

    oid: int
    columns: tuple[StoredColumn, ...]
    uniques: tuple[tuple[frozenset[str], bool], ...]
    triggers: frozenset[str] = frozenset()
    cascades: tuple[str, ...] = ()

    def column(self, name: str) -> StoredColumn | None:
        return next((column for column in self.columns if column.name == name), None)

    def has_unique(self, keys: tuple[str, ...], *, nulls: bool) -> bool:
        """Whether an index makes the key unique; with `nulls`, null as a value included."""
        required = {column.name for column in self.columns if column.required}
        return any(
            columns == set(keys) and (not nulls or no_distinct or columns <= required)
            for columns, no_distinct in self.uniques
        )


def describe(connection: psycopg.Connection[Any], name: TableName) -> StoredTable | None:
    """The table as the catalog has it; None when there is none, refused when it is no table."""
    found = connection.execute(_TABLE, [name.schema, name.table]).fetchone()
    if found is None:
        _refuse_missing_schema(connection, name)
        return None
    oid, kind, row_security, rules = found
    if kind not in ("r", "p"):
        raise RefusedError(
            "SP-T02",
            f"{name} is {_KINDS.get(kind, 'not a table')}.",
            why="Only a table has rows of its own that a publish can replace.",
            next="Name the table itself.",
        )
    if row_security or rules:
        what = "row security policies that hold for this user" if row_security else "rewrite rules"
        raise RefusedError(
            "SP-T03",
            f"{name} has {what}.",
            why="A DELETE or INSERT might silently touch other rows than it says.",
            next="Publish as a user whom they do not concern, or to a table without them.",
        )
    columns = columns_of(connection, oid)
    uniques = tuple(
        (frozenset(names), bool(no_distinct))
        for names, no_distinct in connection.execute(_UNIQUES, [oid]).fetchall()
    )
    bits, cascades = connection.execute(_GUARDS, [oid]).fetchone() or (0, [])
    events = frozenset(event for bit, event in _EVENTS.items() if bits & bit)
    return StoredTable(oid, columns, uniques, events, tuple(cascades))


def columns_of(connection: psycopg.Connection[Any], oid: int) -> tuple[StoredColumn, ...]:
    """The columns of a relation, in its order."""
    return tuple(StoredColumn(*row) for row in connection.execute(_COLUMNS, [oid]).fetchall())


def _refuse_missing_schema(connection: psycopg.Connection[Any], name: TableName) -> None:
    if connection.execute(_SCHEMA, [name.schema]).fetchone() is None:
        raise RefusedError(
            "SP-T02",
            f"There is no schema {name.schema!r} in the database.",
            why="setpoint makes tables, and no schemas but its own.",
            next=f"Make it once: CREATE SCHEMA {quote(name.schema)}",
        )


def server_version(connection: psycopg.Connection[Any]) -> int:
    """The server's major version; refused below the oldest one that PostgreSQL maintains."""
    major = connection.info.server_version // 10_000
    if major < 13:
        raise PermanentError(
            "SP-T03",
            f"The server runs PostgreSQL {major}.",
            why="Transaction ids that tell a commit's fate exist since PostgreSQL 13.",
            next="Use a server of version 13 or newer.",
        )
    return major
