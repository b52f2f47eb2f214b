"""What is checked while rows are staged: counted in the same job, refused right after it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from setpoint.errors import RefusedError, for_example
from setpoint.model.audit import Audit, rides_along
from setpoint.model.run import Run, Statement
from setpoint.model.slice import NULL_PARTITION
from setpoint.model.write import KEYED, DeleteInsert, Merge, Overwrite
from setpoint.spark.audits import sample, violation
from setpoint.spark.batch import DELETED, TIED, Batch
from setpoint.spark.contents import HASH, quoted, row_hash
from setpoint.spark.expressions import Expression, any_null, is_not_true, unless
from setpoint.spark.failures import explain, is_passing, root_cause
from setpoint.spark.stage import Observed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OUTSIDE = "outside"


class Checks:
    """The rows to stage, and the counts that tell whether they may be published.

    `frame` holds the rows as the write pattern takes them: of a keyed write, one per key. Its
    columns `ours` are not the table's: they are there for the counts and the fingerprint.
    `required` are the columns that must not be null, `answered` the positions of row-level
    audits that somebody else answers, `partition_by` the columns whose values name folders.
    """

    def __init__(
        self,
        given: DataFrame,
        run: Statement,
        audits: Sequence[Audit],
        *,
        condition: str | None,
        required: Sequence[str],
        answered: Collection[int] = (),
        partition_by: Sequence[str] = (),
    ) -> None:
        write = run.pipeline.write
        self._run, self._condition, self._required = run, condition, tuple(required)
        self.row_level = {n: audit for n, audit in enumerate(audits) if rides_along(audit)}
        self._counted = [n for n in self.row_level if n not in answered]
        if isinstance(write, DeleteInsert):
            refuse_unless_condition(given, write.where, run)
        if isinstance(write, Merge) and write.delete_when is not None:
            refuse_unless_condition(given, write.delete_when, run)
        self._named = [
            name for name in partition_by if isinstance(given.schema[name].dataType, T.StringType)
        ]
        self.batch = Batch(given, write, run) if isinstance(write, KEYED) else None
        if self.batch is not None:
            self.frame, self.ours = self.batch.frame, [HASH, TIED]
        elif isinstance(run, Run):
            self.frame, self.ours = given.withColumn(HASH, row_hash(given.schema)), [HASH]
        else:
            self.frame, self.ours = given, []  # each window has a fingerprint of its own
        self.removes = DELETED in self.frame.columns
        self.counts = self._counts(given)

    def refuse(self, observed: Observed) -> None:
        """Refuse rows that were counted as unfit while they were staged."""
        if self.batch is not None:
            self.batch.refuse(observed.counts[TIED])
        if self._condition is not None and observed.counts[OUTSIDE]:
            rows = self.frame.drop(*self.ours)
            raise outside(rows, self._run, self._condition, observed.counts[OUTSIDE], observed.rows)
        for name in self._required:
            if count := observed.counts[f"null {name}"]:
                raise required(self._run, name, count, observed.rows)
        for name in self._named:
            if count := observed.counts[f"nameless {name}"]:
                raise nameless(self._run, name, count, observed.rows)

    def violations(self, observed: Observed) -> dict[int, int]:
        """The violations of the row-level audits that were counted, by position."""
        return {n: observed.counts[f"audit {n}"] for n in self._counted}

    def quarantined(self) -> int:
        return self.batch.incoming.quarantined() if self.batch else 0

    def notes(self, observed: Observed) -> tuple[str, ...]:
        if self.batch is None:
            return ()
        return self.batch.incoming.notes(observed.rows, observed.counts[TIED])

    def _counts(self, given: DataFrame) -> dict[str, Expression]:
        counts: dict[str, Expression] = {}
        if self._condition is not None:
            counts[OUTSIDE] = is_not_true(self._condition)
        unfit: dict[str, Expression] = {f"null {name}": any_null([name]) for name in self._required}
        unfit |= {f"nameless {name}": _nameless(quoted(name)) for name in self._named}
        unfit |= {f"audit {n}": violation(self.row_level[n], given.schema) for n in self._counted}
        if self.removes:
            unfit = {name: unless(condition, DELETED) for name, condition in unfit.items()}
        counts |= unfit
        return counts | {f: quoted(f) for f in (TIED, DELETED) if f in self.frame.columns}


def _nameless(column: str) -> str:
    """Texts that a folder's name cannot tell from null, whatever the column's collation."""
    return f"collate({column}, 'UTF8_BINARY') IN ('', '{NULL_PARTITION}')"


def refuse_unless_condition(frame: DataFrame, condition: str, run: Statement) -> None:
    """Refuse a text that is no condition by itself, before it stands beside another.

    Between parentheses `a) OR (b` would be one, and would mean other rows.
    """
    try:
        _ = frame.where(condition).schema
    except Exception as error:
        if is_passing(error):
            raise explain(error, f"looking at the condition of {run.label}") from error
        raise RefusedError(
            "SP-D09",
            f"Spark cannot evaluate the condition {condition!r:.200} of {run.label}: "
            f"{root_cause(error)}",
            why="It says which rows the write is about.",
            next="Correct the condition, then run again.",
        ) from error


def outside(
    frame: DataFrame, run: Statement, condition: str, count: int, rows: int
) -> RefusedError:
    """Rows for which the condition of the write does not hold."""
    example = for_example(sample(frame.where(is_not_true(condition))))
    window = isinstance(run.pipeline.write, Overwrite)
    where = "the window" if window else "the rows that the write replaces"
    column = run.pipeline.target.slice_column
    return RefusedError(
        "SP-O02",
        f"{count:,} of {rows:,} rows of {run.label} lie outside {where}: "
        f"{condition} does not hold.{example}",
        why="Publishing them would change another window's slice."
        if window
        else "The next run would not replace them, so they would be there twice.",
        state="The target is unchanged; the stage was dropped.",
        next=f"Clip the result to the window; for a day pipeline {column} = window.date."
        if window
        else "Return only rows for which the condition holds, or correct it.",
    )


def required(run: Statement, name: str, count: int, rows: int) -> RefusedError:
    """Nulls in a column that the target does not let be null."""
    return RefusedError(
        "SP-O04",
        f"{name} is null in {count:,} of {rows:,} rows of {run.label}, "
        "but the target says NOT NULL.",
        state="The target is unchanged; the stage was dropped.",
        next="Correct the pipeline, then run again.",
    )


def nameless(run: Statement, name: str, count: int, rows: int) -> RefusedError:
    """Texts in a partition column that cannot be told from null."""
    return RefusedError(
        "SP-O05",
        f"The partition column {name} is an empty text or {NULL_PARTITION} in {count:,} of "
        f"{rows:,} rows of {run.label}.",
        why="The table has one name for these texts and for null there, so they would come back "
        "as null.",
        state="The target is unchanged; the stage was dropped.",
        next="Write another text, or null.",
    )
