"""What PostgreSQL's catalog says about something that rows can be read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setpoint.targets.postgres.catalog import StoredColumn, columns_of
from setpoint.targets.postgres.names import TableName, quote

if TYPE_CHECKING:
    import psycopg

# Kinds of relations that hold or give rows, as `pg_class` calls them.
_READABLE = {
    "r": "table",
    "p": "partitioned table",
    "v": "view",
    "m": "materialized view",
    "f": "foreign table",
}
_FOUND = """
SELECT c.oid::int8, c.relkind::text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""
# Of the relation and all below it: the blocks of the longest one, and whether any is foreign.
_TREE = """
WITH RECURSIVE tree AS (
    SELECT $1::int8::oid AS oid
    UNION
    SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree ON tree.oid = i.inhparent
)
SELECT coalesce(max(CASE WHEN c.relkind IN ('r', 'm')
                         THEN pg_catalog.pg_relation_size(c.oid) END), 0)
         / pg_catalog.current_setting('block_size')::int8,
       bool_or(c.relkind = 'f')
FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid
"""
_LEADING = """
SELECT DISTINCT a.attname::text
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = $1::int8::oid AND i.indisvalid AND i.indpred IS NULL
"""


@dataclass(frozen=True)
class Relation:
    """A table, view or foreign table to read.

    `blocks` is 0 where rows have no place of their own (a view) or one that the server does
    not know (a foreign table); such a relation is read by one query. `indexed` are the columns
    that an index starts with.
    """

    name: TableName
    oid: int
    kind: str
    columns: tuple[StoredColumn, ...]
    blocks: int
    indexed: frozenset[str]

    @property
    def kinds(self) -> dict[str, str]:
        """The columns with their types as slices know them."""
        return {column.name: column.slice_kind for column in self.columns}


def relation(connection: psycopg.Connection[Any], name: TableName) -> Relation | None:
    """The relation of that name; None when there is nothing that rows can be read from."""
    found = connection.execute(_FOUND, [name.schema, name.table]).fetchone()
    if found is None or found[1] not in _READABLE:
        return None
    oid, kind = found
    blocks, foreign = connection.execute(_TREE, [oid]).fetchone() or (0, False)
    divisible = kind in ("r", "p", "m") and not foreign
    indexed = frozenset(name for (name,) in connection.execute(_LEADING, [oid]).fetchall())
    return Relation(
        name=name,
        oid=oid,
        kind=_READABLE[kind],
        columns=columns_of(connection, oid),
        blocks=max(int(blocks), 1) if divisible else 0,
        indexed=indexed,
    )


def expected_rows(connection: psycopg.Connection[Any], found: Relation, condition: str) -> int:
    """How many rows the server expects; good enough to choose the number of tasks."""
    query = f"EXPLAIN (FORMAT JSON) SELECT * FROM {found.name.sql} WHERE {condition}"
    answer = connection.execute(query.encode()).fetchone()
    return int(answer[0][0]["Plan"]["Plan Rows"]) if answer else 0


def ranges_of(
    connection: psycopg.Connection[Any], found: Relation, column: str, rows: int
) -> list[tuple[Any, Any]]:
    """The ends of a column where an index has them; otherwise the values of its first rows."""
    name, table = quote(column), found.name.sql
    query = f"SELECT {name}, {name} FROM {table} WHERE {name} IS NOT NULL LIMIT {rows}"
    if column in found.indexed:
        query = f"SELECT min({name}), max({name}) FROM {table}"
    return [(least, most) for least, most in connection.execute(query.encode()).fetchall()]
