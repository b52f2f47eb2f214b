"""The same window again: as a scheduler repeats it, and as somebody restates it."""

from __future__ import annotations

from setpoint.model.proof import Result
from setpoint.prove.case import Case
from setpoint.prove.causes import Varied
from setpoint.prove.trial import TARGET, Committed


def twice(case: Case) -> Result:
    """A second run finds the window as it should be, and commits nothing."""
    return _again(case, "twice", 1, "run twice")


def thrice(case: Case) -> Result:
    """So do a second and a third."""
    return _again(case, "thrice", 2, "run three times")


def _again(case: Case, name: str, times: int, message: str) -> Result:
    trial = case.begun(name)
    empty = trial.committed(case.window)
    trial.run(case.window)
    before = trial.committed(case.window)
    if case.sandbox.pipeline.target.kind == "delta" and (told := _commits(empty, before)):
        return Result(name, "failed", told, table=TARGET)
    trial.run(*[case.window] * times)
    result = case.compared(name, trial, message, varied=Varied(again=times))
    if result.state == "failed":
        return result
    return case.untouched(name, trial, before, [case.window], message) or result


def _commits(before: Committed, after: Committed) -> str:
    """What is wrong with the versions that a publish made; Delta Lake counts them one by one.

    A removal that slips in beside a merge is the only reason for a second commit, and nobody
    else writes here.
    """
    first = -1 if before.version is None else before.version
    made = (first if after.version is None else after.version) - first
    if made == 1:
        return ""
    return f"one publish is {made} commits: a crash between them leaves rows without a receipt"


def forced(case: Case) -> Result:
    """Computed and published again, the rows are the same ones."""
    trial = case.begun("forced", run=True)
    trial.run(case.window, force=True)
    return case.compared("forced", trial, "published again", varied=Varied(again=1))
