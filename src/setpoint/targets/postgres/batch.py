"""The batch of a keyed write: one row per key, resolved inside PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setpoint.model.write import InsertNew, Merge
from setpoint.spark.batch import DELETED, Incoming
from setpoint.targets.postgres.names import quote
from setpoint.targets.postgres.order import event_text, row_text, sequence

if TYPE_CHECKING:
    import psycopg

    from setpoint.targets.postgres.stage import PostgresStage

_RANKED = "pg_temp.ranked"


def typed_rows(stage: PostgresStage, *, place: bool = False, everything: bool = False) -> str:
    """A query for the staged rows in the types of the table's columns.

    `everything` takes the rows of tasks that did not win along.
    """
    columns = [f"{item.typed('s')} AS {item.quoted}" for item in stage.fit.fields]
    columns += [f"s.{quote(DELETED)}"] if stage.removes else []
    columns += ["s.ctid AS __setpoint_place"] if place else []
    return f"SELECT {', '.join(columns)} FROM {stage.everything if everything else stage.source}"


def resolve(
    connection: psycopg.Connection[Any],
    stage: PostgresStage,
    write: Merge | InsertNew,
    incoming: Incoming,
) -> tuple[int, int, int]:
    """Leave the greatest row of each key in the stage: how many rows, removals and ties."""
    keys = ", ".join(f"b.{quote(name)}" for name in write.keys)
    text = whole = row_text(stage.fit, "b")
    order = []
    if isinstance(write, InsertNew):
        text = event_text(stage.fit, write.keys, "b")
    else:
        order = [f"{sequence(stage.fit.field(n), 'b')} DESC" for n in write.sequence]
        order += [f"b.{quote(DELETED)} DESC"] if stage.removes else []
    ranked = ", ".join([*order, *(f"{by} DESC" for by in dict.fromkeys((text, whole)))])
    rank = f"rank() OVER (PARTITION BY {keys} ORDER BY {', '.join(order)})" if order else "1"
    removed = f"b.{quote(DELETED)}" if stage.removes else "false"
    # All of it in the caller's transaction: a pooler may give each one to another session.
    connection.execute("SET LOCAL work_mem = '256MB'")
    connection.execute(
        f"CREATE TEMP TABLE {_RANKED} ON COMMIT DROP AS WITH b AS "
        f"({typed_rows(stage, place=True)}) SELECT b.__setpoint_place AS place, {removed} AS gone, "
        f"row_number() OVER (PARTITION BY {keys} ORDER BY {ranked}) AS number, "
        f"{rank} = 1 AND {text} <> first_value({text}) OVER (PARTITION BY {keys} "
        f"ORDER BY {ranked}) AS tied, dense_rank() OVER (ORDER BY {keys}) AS key FROM b"
    )
    found = connection.execute(
        "SELECT count(*) FILTER (WHERE number = 1), "
        "count(*) FILTER (WHERE number = 1 AND gone), "
        f"count(DISTINCT key) FILTER (WHERE tied) FROM {_RANKED}"
    ).fetchone()
    rows, deletes, tied = (int(value) for value in found or (0, 0, 0))
    if tied:
        incoming.refuse_contradictions(tied, _contradicting(connection, stage))
    connection.execute(
        f"DELETE FROM {stage.table.sql} d USING {_RANKED} r WHERE d.ctid = r.place AND r.number > 1"
    )
    return rows, deletes, tied


def _contradicting(connection: psycopg.Connection[Any], stage: PostgresStage) -> str:
    """An example of a row with a twin of other content."""
    columns = ", ".join(f"s.{item.quoted}::text" for item in stage.fit.fields)
    row = connection.execute(
        f"SELECT {columns} FROM {stage.table.sql} s "
        f"WHERE s.ctid = (SELECT place FROM {_RANKED} WHERE tied ORDER BY key, place LIMIT 1)"
    ).fetchone()
    return f" For example: {dict(zip(stage.fit.names, row, strict=True))}." if row else ""
