"""What can go wrong with any source, in the words of all of them."""

from __future__ import annotations

from setpoint.errors import PermanentError, RefusedError, SetpointError, some_of
from setpoint.model.grain import Grain
from setpoint.model.slice import SliceRule


def unreadable(label: str, error: Exception) -> SetpointError:
    """Spark could not make a frame of the source."""
    from setpoint.spark.failures import explain

    return explain(error, f"reading {label}", code="SP-R01")


def missing(name: str, label: str, what: str) -> PermanentError:
    """There is nothing to read."""
    return PermanentError(
        "SP-R01",
        f"The source {name} ({label}) is not there: {what}.",
        why="Reading nothing would leave an empty slice that looks like a result.",
        next="Wait for its writer or correct the source, then run again.",
    )


def changed(name: str, label: str, what: str) -> PermanentError:
    """The source is not what it was when the read began.

    No retry follows at once: it would meet its writer half-way again.
    """
    return PermanentError(
        "SP-R04",
        f"The source {name} ({label}) changed while it was read: {what}.",
        why="Some rows would be of before the change and some of after it.",
        next="Run again when its writer has ended; the run reads it afresh.",
    )


def gone(name: str, label: str, what: str, because: str) -> PermanentError:
    """What the last publish has read cannot be read again."""
    return PermanentError(
        "SP-R05",
        f"{what} of the source {name} ({label}) cannot be read again: {because.rstrip('.')}.",
        why="--as-published reads what the last publish has read, and nothing else.",
        next="Leave --as-published out to read the source as it is now, or land it: "
        "source(land(...)).",
    )


def clip_rule(
    name: str, label: str, column: str, kinds: dict[str, str], every: Grain, timezone: str
) -> SliceRule:
    """How a window is found in a source; `kinds` are its columns with their types."""
    if column not in kinds:
        raise RefusedError(
            "SP-R02",
            f"The source {name} ({label}) has no column {column}; it has {some_of(kinds, column)}.",
            why="The read is clipped to the window on that column.",
            next="Correct time= of the source.",
        )
    try:
        return SliceRule.of(column, kinds[column], every, timezone)
    except SetpointError as error:
        raise RefusedError(
            "SP-R02",
            f"The source {name} ({label}) cannot be clipped to a window: {error.what}",
            why="Each run would read rows of other windows too.",
            next="Give a timestamp column as time=, or run the pipeline less often.",
        ) from error
