"""Two states of a PostgreSQL table, compared inside the database: no Spark, no rows on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint.model.proof import (
    ColumnChange,
    Difference,
    RowChange,
    schema_changes,
    shown,
    shown_apart,
)
from setpoint.prove.command.places import EXAMPLES, Question
from setpoint.prove.command.postgres.rows import fingerprint, load_rows, row_text
from setpoint.prove.command.postgres.structure import Column, Structure
from setpoint.targets.postgres.names import TableName, quote

if TYPE_CHECKING:
    import psycopg

_EXPECTED, _MISSING, _ADDED = (
    f"pg_temp.setpoint_{word}" for word in ("expected", "missing", "added")
)
_PAIRS = 3
_UNIQUES = """
SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid, i.indisprimary ORDER BY i.indisprimary DESC
"""


def compared(
    connection: psycopg.Connection[Any],
    table: TableName,
    wanted: Structure | None,
    found: Structure | None,
    file: Path,
    question: Question,
    condition: str = "true",
) -> Difference | None:
    """How the rows of now differ from those in a file; None when they do not."""
    if wanted is None or found is None:
        return _one_sided(connection, table, wanted, found, file, condition)
    schema, columns = _schemas(wanted.columns, found.columns)
    load_rows(connection, _EXPECTED, wanted.columns, file)
    connection.execute(f"ANALYZE {_EXPECTED}")
    sides = [f"(SELECT * FROM {place} WHERE {condition}) AS t" for place in (_EXPECTED, table.sql)]
    expected, actual, missing, added, repeated = _counts(connection, sides, columns)
    if not (missing or added or schema):
        return None
    plain = Difference(expected, actual, missing, added, schema=schema, repeated=repeated)
    surplus(connection, _MISSING, sides[0], sides[1], columns)
    surplus(connection, _ADDED, sides[1], sides[0], columns)
    key = _key(connection, table, columns, question.key) if missing and added else ()
    if not key:
        return replace(plain, examples=_unmatched(connection, columns))
    return replace(plain, **_matched(connection, columns, key, expected - missing))


def _one_sided(
    connection: psycopg.Connection[Any],
    table: TableName,
    wanted: Structure | None,
    found: Structure | None,
    file: Path,
    condition: str,
) -> Difference | None:
    if wanted is not None:
        load_rows(connection, _EXPECTED, wanted.columns, file)
        count = _number(connection, f"SELECT count(*) FROM {_EXPECTED} WHERE {condition}")
        return Difference(count, 0, count, 0, schema=(f"{table} is missing",))
    if found is not None:
        count = _number(connection, f"SELECT count(*) FROM {table.sql} WHERE {condition}")
        return Difference(
            0, count, 0, count, schema=(f"{table} is there, after one run it is not",)
        )
    return None


def _schemas(
    wanted: Sequence[Column], found: Sequence[Column]
) -> tuple[tuple[str, ...], tuple[Column, ...]]:
    """What is different about the columns, and those that are the same."""
    before, after = ({column.name: column.type for column in side} for side in (wanted, found))
    same = tuple(column for column in wanted if after.get(column.name) == column.type)
    return schema_changes(before, after), same


def _counts(
    connection: psycopg.Connection[Any], sides: Sequence[str], columns: Sequence[Column]
) -> tuple[int, ...]:
    text = row_text(columns)
    e, f = (f"(SELECT {text} AS r, count(*) AS n FROM {side} GROUP BY 1)" for side in sides)
    found = connection.execute(
        "SELECT sum(coalesce(e.n, 0)), sum(coalesce(f.n, 0)), "
        "sum(greatest(coalesce(e.n, 0) - coalesce(f.n, 0), 0)), "
        "sum(greatest(coalesce(f.n, 0) - coalesce(e.n, 0), 0)), "
        "sum(CASE WHEN e.n < f.n THEN f.n - e.n ELSE 0 END) "
        f"FROM {e} AS e FULL JOIN {f} AS f USING (r)"
    ).fetchone()
    return tuple(int(number or 0) for number in found or (0, 0, 0, 0, 0))


def surplus(
    connection: psycopg.Connection[Any],
    place: str,
    of: str,
    over: str,
    columns: Sequence[Column],
) -> None:
    """A temporary table of the rows that one side has more often than the other."""
    text = row_text(columns)
    names = ", ".join(quote(column.name) for column in columns)
    connection.execute(
        f"CREATE TEMPORARY TABLE {place} ON COMMIT DROP AS SELECT {names} FROM ("
        f"SELECT {names}, {text} AS setpoint_r, row_number() OVER (PARTITION BY {text}) "
        f"AS setpoint_nth FROM {of}) AS rows LEFT JOIN (SELECT {text} AS setpoint_r, count(*) "
        f"AS setpoint_n FROM {over} GROUP BY 1) AS other USING (setpoint_r) "
        "WHERE setpoint_nth > coalesce(setpoint_n, 0)"
    )


def _key(
    connection: psycopg.Connection[Any],
    table: TableName,
    columns: Sequence[Column],
    wanted: tuple[str, ...],
) -> tuple[str, ...]:
    """Columns by which rows of both sides find each other: given, unique, or unchanged."""
    known = {column.name for column in columns}
    uniques = [tuple(row[0]) for row in connection.execute(_UNIQUES, [table.sql]).fetchall()]
    stable = tuple(
        column.name
        for column in columns
        if fingerprint(connection, _MISSING, [column]) == fingerprint(connection, _ADDED, [column])
    )
    for key in (wanted, *uniques, stable):
        if key and set(key) <= known and _pairs(connection, columns, key):
            return key
    return ()


def _pairs(
    connection: psycopg.Connection[Any], columns: Sequence[Column], key: tuple[str, ...]
) -> bool:
    """Whether some rows match by a key, and none more than once."""
    text = row_text([column for column in columns if column.name in key])
    for side in (_MISSING, _ADDED):
        if _number(connection, f"SELECT count(*) - count(DISTINCT {text}) FROM {side}"):
            return False
    both = f"SELECT {text} FROM {_MISSING} INTERSECT SELECT {text} FROM {_ADDED}"
    return _number(connection, f"SELECT count(*) FROM ({both}) AS both_sides") > 0


def _matched(
    connection: psycopg.Connection[Any],
    columns: Sequence[Column],
    key: tuple[str, ...],
    same: int,
) -> dict[str, Any]:
    keys = [column for column in columns if column.name in key]
    others = [column for column in columns if column.name not in key]
    joined = f"{_MISSING} AS e JOIN {_ADDED} AS f ON {row_text(keys, 'e')} = {row_text(keys, 'f')}"
    pairs = _number(connection, f"SELECT count(*) FROM {joined}")
    changed = []
    for column in others:
        name = quote(column.name)
        differs = f"e.{name}::text IS DISTINCT FROM f.{name}::text"
        count = _number(connection, f"SELECT count(*) FROM {joined} WHERE {differs}")
        if count:
            drawn = connection.execute(
                f"SELECT e.{name}::text, f.{name}::text FROM {joined} WHERE {differs} "
                f"ORDER BY {row_text(keys, 'e')} LIMIT {_PAIRS}"
            ).fetchall()
            texts = tuple(shown_apart(before, after) for before, after in drawn)
            changed.append(ColumnChange(column.name, column.type, count, texts))
    moved = [column for column in others if any(c.name == column.name for c in changed)]
    rows = connection.execute(
        f"SELECT {_texts(keys, 'e')}, {_texts(moved, 'e')}, {_texts(moved, 'f')} FROM {joined} "
        f"ORDER BY {row_text(keys, 'e')} LIMIT {EXAMPLES}"
    ).fetchall()
    return {
        "key": key,
        "matched": pairs + same,
        "columns": tuple(changed),
        "examples": tuple(
            _change(_named(keys, row[0]), [column.name for column in moved], row[1], row[2])
            for row in rows
        ),
    }


def _change(
    key: dict[str, str],
    names: Sequence[str],
    before: Sequence[str | None],
    after: Sequence[str | None],
) -> RowChange:
    """A row that is on both sides, with what changed in it."""
    pairs = {
        name: shown_apart(one, two)
        for name, one, two in zip(names, before, after, strict=True)
        if one != two
    }
    return RowChange(
        key,
        {name: pair[0] for name, pair in pairs.items()},
        {name: pair[1] for name, pair in pairs.items()},
    )


def _unmatched(
    connection: psycopg.Connection[Any], columns: Sequence[Column]
) -> tuple[RowChange, ...]:
    sides = []
    for side in (_MISSING, _ADDED):
        query = f"SELECT {_texts(columns)} FROM {side} ORDER BY 1 LIMIT {EXAMPLES}"
        sides.append([_named(columns, row[0]) for row in connection.execute(query).fetchall()])
    missing, added = sides
    # Something of both sides, if there is something on both.
    first = missing[: max(EXAMPLES - len(added), (EXAMPLES + 1) // 2)]
    return (
        *(RowChange({}, row, None) for row in first),
        *(RowChange({}, None, row) for row in added[: EXAMPLES - len(first)]),
    )


def _texts(columns: Sequence[Column], alias: str = "") -> str:
    prefix = f"{alias}." if alias else ""
    listed = ", ".join(f"{prefix}{quote(column.name)}::text" for column in columns)
    return f"ARRAY[{listed}]::text[]"


def _named(columns: Sequence[Column], values: Iterable[str | None]) -> dict[str, str]:
    return {column.name: shown(text) for column, text in zip(columns, values, strict=True)}


def _number(connection: psycopg.Connection[Any], query: str) -> int:
    found = connection.execute(query).fetchone()
    return int(found[0]) if found else 0
