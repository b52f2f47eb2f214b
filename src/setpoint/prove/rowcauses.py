"""Causes that show in the number of rows: appends, lost rows, wiped neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from setpoint.model.determinism import ROWS
from setpoint.prove.evidence import Cause, Evidence

_REPLACE = (
    "Replace the window's slice or merge by a key, in one commit: setpoint.publish(...) does "
    "either, and so does a pipeline's write pattern."
)


def wiped_neighbours(seen: Evidence) -> Cause | None:
    """Rows of other windows are gone."""
    gone = seen.difference.missing - seen.difference.added
    if not seen.outside or gone <= 0:
        return None
    lint = seen.lines_of("static-overwrite", "grain-mismatch")
    return Cause(
        "wiped-neighbours",
        f"{_rows(gone)} outside the window are gone: the overwrite likely replaces more than the "
        "window's own slice, the whole table or a coarser partition.",
        "Replace the window's slice only: Overwrite() with a partition of the window's grain; in "
        "plain Spark replaceWhere, or partitionOverwriteMode=dynamic with care for empty results.",
        lint=lint,
    )


def shared_key(seen: Evidence) -> Cause | None:
    """Some rows of other windows are gone, others are still there."""
    found = seen.difference
    gone = found.missing - found.added
    if not seen.outside or seen.beyond or gone <= 0 or not found.rows_found:
        return None
    return Cause(
        "shared-key",
        f"{_rows(gone)} outside the window are gone and {found.rows_found:,} are still there: "
        "likely rows of both windows have one key, because it does not tell them apart (parts "
        "joined into one text, ids that are given out again) or the write replaces too much.",
        "Make the key of all columns that tell rows apart, encoded without ambiguity: "
        "setpoint.surrogate_key(frame, key), or a hash of json.dumps([...]).",
        lint=seen.lines_of("static-overwrite", "grain-mismatch"),
    )


def touched_neighbours(seen: Evidence) -> Cause | None:
    """Rows of other windows changed or came."""
    if not seen.outside:
        return None
    found = seen.difference
    return Cause(
        "touched-neighbours",
        f"Rows outside the window changed: {found.missing:,} are not there any more, "
        f"{found.added:,} are new. The write likely reaches further than the window.",
        "Filter the input by the window, and replace the same slice that is written.",
    )


def both_wrote(seen: Evidence) -> Cause | None:
    """Two runs at once left the rows of both."""
    if not seen.varied.together or seen.growth <= 0:
        return None
    exactly = ", exactly what one run writes" if seen.growth == seen.batch else ""
    return Cause(
        "both-wrote",
        f"The row count grew by {seen.growth:,}{exactly}: two runs of the window at once both "
        "wrote, and likely nothing keeps them apart.",
        "Let the target decide who is first: a fence or lock in the same commit as the rows. "
        + _REPLACE,
        lint=seen.lines_of("append-write", "non-atomic-delete-insert"),
    )


def attempt_left_behind(seen: Evidence) -> Cause | None:
    """The rows of the killed attempt stayed beside those of the retry."""
    if not seen.varied.killed or seen.growth <= 0:
        return None
    if seen.left and seen.growth == seen.left:
        what = f"exactly the {seen.left:,} that the attempt had written before it was ended"
    elif seen.growth == seen.batch:
        what = "exactly what one run writes"
    elif seen.batch and seen.growth < seen.batch:
        what = "a part of what one run writes"
    else:
        return None
    return Cause(
        "attempt-left-behind",
        f"The row count grew by {seen.growth:,}, {what}: the rows of the attempt that was ended at "
        f"{seen.varied.killed} stayed, and the retry likely appends to them.",
        _REPLACE,
        lint=seen.lines_of("append-write", "retry-around-append", "non-atomic-delete-insert"),
    )


def appended(seen: Evidence) -> Cause | None:
    """The table grew by what a run writes."""
    if seen.growth <= 0 or seen.outside:
        return None
    runs = seen.varied.again
    if seen.batch and seen.growth % seen.batch == 0:
        times = seen.growth // seen.batch
        each = "one more run writes" if times == 1 else f"{times} more runs write"
        said = f"exactly what {each}"
    elif runs and seen.difference.repeated == seen.difference.added:
        said = "all of them rows that were there already"
    elif runs and not seen.difference.missing:
        said = "and no row that was there is gone or has changed"
    else:
        return None
    return Cause(
        "appended",
        f"The row count grew by {seen.growth:,}, {said}: the write likely appends.",
        _REPLACE,
        lint=seen.lines_of("append-write", "retry-around-append"),
    )


def null_key(seen: Evidence) -> Cause | None:
    """Only rows without a value in some column came again: a key with a null is never found."""
    found = seen.difference
    if not seen.varied.again or seen.growth <= 0 or seen.outside or found.missing:
        return None
    if seen.batch and seen.growth >= seen.batch:
        return None
    added = [row.found for row in found.examples if row.found is not None]
    without = [
        name for name in (added[0] if added else ()) if all(_null(row, name) for row in added)
    ]
    if not without:
        return None
    return Cause(
        "null-key",
        f"The row count grew by {seen.growth:,}, and every row that came again is null in "
        f"`{without[0]}`: likely the write goes by that key, and null is equal to nothing.",
        "Refuse or quarantine rows with a null in the key; in PostgreSQL UNIQUE NULLS NOT "
        "DISTINCT, in a MERGE the null-safe <=>.",
    )


def _null(row: Mapping[str, str], name: str) -> bool:
    return row.get(name, "").lower() == "null"


def lost_rows(seen: Evidence) -> Cause | None:
    """Rows are missing after an attempt was ended and the run was retried, or two ran at once."""
    lost = -seen.growth
    if lost <= 0 or seen.outside or not (seen.varied.killed or seen.varied.together):
        return None
    all_of_it = ", all that a run writes," if lost == seen.batch else ""
    when = (
        f"after an attempt was ended at {seen.varied.killed}"
        + (" and retried" if seen.varied.retried else "")
        if seen.varied.killed
        else "after two runs at once"
    )
    mark = seen.lines_of("split-state")
    if mark:
        return Cause(
            "mark-without-rows",
            f"{_rows(lost)}{all_of_it} are missing {when}: the high-water mark was likely saved "
            "before the rows, so that the retry skipped them.",
            "Save the mark in the same transaction as the rows; an incremental pipeline of "
            "setpoint has it in the commit.",
            lint=mark,
        )
    if seen.varied.killed and seen.varied.retried and seen.batch and lost < seen.batch:
        return Cause(
            "mark-skips-rows",
            f"{_rows(lost)} of {seen.batch:,} are missing {when}: the retry likely goes on from a "
            "mark, and the mark says more than what was committed. A mark of max(updated_at) with "
            "> skips the rows that share the last timestamp.",
            "Read with >= and write by key, or make the mark unique (timestamp and key); save it "
            "in the transaction of the rows.",
        )
    return Cause(
        "delete-without-insert",
        f"{_rows(lost)}{all_of_it} are missing {when}: likely something was committed before the "
        "rows were, a DELETE without its INSERT or a mark that made the retry skip them.",
        "Put the DELETE, the INSERT and any mark into one transaction.",
        lint=seen.lines_of("non-atomic-delete-insert"),
    )


def lost_by_order(seen: Evidence) -> Cause | None:
    """A window that is run again takes rows of another one away."""
    if not seen.varied.order or seen.outside or seen.growth >= 0:
        return None
    return Cause(
        "lost-rows",
        f"{_rows(-seen.growth)} are missing after the windows ran in another order "
        f"({seen.varied.order}): likely the write of one window reaches into another, by a row "
        "that belongs there or by a partition that both share.",
        "Write the rows of the window only, and replace its slice only: Overwrite() refuses a row "
        "outside the window.",
        lint=seen.lines_of("static-overwrite", "grain-mismatch"),
    )


def drawn_rows(seen: Evidence) -> Cause | None:
    """A second run leaves other rows in the place of those of the first."""
    found = seen.difference
    new = found.added - found.repeated
    if not seen.varied.again or seen.outside or found.columns or not (found.missing and new > 0):
        return None
    if any(item.column == ROWS for item in seen.findings):
        return None  # the plan knows more
    return Cause(
        "drawn-rows",
        f"{_rows(found.missing)} of the first run are gone and {new:,} others have come, although "
        "nothing was different: likely every run draws anew which rows it takes (random(), a "
        "sample, a LIMIT without an order).",
        "Filter by a hash of the key, and end every order with columns that make a row unique.",
        lint=seen.lines_of("random-id", "unordered-pick"),
    )


def not_repeatable_delete(seen: Evidence) -> Cause | None:
    """A second run has fewer rows than the first."""
    if seen.growth >= 0 or seen.outside or not seen.varied.again:
        return None
    return Cause(
        "second-run-lost-rows",
        f"{_rows(-seen.growth)} are missing after the window was run again: likely the second run "
        "reads less than the first, because of a mark, a status flag or the day of the run.",
        "Bound every read by the window, and keep marks in the same commit as the rows.",
        lint=seen.lines_of("split-state", "relative-now-read", "unbounded-read"),
    )


def varied_rows(seen: Evidence) -> Cause | None:
    """Which rows there are changes with what was varied, and no column says more."""
    varied = seen.varied
    found = seen.difference
    rows = f"{found.missing:,} rows are missing and {found.added:,} are new"
    if varied.parallelism:
        return Cause(
            "pick",
            f"{rows} with other parallelism: likely nothing says which rows are kept or which of "
            "several is taken (a sample, a limit, dropDuplicates, an order with ties).",
            "Filter by a hash of the key instead of a sample; end every order with columns that "
            "make a row unique, or use setpoint.dedupe(frame, key, order_by).",
            lint=seen.lines_of("unordered-pick", "unstable-order-key"),
        )
    if varied.clock:
        return Cause(
            "clock",
            f"{rows} on another day of the wall clock: likely what is read depends on the day of "
            "the run.",
            "Bound every read by window.start and window.end.",
            lint=seen.lines_of("relative-now-read", "wall-clock", "unbounded-read"),
        )
    if varied.order or varied.chunk:
        how = f"in another order ({varied.order})" if varied.order else "in one chunk"
        return Cause(
            "order" if varied.order else "chunk",
            f"{rows} when the windows run {how}: likely a window depends on what others left in "
            "the target, or reads rows of its neighbours.",
            "Compute a window from its inputs alone; previous(...) names the window before.",
        )
    return None


def changed_schema(seen: Evidence) -> Cause | None:
    """The columns themselves are others; of a folder without files there is nothing to say."""
    emptied = seen.difference.rows_expected and not seen.difference.rows_found
    if not seen.difference.schema or emptied:
        return None
    return Cause(
        "columns",
        f"The columns are not the same: {'; '.join(seen.difference.schema)}.",
        "Select columns by name and cast them, so that no row decides what they are.",
    )


RULES: tuple[Callable[[Evidence], Cause | None], ...] = (
    changed_schema,
    shared_key,
    wiped_neighbours,
    touched_neighbours,
    both_wrote,
    attempt_left_behind,
    null_key,
    appended,
    lost_rows,
    lost_by_order,
    drawn_rows,
    not_repeatable_delete,
)


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"
