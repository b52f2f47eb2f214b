"""What PostgreSQL's catalog says about something that rows can be read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from setpoint.errors import some_of
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
# The relation and all that its rows come from: partitions, inheritance children, and what views
# read. A transaction that began earlier sees the `relfilenode` of then; `pg_relation_filenode`
# always tells that of now.
_TREE = """
WITH RECURSIVE tree AS (
    SELECT $1::int8::oid AS oid
    UNION
    SELECT below.oid FROM tree CROSS JOIN LATERAL (
        SELECT i.inhrelid AS oid FROM pg_catalog.pg_inherits i WHERE i.inhparent = tree.oid
        UNION ALL
        SELECT d.refobjid
        FROM pg_catalog.pg_class v
        JOIN pg_catalog.pg_rewrite r ON r.ev_class = v.oid
        JOIN pg_catalog.pg_depend d ON d.objid = r.oid
         AND d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
         AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
        WHERE v.oid = tree.oid AND v.relkind = 'v'
    ) below
)
SELECT c.oid::int8, n.nspname || '.' || c.relname, c.relkind::text, c.relfilenode::int8,
       c.relfilenode <> 0
         AND pg_catalog.pg_relation_filenode(c.oid) IS DISTINCT FROM c.relfilenode
FROM tree
JOIN pg_catalog.pg_class c ON c.oid = tree.oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
# Of the longest of them. Unlike the catalog, a size is had with a lock only.
_BLOCKS = """
SELECT coalesce(max(pg_catalog.pg_relation_size(oid::oid)), 0)
         / pg_catalog.current_setting('block_size')::int8
FROM pg_catalog.unnest($1::int8[]) AS oid
"""
_LEADING = """
SELECT DISTINCT a.attname::text
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = $1::int8::oid AND i.indisvalid AND i.indpred IS NULL
"""


@dataclass(frozen=True)
class Store:
    """One of the relations that rows come from, and the file that it keeps its own in.

    TRUNCATE, VACUUM FULL, CLUSTER and some forms of ALTER TABLE give it another file. No snapshot
    looks into the old one: rows that it should show are missing, or lie elsewhere. `moved` says
    that this has happened since the snapshot in which the catalog was asked.
    """

    name: str
    kind: str
    file: int
    moved: bool = field(compare=False)


Stores = Mapping[int, Store]


@dataclass(frozen=True)
class Relation:
    """A table, view or foreign table to read.

    `blocks` is 0 where rows have no place of their own (a view) or one that the server does
    not know (a foreign table); such a relation is read by one query. `indexed` are the columns
    that an index starts with, `stores` the relations that the rows come from, by their oids.
    """

    name: TableName
    oid: int
    kind: str
    columns: tuple[StoredColumn, ...]
    blocks: int
    indexed: frozenset[str]
    stores: Stores = field(repr=False)

    @property
    def kinds(self) -> dict[str, str]:
        """The columns with their types as slices know them."""
        return {column.name: column.slice_kind for column in self.columns}

    @property
    def moved(self) -> str:
        """What was rewritten since the snapshot in which this was found."""
        return _told((store.name, "rewritten") for store in self.stores.values() if store.moved)

    def difference(self, now: Stores) -> str:
        """What became of the stores since: of all that a snapshot does not keep as it was."""
        old = self.stores
        both = [oid for oid in old if oid in now]
        return _told(
            [
                *((old[oid].name, "rewritten") for oid in both if old[oid].file != now[oid].file),
                *((store.name, "added") for oid, store in now.items() if oid not in old),
                *((store.name, "taken away") for oid, store in old.items() if oid not in now),
            ]
        )


def relation(
    connection: psycopg.Connection[Any], name: TableName, *, planned: str = "false"
) -> Relation | None:
    """The relation of that name; None when there is nothing that rows can be read from.

    A query with the condition `planned` is planned first. It says now what the tasks would say
    later, a right that is lacking or a view that is broken; and the server locks what the query
    would read, so that what is found here stays true while the transaction lasts.
    """
    found = connection.execute(_FOUND, [name.schema, name.table]).fetchone()
    if found is None or found[1] not in _READABLE:
        return None
    connection.execute(f"EXPLAIN SELECT * FROM {name.sql} WHERE {planned}".encode())
    oid, kind = found
    stores = stores_of(connection, oid)
    divisible = kind in ("r", "p", "m") and not any(s.kind == "f" for s in stores.values())
    filed = [oid for oid, store in stores.items() if store.kind in ("r", "m")]
    (blocks,) = connection.execute(_BLOCKS, [filed if divisible else []]).fetchone() or (0,)
    indexed = frozenset(name for (name,) in connection.execute(_LEADING, [oid]).fetchall())
    return Relation(
        name=name,
        oid=oid,
        kind=_READABLE[kind],
        columns=columns_of(connection, oid),
        blocks=max(int(blocks), 1) if divisible else 0,
        indexed=indexed,
        stores=stores,
    )


def stores_of(connection: psycopg.Connection[Any], oid: int) -> Stores:
    """The relations that the rows of a relation come from, as the connection sees them.

    Nothing is locked: a session that waits for the relation is in nobody's way here.
    """
    found = connection.execute(_TREE, [oid]).fetchall()
    return {oid: Store(name, kind, file, moved) for oid, name, kind, file, moved in found}


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


def _told(changes: Iterable[tuple[str, str]]) -> str:
    """Changes in words: what happened to which relations."""
    by_verb: dict[str, list[str]] = {}
    for name, verb in changes:
        by_verb.setdefault(verb, []).append(name)
    return "; ".join(f"{some_of(sorted(by_verb[v]))}: {v}" for v in sorted(by_verb))
