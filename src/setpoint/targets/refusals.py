"""What every destination says no with, in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from setpoint.errors import (
    PermanentError,
    RefusedError,
    TransientError,
    UnknownCommitError,
    for_example,
)
from setpoint.model.run import Statement
from setpoint.model.write import InsertNew


def unseen(run: Statement, cause: str) -> UnknownCommitError:
    """The commit was sent and its answer was not seen."""
    return UnknownCommitError(
        "SP-P02",
        f"It is not known whether the commit of {run.label} landed: {cause}",
        why="A lost answer is neither success nor failure.",
        state="The window holds either its old rows or the new ones, never a mixture.",
        next="Run the same window again; it is always safe. To settle the record only: "
        "setpoint recover",
    )


@contextmanager
def after_commit(run: Statement) -> Iterator[None]:
    """The commit was taken; that the target cannot be looked at now makes it unseen."""
    try:
        yield
    except (TransientError, PermanentError) as error:
        if error.code != "SP-T01":
            raise
        raise unseen(run, error.what) from error


def not_in_table(run: Statement, where: str = "the table's history") -> UnknownCommitError:
    """The commit was taken, and what it should have left is not there."""
    return UnknownCommitError(
        "SP-P02",
        f"The commit of {run.label} was acknowledged, but its receipt is not in the table.",
        why="Somebody may have moved or restored the table in the same moment.",
        state="The window holds either its old rows or the new ones, never a mixture.",
        next=f"Look at {where}, then run the same window again; it is always safe.",
    )


def lost_races(run: Statement, turns: int, last: str = "") -> TransientError:
    """Others were faster again and again, or it looked like it; `last` is what was said then."""
    said = f"; the last time: {last}" if last else ""
    return TransientError(
        "SP-P01",
        f"The commit of {run.label} was refused {turns} times{said}",
        why="Each time the table was no longer what the commit was made for.",
        next="Run again when the table is less busy; it is always safe. If nobody else writes to "
        "it, this is not a race: look at what was said.",
    )


def changed_meanwhile(table: object, what: str) -> TransientError:
    """The stage was made for a table that is another one now."""
    return TransientError(
        "SP-P01",
        f"The {what} of the table {table} changed while the rows were staged.",
        why="The stage was made for the table as it was.",
        next=f"Run again; the new attempt looks at the new {what}.",
    )


def rows_differ(label: str, counted: int, stored: int, stage: str) -> PermanentError:
    """What a job counted is not what its files say; `stage` is what became of it."""
    return PermanentError(
        "SP-P04",
        f"The job of {label} counted {counted:,} rows, but its files hold {stored:,}.",
        why="A task may have run twice, or files may have been removed meanwhile.",
        state=f"The target is unchanged; the stage {stage}.",
        next="Run again; it is always safe. If it happens twice, look for something that "
        "cleans up below the table's folder.",
    )


def contradicts(
    run: Statement, write: InsertNew, count: int, rows: int, *example: object
) -> RefusedError:
    """Events that are stored with other content; without an example if none could be read."""
    return RefusedError(
        "SP-O07",
        f"{count:,} of {rows:,} rows of {run.label} have a key ({', '.join(write.keys)}) that is "
        f"stored with other content.{for_example(example)}",
        why="An event never changes, so one of the two rows is wrong and nothing says which.",
        next='Correct the source, use Merge for rows that change, or say conflicts="keep" to keep '
        "the stored rows and report the others.",
    )


def kept_stored(count: int) -> tuple[str, ...]:
    """The note about events that are stored with other content, where they may stay."""
    said = f"{count:,} rows have a key that is stored with other content; the stored are kept"
    return (said,) if count else ()


def no_slice_column(table: object, column: str) -> RefusedError:
    """The table lacks the column that the windows go by."""
    return RefusedError(
        "SP-T02",
        f"The table {table} has no column {column}.",
        why="It is the column that says which window a row belongs to.",
        next="Correct partition_by or time of the pipeline's target.",
    )


def holds_live_rows(location: str, uri: str) -> PermanentError:
    """A stage that was asked to be removed is what readers read."""
    return PermanentError(
        "SP-P04",
        f"The stage {location} holds live rows of {uri}.",
        why="Removing it would lose published rows.",
        state="Nothing was removed.",
        next="Please report this with the output of: setpoint doctor",
    )
