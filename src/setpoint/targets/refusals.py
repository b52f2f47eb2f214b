"""What every destination says no with, in the same words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from setpoint.errors import (
    PermanentError,
    RefusedError,
    SetpointError,
    TransientError,
    UnknownCommitError,
    for_example,
    words_of,
)
from setpoint.model.ports import Fenced
from setpoint.model.run import Statement
from setpoint.model.write import InsertNew
from setpoint.targets.storage import StoredFile


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
    """The commit was taken, or may have been; whatever keeps it from being seen makes it unseen.

    What is known of the commit itself (SP-P…) is told as it is.
    """
    try:
        yield
    except Fenced:
        raise
    except SetpointError as error:
        if error.code.startswith("SP-P"):
            raise
        raise unseen(run, error.what) from error
    except Exception as error:
        raise unseen(run, words_of(error)) from error


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


def refuse_incomplete(
    run: Statement,
    listed: Callable[[str], Iterable[StoredFile]],
    folder: str,
    wanted: Mapping[str, int],
    removed_keys: str = "",
) -> None:
    """Right before a commit: what it names, or was computed from, must be there as it was staged.

    `wanted` are the sizes of files below a folder by their paths, `removed_keys` is the folder of
    one more file, if there is one; a listing of each tells.
    """
    sizes = {file.path: file.size for file in listed(folder)} if wanted else {}
    lost = sorted(path for path, size in wanted.items() if sizes.get(path) != size)
    if removed_keys and not any(file.holds_rows for file in listed(removed_keys)):
        lost.append(removed_keys)
    if not lost:
        return
    raise TransientError(
        "SP-P04",
        f"Staged files of {run.label} are gone, or not as they were written: {len(lost):,} of "
        f"{len(wanted):,}, for example {lost[0]}.",
        why="Readers of the table would fail, or rows would be missing.",
        next="Run again; the new attempt stages afresh. If it happens twice, look for something "
        "that cleans up below the table's folder.",
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
