"""Reading PostgreSQL from a high-water mark on: bounds that the server itself evaluates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from setpoint.errors import PermanentError
from setpoint.model.mark import Mark, later_of, value_of
from setpoint.model.source import Source
from setpoint.sources.database.relation import Relation
from setpoint.sources.database.wire import kind_of
from setpoint.spark.increment import cursor_kinds, holds_nulls, no_range
from setpoint.targets.postgres.catalog import StoredColumn
from setpoint.targets.postgres.names import literal, quote

if TYPE_CHECKING:
    import psycopg

_CAST = {
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "smallint": "int8",
    "int": "int8",
    "bigint": "int8",
}


def increment_of(
    connection: psycopg.Connection[Any],
    relation: Relation,
    source: Source,
    after: Mark | None,
    again: tuple[str, str] | None,
    label: str,
) -> tuple[str, Mark | None]:
    """The condition for the rows from a mark on, and the mark that they lead to.

    The connection is in the snapshot in which the rows are read afterwards, so that there is no
    row beyond the mark that is found here.
    """
    kinds = cursor_kinds({c.name: kind_of(c) for c in relation.columns}, source, label)
    columns = {column.name: column for column in relation.columns}
    cursor = [columns[name] for name in source.cursor]
    if again is not None:
        return _range(cursor[0], kinds[0], again), None
    if after is not None and after.kinds != kinds:
        after = None  # the column's type changed: its old values cannot be compared with
    low = _from(source, cursor, after, kinds)
    upper = _upper(connection, relation, source, cursor, kinds, low, label)
    return (low, later_of(upper, after)) if upper is not None else ("false", after)


def _from(
    source: Source, cursor: Sequence[StoredColumn], after: Mark | None, kinds: Sequence[str]
) -> str:
    if after is None:
        return "true"
    values = [_constant(kind, text) for kind, text in zip(kinds, after.values, strict=True)]
    back = source.lookback
    if isinstance(back, timedelta):
        micros = back // timedelta(microseconds=1)
        return f"{_ordered(cursor[0])} >= {values[0]} - interval '{micros} microseconds'"
    if back is not None:
        return f"{_ordered(cursor[0])} >= {values[0]} - {back}"
    # PostgreSQL compares rows from the first column on, and finds the place in an index.
    columns = ", ".join(_ordered(column) for column in cursor)
    return f"({columns}) >= ({', '.join(values)})"


def _upper(
    connection: psycopg.Connection[Any],
    relation: Relation,
    source: Source,
    cursor: Sequence[StoredColumn],
    kinds: tuple[str, ...],
    low: str,
    label: str,
) -> Mark | None:
    table = relation.name.sql
    missing = " OR ".join(f"{quote(column.name)} IS NULL" for column in cursor)
    found = connection.execute(f"SELECT count(*) FROM {table} WHERE {missing}").fetchone()
    if found and found[0]:
        raise holds_nulls(source, label, int(found[0]))
    texts = ", ".join(f"{quote(column.name)}::text" for column in cursor)
    order = ", ".join(f"{_ordered(column)} DESC" for column in cursor)
    newest = connection.execute(
        f"SELECT {texts} FROM {table} WHERE {low} ORDER BY {order} LIMIT 1"
    ).fetchone()
    if newest is None:
        return None
    values = tuple(_as_marked(kind, str(v)) for kind, v in zip(kinds, newest, strict=True))
    try:
        for kind, text in zip(kinds, values, strict=True):
            value_of(kind, text)
    except (ValueError, ArithmeticError) as error:
        raise PermanentError(
            "SP-R01",
            f"The newest cursor of the source {label} is {', '.join(values)}, which is no point to "
            "go on from.",
            why="Every later row would lie before it and never be read.",
            next="Correct the value, or read a view that leaves it out.",
        ) from error
    return Mark(source.cursor, kinds, values)


def _range(column: StoredColumn, kind: str, again: tuple[str, str]) -> str:
    try:
        for text in again:
            value_of(kind, text)
    except (ValueError, ArithmeticError) as error:
        raise no_range(column.name, kind, again, str(error)) from error
    start, end = (_constant(kind, text) for text in again)
    return f"{_ordered(column)} >= {start} AND {_ordered(column)} < {end}"


def _ordered(column: StoredColumn) -> str:
    """The column as marks are ordered: texts by their bytes, as in Spark."""
    name = quote(column.name)
    if kind_of(column) != "string":
        return name
    plain = column.base in ("text", "character varying")
    return f'{name} COLLATE "C"' if plain else f'{name}::text COLLATE "C"'


def _constant(kind: str, text: str) -> str:
    if kind == "string":
        return literal(text)
    if kind == "timestamp":
        moment = value_of(kind, text)
        return f"{literal(moment.isoformat())}::timestamptz"
    return f"{literal(text)}::{_CAST.get(kind, 'numeric')}"


def _as_marked(kind: str, text: str) -> str:
    """A value as Spark writes it: moments in UTC, without saying so."""
    return text.removesuffix("+00") if kind == "timestamp" else text
