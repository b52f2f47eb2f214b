"""Two processes that publish the same window at the same time."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from setpoint.model.proof import Result
from setpoint.prove.case import Case
from setpoint.prove.causes import Varied
from setpoint.prove.children import Child, Part, why_no_process
from setpoint.prove.processes import LIMIT

_NAME = "two-at-once"
_DONE = ("published", "unchanged")
_STEP = 0.05


def two_at_once(case: Case) -> Result:
    """Both have staged and audited when they are let go: one commits, the other finds it done."""
    if why := why_no_process(case):
        return Result(_NAME, "skipped", why)
    part = Part(case, _NAME)
    if part.apart:
        why = "the metastore of a sandbox serves one process at a time"
        return Result(_NAME, "skipped", why)
    gate = case.sandbox.folder / "processes" / "gate"
    case.tell(f"{_NAME}  both are held before the commit")
    with ExitStack() as stack:
        both = [stack.enter_context(part.start(f"audited:wait={gate}")) for _ in range(2)]
        together = _arrived(gate, both)
        gate.touch()
        answers = [child.wait().succeeded("One of two runs at once") for child in both]
    states = [state for answer in answers for state in answer.states]
    told = f"two processes at once ({' and '.join(sorted(states))})"
    if not together:
        return Result(_NAME, "skipped", "one process had ended before the other came to its commit")
    result = case.compared(_NAME, part.trial, told, varied=Varied(together=True))
    if result.state == "passed" and sorted(states) != sorted(_DONE):
        return Result(_NAME, "failed", f"{told}: one was not told that the window is done")
    one, two = (answer.run_keys for answer in answers)
    if result.state == "passed" and one == two and states == ["published", "published"]:
        return Result(_NAME, "failed", f"{told}: the same run was published twice")
    return result


def _arrived(gate: Path, both: list[Child]) -> bool:
    """Wait until both processes are at the gate; False if one ended before."""
    for _ in range(int(LIMIT / _STEP)):
        if all(Path(f"{gate}.{child.process.pid}").exists() for child in both):
            return True
        if not all(child.process.running for child in both):
            return False
        time.sleep(_STEP)
    return False
