"""The batch of a keyed write: one row per key, chosen the same way on every run.

Of the rows under one key the greatest counts: by `sequence_by` first, then a removal before a
row that stays, then by the order of the whole row. The order is total, so it does not matter
how rows are spread over batches, nor in which order the batches come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.errors import RefusedError, for_example
from setpoint.model.run import Statement
from setpoint.model.write import InsertNew, Merge
from setpoint.spark.audits import sample
from setpoint.spark.contents import HASH, event_hash_sql, hash_sql, quoted, row_hash
from setpoint.spark.expressions import any_null, counted
from setpoint.spark.stage import metrics_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DELETED = "__setpoint_deleted"
TIED = "__setpoint_tied"
_PLACE = "__setpoint_place"
_SAID = "__setpoint_said"
_OURS = (DELETED, TIED, HASH, _PLACE)


def to_keep(frame: DataFrame) -> DataFrame:
    """The rows that readers will see, and audits are about: without the removals and their flag."""
    return frame.where(~F.col(DELETED)).drop(DELETED) if DELETED in frame.columns else frame


def without_flag(schema: T.StructType) -> T.StructType:
    """The columns of the table, without the flag of a removed key."""
    return T.StructType([field for field in schema.fields if field.name != DELETED])


class Incoming:
    """The rows of a keyed write as they come in, with their keys and sequences looked at.

    `frame` holds the rows to go on with. Nothing is computed before it is written; the counts
    are there afterwards.
    """

    def __init__(self, given: DataFrame, write: Merge | InsertNew, run: Statement) -> None:
        self._given, self._write, self._run = given, write, run
        self._observation = Observation()
        null_key = any_null(write.keys)
        null_sequence = any_null(write.sequence) if isinstance(write, Merge) else "false"
        if write.null_keys == "quarantine":
            null_sequence = f"({null_sequence}) AND NOT ({null_key})"
        observed = given.observe(
            self._observation,
            F.expr("count(1) AS rows"),
            counted(null_key, "null_keys"),
            counted(null_sequence, "null_sequences"),
        )
        if write.null_keys == "quarantine":
            observed = observed.where(f"NOT ({null_key})")
        self.frame = observed

    def refuse_nulls(self) -> None:
        """Refuse rows that have no key, or no place in the order of their key's versions."""
        write, rows = self._write, self._count("rows")
        if write.null_keys == "refuse" and (count := self._count("null_keys")):
            raise RefusedError(
                "SP-O06",
                f"The key ({', '.join(write.keys)}) holds a null in {count:,} of {rows:,} rows of "
                f"{self._run.label}.{_example(self._given, any_null(write.keys))}",
                why="Null equals nothing, so such a row would be inserted again on every run.",
                state="The target is unchanged; the stage was dropped.",
                next='Correct the rows, or say null_keys="quarantine" to put them aside, or '
                'null_keys="allow" to take null as a value.',
            )
        if isinstance(write, Merge) and (count := self._count("null_sequences")):
            raise RefusedError(
                "SP-O06",
                f"sequence_by ({', '.join(write.sequence)}) holds a null in {count:,} of "
                f"{rows:,} rows of {self._run.label}."
                f"{_example(self._given, any_null(write.sequence))}",
                why="Without it nothing says which row of a key is the latest.",
                state="The target is unchanged; the stage was dropped.",
                next="Fill the column, for example with coalesce(updated_at, created_at).",
            )

    def quarantined(self) -> int:
        """How many rows were left out for a null in their key."""
        return self._count("null_keys") if self._write.null_keys == "quarantine" else 0

    def notes(self, rows: int, tied: int) -> tuple[str, ...]:
        """What was decided on the way to so many rows, in words."""
        came, notes = self._count("rows"), []
        dropped = came - rows - self.quarantined()
        if dropped:
            notes.append(f"{dropped:,} of {came:,} rows were older versions or duplicates")
        if tied and isinstance(self._write, Merge):
            notes.append(
                f"{tied:,} keys had several rows with the same sequence_by "
                f"({', '.join(self._write.sequence)}); the greatest row was taken. A further "
                "column in sequence_by would decide by meaning"
            )
        return tuple(notes)

    def refuse_contradictions(self, tied: int, example: str) -> None:
        """Refuse a batch of events that holds different rows under one key."""
        if not tied or not isinstance(self._write, InsertNew):
            return
        raise RefusedError(
            "SP-O07",
            f"{tied:,} keys ({', '.join(self._write.keys)}) of {self._run.label} have rows that "
            f"differ.{example}",
            why="An event never changes, so one of the rows is wrong and nothing says which.",
            state="The target is unchanged; the stage was dropped.",
            next="Add what tells them apart to the key, or use Merge with a sequence_by column.",
        )

    def _count(self, name: str) -> int:
        return int(metrics_of(self._observation).get(name) or 0)


class Batch:
    """The rows of a keyed write with duplicates resolved.

    `frame` has the columns of the given frame, `HASH` and `TIED`: for a Merge, rows that were
    chosen from several with one sequence; for an InsertNew, rows with a contradicting twin. With
    `delete_when` it has `DELETED` too.
    """

    def __init__(self, given: DataFrame, write: Merge | InsertNew, run: Statement) -> None:
        self.incoming = Incoming(given, write, run)
        frame = self.incoming.frame.withColumn(HASH, row_hash(given.schema))
        ranked = (
            _events(frame, write, given.schema)
            if isinstance(write, InsertNew)
            else _versions(frame, write)
        )
        self.frame = ranked.where(f"{_PLACE} = 1").drop(_PLACE)
        if DELETED in self.frame.columns:
            # A key that is removed by a row is another fact than a row that stays.
            self.frame = self.frame.withColumn(HASH, F.expr(f"xxhash64({HASH}, {DELETED})"))

    def refuse(self, tied: int) -> None:
        """Refuse what no choice between the rows can heal."""
        self.incoming.refuse_nulls()
        if tied:
            self.incoming.refuse_contradictions(tied, _example(self.frame, quoted(TIED)))


def _events(frame: DataFrame, write: InsertNew, schema: T.StructType) -> DataFrame:
    keys = _listed(write.keys)
    said = event_hash_sql(schema)
    said = HASH if said == hash_sql(schema) else said
    return (
        frame.selectExpr("*", f"{said} AS {_SAID}")
        .selectExpr(
            "*",
            f"min({_SAID}) OVER (PARTITION BY {keys}) <> {_SAID} AS {TIED}",
            f"row_number() OVER (PARTITION BY {keys} ORDER BY {HASH} DESC) AS {_PLACE}",
        )
        .drop(_SAID)
    )


def _versions(frame: DataFrame, write: Merge) -> DataFrame:
    sequence = list(write.sequence)
    if write.delete_when is not None:
        deleted = F.coalesce(F.expr(write.delete_when), F.lit(False))
        frame = frame.withColumn(DELETED, deleted)
        sequence.append(DELETED)
    order = ", ".join(f"{quoted(name)} DESC" for name in sequence)
    over = f"OVER (PARTITION BY {_listed(write.keys)} ORDER BY {order}, {HASH} DESC)"
    version = f"struct({_listed(sequence)})"
    tied = f"lead({version}) {over} <=> {version} AND lead({HASH}) {over} <> {HASH}"
    return frame.selectExpr(
        "*", f"coalesce({tied}, false) AS {TIED}", f"row_number() {over} AS {_PLACE}"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _example(frame: DataFrame, condition: str) -> str:
    return for_example(sample(frame.where(condition).drop(*_OURS)))
