"""The rows of a PostgreSQL table: written to a file, brought back, and summed up in one line.

Rows are compared by the texts of their values, under settings that fix how values are spelled: it
is exact, tells null from an empty text, and works for types that have no equality of their own.
"""

from __future__ import annotations

from collections.abc import Sequence as Listed
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint.prove.command.postgres.structure import Column, Sequence
from setpoint.targets.postgres.names import TableName, literal, quote

if TYPE_CHECKING:
    import psycopg

_CHUNK = 1 << 20
# The columns of this table that rows of other tables refer to.
_REFERRED = """
SELECT DISTINCT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_catalog.pg_constraint f
JOIN pg_catalog.pg_attribute a ON a.attrelid = f.confrelid AND a.attnum = ANY (f.confkey)
WHERE f.confrelid = to_regclass($1) AND f.contype = 'f' GROUP BY f.oid
"""


def row_text(columns: Listed[Column], alias: str = "") -> str:
    """A row as one text, in which no two different rows are the same."""
    prefix = f"{alias}." if alias else ""
    values = ", ".join(f"{prefix}{quote(column.name)}::text" for column in columns)
    return f"ROW({values})::text" if columns else "''::text"


def fingerprint(
    connection: psycopg.Connection[Any], relation: str, columns: Listed[Column], where: str = "true"
) -> tuple[int, str]:
    """The number of rows and one text for all of them, whatever their order."""
    halves = ", ".join(
        f"coalesce(sum(('x' || substr(h, {start}, 16))::bit(64)::bigint::numeric), 0)"
        for start in (1, 17)
    )
    found = connection.execute(
        f"SELECT count(*), {halves} FROM "
        f"(SELECT md5({row_text(columns)}) AS h FROM {relation} WHERE {where}) AS hashed"
    ).fetchone()
    count, low, high = found or (0, 0, 0)
    return int(count), f"{count}:{low}:{high}"


def write_rows(
    connection: psycopg.Connection[Any], relation: str, columns: Listed[Column], file: Path
) -> None:
    """All rows, to a file."""
    names = ", ".join(quote(column.name) for column in columns)
    query = f"COPY (SELECT {names} FROM {relation}) TO STDOUT"
    with connection.cursor() as cursor, cursor.copy(query) as copy, file.open("wb") as out:
        for part in copy:
            out.write(part)


def load_rows(
    connection: psycopg.Connection[Any], table: str, columns: Listed[Column], file: Path
) -> None:
    """A temporary table with the rows of a file."""
    listed = ", ".join(f"{quote(column.name)} {column.type}" for column in columns)
    connection.execute(f"CREATE TEMPORARY TABLE {table} ({listed}) ON COMMIT DROP")
    query = f"COPY {table} FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(query) as copy, file.open("rb") as source:
        while part := source.read(_CHUNK):
            copy.write(part)


def bring_back(
    connection: psycopg.Connection[Any], name: TableName, columns: Listed[Column], file: Path
) -> None:
    """Remove the rows that are too many and add those that are missing; the others stay.

    A row that others refer to cannot go, not even for a moment: it gets its values back in place.
    """
    load_rows(connection, "pg_temp.setpoint_kept", columns, file)
    connection.execute("ANALYZE pg_temp.setpoint_kept")
    for (key,) in connection.execute(_REFERRED, [name.sql]).fetchall():
        _set_again(connection, name, columns, [item for item in columns if item.name in key])
    text = row_text(columns)
    connection.execute(
        f"DELETE FROM {name.sql} t USING ("
        f"SELECT of_table, place FROM (SELECT tableoid AS of_table, ctid AS place, {text} AS r, "
        f"row_number() OVER (PARTITION BY {text} ORDER BY tableoid, ctid) AS nth "
        f"FROM {name.sql}) AS found LEFT JOIN (SELECT {text} AS r, count(*) AS wanted "
        "FROM pg_temp.setpoint_kept GROUP BY 1) AS kept USING (r) "
        "WHERE nth > coalesce(wanted, 0)) AS surplus "
        "WHERE t.tableoid = surplus.of_table AND t.ctid = surplus.place"
    )
    given = [column for column in columns if not column.generated]
    names = ", ".join(quote(column.name) for column in given)
    connection.execute(
        f"INSERT INTO {name.sql} ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM ("
        f"SELECT *, {text} AS setpoint_r, row_number() OVER (PARTITION BY {text}) AS setpoint_nth "
        f"FROM pg_temp.setpoint_kept) AS kept LEFT JOIN (SELECT {text} AS setpoint_r, "
        f"count(*) AS setpoint_have FROM {name.sql} GROUP BY 1) AS have USING (setpoint_r) "
        "WHERE setpoint_nth > coalesce(setpoint_have, 0)"
    )


def _set_again(
    connection: psycopg.Connection[Any],
    name: TableName,
    columns: Listed[Column],
    key: Listed[Column],
) -> None:
    import psycopg

    given = [column for column in columns if not (column.generated or column.identity)]
    names = [quote(column.name) for column in given if column not in key]
    if not names:
        return
    with suppress(psycopg.errors.UniqueViolation), connection.transaction():
        connection.execute(
            f"UPDATE {name.sql} AS t SET {', '.join(f'{n} = kept.{n}' for n in names)} "
            f"FROM pg_temp.setpoint_kept AS kept WHERE {row_text(key, 't')} = "
            f"{row_text(key, 'kept')} AND {row_text(columns, 't')} <> {row_text(columns, 'kept')}"
        )


def sequence_values(
    connection: psycopg.Connection[Any], sequences: Listed[Sequence]
) -> dict[str, tuple[int, bool]]:
    """Where every sequence stands."""
    found = {}
    for item in sequences:
        row = connection.execute(f"SELECT last_value, is_called FROM {item.name}").fetchone()
        if row is not None:
            found[item.name] = (int(row[0]), bool(row[1]))
    return found


def set_sequences(connection: psycopg.Connection[Any], values: dict[str, tuple[int, bool]]) -> None:
    """Put every sequence where it stood; a sequence does so at once, whatever becomes of us."""
    for name, (value, called) in values.items():
        connection.execute(
            f"SELECT pg_catalog.setval({literal(name)}::regclass, {value}, {str(called).lower()})"
        )
