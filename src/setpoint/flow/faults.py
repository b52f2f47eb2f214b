"""Crash points: named places between the steps where tests and proofs can make a run fail.

In production no fault is armed and reaching a point does nothing. A fault is armed with
`SETPOINT_FAULT=point:action`, several separated by commas; `point@2` arms it for the second
try only. Actions: `kill` (SIGKILL to this process), `raise` (a passing failure), `lose` (the
answer of the commit is lost), `wait=PATH` (hold until the file exists; meanwhile the file
`PATH.<process id>` says that somebody waits). The point `staging` lies inside a step and takes
`kill` only.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from setpoint.errors import NOTHING_STARTED, TransientError, UnknownCommitError, UsageError

POINTS: dict[str, str] = {
    "resolved": "the run is known, nothing was read",
    "landed": "an input is landed, nothing was read",
    "read": "the inputs are bound, nothing was staged",
    "staging": "some rows are staged, the rest is being written",
    "staged": "the rows are staged, nothing was audited",
    "audited": "the audits are evaluated, the commit was not sent",
    "committed": "the commit has landed, its answer was not seen",
    "published": "the answer was seen, the ledger was not told",
    "recorded": "everything is done",
}
# What every run reaches; `landed` is for pipelines that land an input.
ALWAYS = tuple(point for point in POINTS if point != "landed")
ACTIONS = ("kill", "raise", "lose", "wait")


class RaisedFault(TransientError):
    """The passing failure of an armed fault, told from one that nobody has armed."""


@dataclass(frozen=True)
class Fault:
    """One armed fault."""

    point: str
    action: str
    argument: str = ""
    only_try: int | None = None


@dataclass(frozen=True)
class Faults:
    """The armed faults; empty in production."""

    armed: tuple[Fault, ...] = field(default=())

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Faults:
        text = environment.get("SETPOINT_FAULT", "")
        return cls(tuple(_parse(item) for item in text.split(",") if item))

    def reach(self, point: str, try_number: int = 1) -> None:
        """Arrive at a crash point."""
        for fault in self.armed:
            if fault.point == point and fault.only_try in (None, try_number):
                _strike(fault)

    def during(
        self, point: str, try_number: int, has_begun: Callable[[], bool]
    ) -> AbstractContextManager[None]:
        """Strike in the middle of a block, as soon as it has begun to leave traces."""
        for fault in self.armed:
            if fault.point == point and fault.only_try in (None, try_number):
                return _in_the_middle(fault, has_begun)
        return nullcontext()


@contextmanager
def _in_the_middle(fault: Fault, has_begun: Callable[[], bool]) -> Iterator[None]:
    ended = Event()

    def watch() -> None:
        while not ended.is_set() and not has_begun():
            ended.wait(0.005)
        _strike(fault)

    Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        _strike(fault)


def _parse(text: str) -> Fault:
    place, _, action = text.partition(":")
    point, _, number = place.partition("@")
    action, _, argument = action.partition("=")
    known = point in POINTS and action in (("kill",) if point == "staging" else ACTIONS)
    if not known or (number and not number.isdigit()):
        raise UsageError(
            "SP-C03",
            f"SETPOINT_FAULT={text!r:.80} is not a fault.",
            state=NOTHING_STARTED,
            next=f"Write point:action with a point of {', '.join(POINTS)} and an action of "
            f"{', '.join(ACTIONS)}, or unset the variable.",
        )
    return Fault(point, action, argument, int(number) if number else None)


def _strike(fault: Fault) -> None:
    match fault.action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "wait":
            Path(f"{fault.argument}.{os.getpid()}").touch()
            while not Path(fault.argument).exists():
                time.sleep(0.02)
        case "lose":
            raise UnknownCommitError(
                "SP-P02",
                f"The answer of the commit was lost (fault at {fault.point}).",
                state="The window holds either its old rows or the new ones, never a mixture.",
                next="Settle it with: setpoint recover",
            )
        case _:
            raise RaisedFault(
                "SP-S04",
                f"A fault was raised at {fault.point}.",
                next="Run again; it is always safe.",
            )
