"""Processes that are killed at a crash point, and the run that is tried again after them."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from setpoint.errors import PermanentError
from setpoint.flow.faults import ALWAYS
from setpoint.model.proof import Result
from setpoint.prove.case import Case
from setpoint.prove.causes import Varied
from setpoint.prove.children import Part, at_once, why_no_process
from setpoint.prove.trial import TARGET, Trial

# Before and after the commit: where it matters most.
QUICK = ("staged", "committed")


def killed(case: Case) -> Result:
    """SIGKILL at a crash point leaves all of the window or nothing; a retry leaves the window."""
    if why := why_no_process(case):
        return Result("killed", "skipped", why)
    points = ALWAYS if case.full else QUICK
    for some in _by(points, at_once(case)):
        for point, part in _killed_at(case, some):
            result = _retried(case, point, part)
            if result.state == "failed":
                return result
    told = f"killed at {', '.join(points)}, retried after each: the same rows"
    return Result("killed", "passed", told, detail={"points": list(points)})


def _killed_at(case: Case, points: Sequence[str]) -> Iterator[tuple[str, Part]]:
    """Processes that were killed, each at a point of its own and in a trial of its own."""
    case.tell(f"killed  at {', '.join(points)}")
    with ExitStack() as stack:
        parts = {point: Part(case, f"killed-{point}") for point in points}
        children = {
            point: stack.enter_context(part.start(f"{point}:kill")) for point, part in parts.items()
        }
        for point, child in children.items():
            finished = child.wait()
            if finished.ended.signal != signal.SIGKILL or finished.ended.killed:
                finished.succeeded(f"The run that was to be killed at {point}")
                raise PermanentError(
                    "SP-V12",
                    f"The run was not killed at {point}: it never came there.",
                    why="Without a kill nothing is known about a retry after one.",
                    state="Only the sandbox was written to.",
                    next="Report it: every run comes to this point.",
                )
    yield from parts.items()


def _retried(case: Case, point: str, part: Part) -> Result:
    varied = Varied(killed=point)
    told = f"killed at {point}"
    if not part.apart and (result := _half(case, told, part.trial, varied)):
        return result
    before, after = part.retried()
    if part.apart and (result := _half(case, told, before, varied)):
        return result
    return case.compared("killed", after, f"{told}, then retried", varied=varied)


def _half(case: Case, told: str, trial: Trial, varied: Varied) -> Result | None:
    """A failed result if readers see neither the state before the window nor the one after it."""
    if not case.before:
        with trial.tables() as tables:
            if TARGET not in tables or tables[TARGET].isEmpty():
                return None
    elif not case.differences(trial, case.begun("killed-eve")):
        return None
    message = f"{told}, what readers see then"
    result = case.compared("killed", trial, message, varied=varied)
    return result if result.state == "failed" else None


def _by(points: Sequence[str], number: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(points), number):
        yield points[start : start + number]
