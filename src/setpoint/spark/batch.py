"""The batch of a keyed write: one row per key, chosen the same way on every run.

Of the rows under one key the greatest counts: by `sequence_by` first, then a removal before a
row that stays, then by the order of the whole row. The order is total, so it does not matter
how rows are spread over batches, nor in which order the batches come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from setpoint.errors import RefusedError
from setpoint.model.run import Run
from setpoint.model.write import InsertNew, Merge
from setpoint.spark.audits import sample
from setpoint.spark.contents import quoted
from setpoint.spark.ordering import order_sql
from setpoint.spark.stage import metrics_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELETED = "__setpoint_deleted"
TIED = "__setpoint_tied"
_ORDER = "__setpoint_order"
_PLACE = "__setpoint_place"
_OURS = (DELETED, TIED, _ORDER, _PLACE)


@dataclass(frozen=True)
class Incoming:
    """What came in, counted while the batch was computed."""

    rows: int
    null_keys: int
    null_sequences: int


class Batch:
    """The rows of a keyed write with duplicates resolved.

    `frame` has the columns of the given frame and `TIED`: for a Merge, rows that were chosen
    from several with one sequence; for an InsertNew, rows with a contradicting twin. With
    `delete_when` it has `DELETED` too. Nothing is computed before `frame` is written.
    """

    def __init__(self, given: DataFrame, write: Merge | InsertNew, run: Run) -> None:
        self._write, self._run = write, run
        self._observation = Observation()
        self.null_key = any_null(write.keys)
        self._given = given
        self.frame = self._resolved(given)

    def incoming(self) -> Incoming:
        """The counts; asked for after the frame was written."""
        found = metrics_of(self._observation)
        return Incoming(
            rows=int(found.get("rows") or 0),
            null_keys=int(found.get("null_keys") or 0),
            null_sequences=int(found.get("null_sequences") or 0),
        )

    def refuse_nulls(self) -> None:
        """Refuse rows that have no key, or no place in the order of their key's versions."""
        found, write = self.incoming(), self._write
        if found.null_keys and write.null_keys == "refuse":
            raise RefusedError(
                "SP-O06",
                f"The key ({', '.join(write.keys)}) holds a null in {found.null_keys:,} of "
                f"{found.rows:,} rows of {self._run.label}.{self._example(self.null_key)}",
                why="Null equals nothing, so such a row would be inserted again on every run.",
                state="The target is unchanged; the stage was dropped.",
                next='Correct the rows, or say null_keys="quarantine" to put them aside, or '
                'null_keys="allow" to take null as a value.',
            )
        if found.null_sequences and isinstance(write, Merge):
            raise RefusedError(
                "SP-O06",
                f"sequence_by ({', '.join(write.sequence)}) holds a null in "
                f"{found.null_sequences:,} of {found.rows:,} rows of {self._run.label}."
                f"{self._example(any_null(write.sequence))}",
                why="Without it nothing says which row of a key is the latest.",
                state="The target is unchanged; the stage was dropped.",
                next="Fill the column, for example with coalesce(updated_at, created_at).",
            )

    def quarantined(self) -> int:
        """How many rows were left out of the batch for a null in their key."""
        return self.incoming().null_keys if self._write.null_keys == "quarantine" else 0

    def notes(self, rows: int, tied: int) -> tuple[str, ...]:
        """What was decided on the way, in words."""
        found, notes = self.incoming(), []
        dropped = found.rows - rows - self.quarantined()
        if dropped:
            notes.append(f"{dropped:,} of {found.rows:,} rows were older versions or duplicates")
        if tied and isinstance(self._write, Merge):
            notes.append(
                f"{tied:,} keys had several rows with the same sequence_by "
                f"({', '.join(self._write.sequence)}); the greatest row was taken. A further "
                "column in sequence_by would decide by meaning"
            )
        return tuple(notes)

    def refuse_contradictions(self, tied: int) -> None:
        """Refuse a batch of events that holds two different rows under one key."""
        if not tied or not isinstance(self._write, InsertNew):
            return
        raise RefusedError(
            "SP-O07",
            f"{tied:,} keys ({', '.join(self._write.keys)}) of {self._run.label} have rows that "
            f"differ.{self._example(F.col(TIED), self.frame)}",
            why="An event never changes, so one of the rows is wrong and nothing says which.",
            state="The target is unchanged; the stage was dropped.",
            next="Add what tells them apart to the key, or use Merge with a sequence_by column.",
        )

    def _resolved(self, given: DataFrame) -> DataFrame:
        write = self._write
        nothing = F.lit(False)
        null_sequence = any_null(write.sequence) if isinstance(write, Merge) else nothing
        observed = given.observe(
            self._observation,
            F.count(F.lit(1)).alias("rows"),
            F.count_if(self.null_key).alias("null_keys"),
            F.count_if(null_sequence).alias("null_sequences"),
        )
        if write.null_keys == "quarantine":
            observed = observed.where(~self.null_key)
        frame = observed.withColumn(_ORDER, F.expr(order_sql(given.schema)))
        keys = [F.col(quoted(name)) for name in write.keys]
        if isinstance(write, InsertNew):
            frame = frame.withColumn(
                TIED, F.min(_ORDER).over(Over.partitionBy(*keys)) != F.col(_ORDER)
            )
            ranked = Over.partitionBy(*keys).orderBy(F.col(_ORDER).desc())
        else:
            versions = [F.col(quoted(name)) for name in write.sequence]
            if write.delete_when is not None:
                deleted = F.coalesce(F.expr(write.delete_when), nothing)
                frame = frame.withColumn(DELETED, deleted)
                versions.append(F.col(DELETED))
            order = [*(column.desc() for column in versions), F.col(_ORDER).desc()]
            ranked = Over.partitionBy(*keys).orderBy(*order)
            version = F.struct(*versions)
            frame = frame.withColumn(
                TIED,
                F.lead(version).over(ranked).eqNullSafe(version)
                & (F.lead(_ORDER).over(ranked) != F.col(_ORDER)),
            )
        place = F.row_number().over(ranked)
        frame = frame.withColumn(TIED, F.coalesce(F.col(TIED), nothing)).withColumn(_PLACE, place)
        return frame.where(F.col(_PLACE) == 1).drop(_PLACE, _ORDER)

    def _example(self, condition: Column, frame: DataFrame | None = None) -> str:
        found = sample((frame if frame is not None else self._given).where(condition))
        if not found:
            return ""
        row = {name: value for name, value in found[0].items() if name not in _OURS}
        return f" For example: {row}."


def any_null(columns: Sequence[str]) -> Column:
    """Whether one of the columns is null."""
    return reduce(or_, (F.col(quoted(name)).isNull() for name in columns))
