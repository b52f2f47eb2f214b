"""The batch of a keyed write: one row per key, resolved inside PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from setpoint.errors import RefusedError
from setpoint.model.run import Run
from setpoint.model.write import InsertNew, Merge
from setpoint.spark.audits import sample
from setpoint.spark.batch import DELETED, any_null
from setpoint.targets.postgres.names import quote
from setpoint.targets.postgres.order import row_text, sequence

if TYPE_CHECKING:
    import psycopg
    from pyspark.sql import Column, DataFrame

    from setpoint.targets.postgres.stage import PostgresStage


@dataclass(frozen=True)
class Incoming:
    """What came in, counted while it was staged."""

    rows: int
    null_keys: int
    null_sequences: int

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Incoming:
        return cls(*(int(found.get(n) or 0) for n in ("rows", "null_keys", "null_sequences")))


def typed_rows(stage: PostgresStage, *, place: bool = False) -> str:
    """A query for the staged rows in the types of the table's columns."""
    columns = [f"{item.typed('s')} AS {item.quoted}" for item in stage.fit.fields]
    columns += [f"s.{quote(DELETED)}"] if stage.removes else []
    columns += ["s.ctid AS __setpoint_place"] if place else []
    return f"SELECT {', '.join(columns)} FROM {stage.source}"


def resolve(
    connection: psycopg.Connection[Any], stage: PostgresStage, write: Merge | InsertNew, run: Run
) -> tuple[int, int, int]:
    """Leave the greatest row of each key in the stage: how many rows, removals and ties."""
    keys = ", ".join(f"b.{quote(name)}" for name in write.keys)
    text = row_text(stage.fit, "b")
    order = []
    if isinstance(write, Merge):
        order = [f"{sequence(stage.fit.field(n), 'b')} DESC" for n in write.sequence]
        order += [f"b.{quote(DELETED)} DESC"] if stage.removes else []
    ranked = ", ".join([*order, f"{text} DESC"])
    rank = f"rank() OVER (PARTITION BY {keys} ORDER BY {', '.join(order)})" if order else "1"
    removed = f"b.{quote(DELETED)}" if stage.removes else "false"
    connection.execute("SET work_mem = '256MB'")
    connection.execute(
        f"CREATE TEMP TABLE ranked ON COMMIT PRESERVE ROWS AS WITH b AS "
        f"({typed_rows(stage, place=True)}) SELECT b.__setpoint_place AS place, {removed} AS gone, "
        f"row_number() OVER (PARTITION BY {keys} ORDER BY {ranked}) AS number, "
        f"{rank} = 1 AND {text} <> first_value({text}) OVER (PARTITION BY {keys} "
        f"ORDER BY {ranked}) AS tied, dense_rank() OVER (ORDER BY {keys}) AS key FROM b"
    )
    found = connection.execute(
        "SELECT count(*) FILTER (WHERE number = 1), "
        "count(*) FILTER (WHERE number = 1 AND gone), "
        "count(DISTINCT key) FILTER (WHERE tied) FROM ranked"
    ).fetchone()
    rows, deletes, tied = (int(value) for value in found or (0, 0, 0))
    if tied and isinstance(write, InsertNew):
        raise _contradicting(connection, stage, write, run, tied)
    connection.execute(
        f"DELETE FROM {stage.table.sql} d USING ranked r WHERE d.ctid = r.place AND r.number > 1"
    )
    connection.execute("DROP TABLE ranked")
    return rows, deletes, tied


def notes(write: Merge | InsertNew, incoming: Incoming, rows: int, tied: int) -> tuple[str, ...]:
    """What was decided on the way, in words."""
    said = []
    aside = incoming.null_keys if write.null_keys == "quarantine" else 0
    dropped = incoming.rows - rows - aside
    if dropped:
        said.append(f"{dropped:,} of {incoming.rows:,} rows were older versions or duplicates")
    if tied and isinstance(write, Merge):
        said.append(
            f"{tied:,} keys had several rows with the same sequence_by "
            f"({', '.join(write.sequence)}); the greatest row was taken. A further "
            "column in sequence_by would decide by meaning"
        )
    return tuple(said)


def refuse_nulls(frame: DataFrame, write: Merge | InsertNew, run: Run, found: Incoming) -> None:
    """Refuse rows that have no key, or no place in the order of their key's versions."""
    if found.null_keys and write.null_keys == "refuse":
        raise RefusedError(
            "SP-O06",
            f"The key ({', '.join(write.keys)}) holds a null in {found.null_keys:,} of "
            f"{found.rows:,} rows of {run.label}.{_example(frame, any_null(write.keys))}",
            why="Null equals nothing, so such a row would be inserted again on every run.",
            state="The target is unchanged; the stage was dropped.",
            next='Correct the rows, or say null_keys="quarantine" to put them aside, or '
            'null_keys="allow" to take null as a value.',
        )
    if found.null_sequences and isinstance(write, Merge):
        raise RefusedError(
            "SP-O06",
            f"sequence_by ({', '.join(write.sequence)}) holds a null in "
            f"{found.null_sequences:,} of {found.rows:,} rows of {run.label}."
            f"{_example(frame, any_null(write.sequence))}",
            why="Without it nothing says which row of a key is the latest.",
            state="The target is unchanged; the stage was dropped.",
            next="Fill the column, for example with coalesce(updated_at, created_at).",
        )


def _contradicting(
    connection: psycopg.Connection[Any],
    stage: PostgresStage,
    write: InsertNew,
    run: Run,
    tied: int,
) -> RefusedError:
    columns = ", ".join(f"s.{item.quoted}::text" for item in stage.fit.fields)
    row = connection.execute(
        f"SELECT {columns} FROM {stage.table.sql} s "
        "WHERE s.ctid = (SELECT place FROM ranked WHERE tied ORDER BY key, place LIMIT 1)"
    ).fetchone()
    example = f" For example: {dict(zip(stage.fit.names, row, strict=True))}." if row else ""
    return RefusedError(
        "SP-O07",
        f"{tied:,} keys ({', '.join(write.keys)}) of {run.label} have rows that differ.{example}",
        why="An event never changes, so one of the rows is wrong and nothing says which.",
        state="The target is unchanged; the stage was dropped.",
        next="Add what tells them apart to the key, or use Merge with a sequence_by column.",
    )


def _example(frame: DataFrame, condition: Column) -> str:
    found = sample(frame.where(F.coalesce(condition, F.lit(False))))
    return f" For example: {found[0]}." if found else ""
