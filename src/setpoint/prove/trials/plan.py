"""The plan of the clean run, searched as before every run of production."""

from __future__ import annotations

from setpoint.model.determinism import KINDS
from setpoint.model.proof import Result
from setpoint.prove.case import Case


def searched(case: Case) -> Result:
    """Production refuses what would make a second run differ, unless it is allowed by name."""
    judged = case.judged
    if not judged.refused:
        allowed = ", ".join(finding.name for finding, _ in judged.allowed)
        told = f"only what is allowed: {allowed}" if allowed else "nothing in it"
        return Result("plan", "passed", f"searched for what would make runs differ: {told}")
    first = judged.refused[0]
    return Result(
        "plan",
        "failed",
        f"a run is refused: {'; '.join(finding.name for finding in judged.refused)}",
        cause=f"{first}: {KINDS[first.kind][0]}.",
        repair=f"{first.advice[0].upper()}{first.advice[1:]}.",
        findings=judged.refused,
        detail={"cause": first.kind},
    )
