"""Failures inside the process: at every crash point, and of the commit's answer."""

from __future__ import annotations

from setpoint.errors import SetpointError
from setpoint.flow.faults import POINTS, RaisedFault
from setpoint.model.proof import Result
from setpoint.prove.case import Case
from setpoint.prove.causes import Varied
from setpoint.prove.trial import TARGET, Trial

# A failure inside a step is a kill: see the experiment `killed`. Landing is done before a proof.
_ELSEWHERE = ("staging", "landed")
_BEFORE = ("resolved", "read", "staged", "audited")


def failures(case: Case) -> Result:
    """Whatever fails before the commit leaves nothing; whatever fails after it, the window."""
    points = [point for point in POINTS if point not in _ELSEWHERE]
    early = case.begun("failures")
    untouched = early.committed(case.window)
    for point in _BEFORE:
        _fail(case, early, f"{point}:raise")
        told = f"failed at {point}"
        if result := case.untouched("failures", early, untouched, [case.window], told):
            return result
    for number, point in enumerate(point for point in points if point not in _BEFORE):
        trial = early if number == 0 else case.begun(f"failures-{point}")
        _fail(case, trial, f"{point}:raise")
        trial.run(case.window)
        tried = (*_BEFORE, point) if number == 0 else (point,)
        message = f"failed at {', '.join(tried)}, then retried"
        varied = Varied(killed=" and ".join(tried))
        result = case.compared("failures", trial, message, varied=varied)
        if result.state == "failed":
            return result
    message = f"failed at {len(points)} points, retried after each: the same rows"
    return Result("failures", "passed", message, detail={"points": points})


def lost_answer(case: Case) -> Result:
    """A commit without an answer is settled by what the table says, whether it landed or not."""
    for name, fault in (("lost-answer", "committed:lose"), ("lost-commit", "audited:lose")):
        trial = case.begun(name)
        try:
            trial.run(case.window, fault=fault)
        except SetpointError as error:
            if error.code != "SP-P02":
                raise
            if fault.startswith("committed"):
                told = "answer lost after the commit landed: the run did not ask the table"
                return Result("lost-answer", "failed", f"{told}. {error.what}", table=TARGET)
        trial.run(case.window)
        landed = "after" if fault.startswith("committed") else "before"
        message = f"answer lost {landed} the commit landed, then retried"
        result = case.compared("lost-answer", trial, message, varied=Varied(killed="the commit"))
        if result.state == "failed":
            return result
    return Result("lost-answer", "passed", "answer lost, then retried: the same rows")


def _fail(case: Case, trial: Trial, fault: str) -> None:
    """Run the window into a fault; that it was met is part of the experiment."""
    try:
        trial.run(case.window, fault=fault)
    except RaisedFault:
        return
    raise AssertionError(f"the crash point of {fault} was not reached")
