"""From what was seen to the likely cause in words, and what to write instead.

Rules in a table, the most specific first. One about the number of rows comes before those about
columns, and each changed column gets the first rule that has something to say about it. Nothing
is claimed that was not seen: where no rule speaks, the answer is what was seen, and no cause.
"""

from __future__ import annotations

from collections.abc import Sequence

from setpoint.model.determinism import KINDS, ROWS, Finding
from setpoint.prove import columncauses, rowcauses
from setpoint.prove.evidence import Cause, Evidence, Varied, lint_of

__all__ = ["Cause", "Evidence", "Varied", "explain", "lint_of", "refused"]

UNKNOWN = "unknown"
_COLUMNS = 3


def explain(seen: Evidence) -> Cause:
    """The likely cause of a difference; of kind `unknown` when nothing points to one."""
    for rule in rowcauses.RULES:
        if (cause := rule(seen)) is not None:
            return cause
    told = _by_column(seen)
    planned = _which_rows(seen)
    # What the plan says about rows is more than what the values of a column look like.
    guessed = seen.varied.parallelism and not any(cause.findings for cause in told)
    if planned is not None and (seen.growth or guessed or not told):
        return planned
    if told:
        return _together(told, len(seen.difference.columns))
    rows = planned or rowcauses.varied_rows(seen)
    return rows or _by_lint(seen) or _outside(seen) or _unknown(seen)


def refused(findings: Sequence[Finding]) -> Cause | None:
    """The cause when production would refuse to run the pipeline at all; None without findings."""
    if not findings:
        return None
    first = findings[0]
    return Cause(
        first.kind,
        f"The determinism check refuses this pipeline: {first}, and {KINDS[first.kind][0]}.",
        f"{first.advice[0].upper()}{first.advice[1:]}.",
        tuple(findings),
    )


def _by_column(seen: Evidence) -> list[Cause]:
    found = []
    for change in seen.difference.columns:
        for rule in columncauses.RULES:
            if (cause := rule(seen, change)) is not None:
                found.append(cause)
                break
    return found


def _together(told: list[Cause], changed: int) -> Cause:
    """The causes of several columns as one, the first of them giving it its kind."""
    first = told[:_COLUMNS]
    rest = changed - len(first)
    more = [f"{rest} more {'column differs' if rest == 1 else 'columns differ'}."] if rest else []
    return Cause(
        first[0].kind,
        " ".join([*(cause.cause for cause in first), *more]),
        " ".join(dict.fromkeys(cause.repair for cause in first)),
        tuple(dict.fromkeys(finding for cause in told for finding in cause.findings)),
        tuple(dict.fromkeys(finding for cause in told for finding in cause.lint)),
    )


def _which_rows(seen: Evidence) -> Cause | None:
    """The plan says that it does not say which rows are returned."""
    planned = seen.planned(ROWS)
    if planned is None:
        return None
    found = seen.difference
    return Cause(
        planned.kind,
        f"{found.missing:,} rows are missing and {found.added:,} are new, and the plan does not "
        f"say which rows are returned: {planned.expression}, {KINDS[planned.kind][0]}.",
        f"{planned.advice[0].upper()}{planned.advice[1:]}.",
        (planned,),
    )


def _by_lint(seen: Evidence) -> Cause | None:
    """Nothing in the rows points anywhere, but lint has something to say about the script."""
    if not seen.lint:
        return None
    first = seen.lint[0]
    return Cause(
        first.kind,
        f"{seen.difference.summary}. What was seen points to no one cause, but lint finds in the "
        f"script, at line {first.line}: {first.message}",
        first.repair,
        lint=seen.lint,
    )


def _outside(seen: Evidence) -> Cause | None:
    """Nothing was different but that it ran again, and neither plan nor code says more."""
    if seen.varied != Varied(again=seen.varied.again) or not seen.varied.again:
        return None
    return Cause(
        "outside",
        f"{seen.difference.summary}. Nothing was different but that it ran again: likely the code "
        "reads something that is not an input (a service, a file, a variable that outlives the "
        "call).",
        "Make it an input, so that it is pinned or landed, or a parameter of the run.",
    )


def _unknown(seen: Evidence) -> Cause:
    repair = "Look at the example rows, and at what the pipeline reads besides its inputs."
    cause = f"{seen.difference.summary}. What was seen points to no one cause."
    return Cause(UNKNOWN, cause, repair)
