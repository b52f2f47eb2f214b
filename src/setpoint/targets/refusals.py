"""What every destination says no with, in the same words."""

from __future__ import annotations

from setpoint.errors import PermanentError, RefusedError, UnknownCommitError
from setpoint.model.run import Run


def misfit(
    label: str,
    what: str,
    next: str = "Correct the pipeline or the target, then run again.",
    *,
    code: str = "SP-O03",
) -> RefusedError:
    """The pipeline's columns are not the target's."""
    return RefusedError(
        code,
        f"The columns of {label} do not fit its target: {what}.",
        why="A publish must not change what readers of the other windows see.",
        next=next,
    )


def unseen(run: Run, cause: str) -> UnknownCommitError:
    """The commit was sent and its answer was not seen."""
    return UnknownCommitError(
        "SP-P02",
        f"It is not known whether the commit of {run.label} landed: {cause}",
        why="A lost answer is neither success nor failure.",
        state="The window holds either its old rows or the new ones, never a mixture.",
        next="Run the same window again; it is always safe. To settle the record only: "
        "setpoint recover",
    )


def holds_live_rows(location: str, uri: str) -> PermanentError:
    """A stage that was asked to be removed is what readers read."""
    return PermanentError(
        "SP-P04",
        f"The stage {location} holds live rows of {uri}.",
        why="Removing it would lose published rows.",
        state="Nothing was removed.",
        next="Please report this with the output of: setpoint show",
    )
