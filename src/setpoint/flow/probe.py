"""What becomes of a chunk that failed as a whole: whether it is for one window, or for all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from setpoint.errors import PermanentError, SetpointError
from setpoint.flow.plan import Bound
from setpoint.flow.run import Ended, run_alone
from setpoint.flow.steps import Plan
from setpoint.flow.unseen import Doubts
from setpoint.flow.world import World
from setpoint.model.window import Window

# Numbers and ids: of windows, attempts and files.
_PLACES = re.compile(r"\b[0-9a-f]{8,}\b|[0-9]+")


class Probe:
    """The first, the last and a middle window of a chunk, each run by itself.

    If they fail for one and the same cause, so would the others: to cut the chunk in halves until
    every window has failed by itself would take many times as long and tell nothing new.
    """

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.left = list(plans)
        """The plans that are still to be tried."""
        self._places = (0, -1, len(plans) // 2 - 1)

    def ends(self, bound: Bound, world: World, doubts: Doubts) -> Iterator[Ended]:
        """How windows ended, until one ends in another way than the one before it."""
        causes: dict[str | None, Window] = {}
        for place in self._places:
            if not self.left:
                return
            tried = self.left.pop(place)
            end = run_alone(bound, tried, world, doubts)
            yield end
            causes.setdefault(_cause(end), tried.run.window)
            if None in causes or len(causes) > 1:
                return
        (example,) = causes.values()
        yield from (_given_up(plan, example, doubts) for plan in self.left)
        self.left = []


def _cause(end: Ended) -> str | None:
    """Why a window failed, without what names the window or the attempt; None if it did not."""
    if end.error is None:
        return None
    error = end.error
    text = f"{error.code} {error.what}" if isinstance(error, SetpointError) else repr(error)
    return _PLACES.sub("#", text)


def _given_up(plan: Plan, example: Window, doubts: Doubts) -> Ended:
    error = PermanentError(
        "SP-S05",
        f"{plan.run.label} was not tried: the windows around it failed for one and the same cause, "
        f"for example {example.id}.",
        why="Their chunk failed as a whole, and so did its first, its last and a middle window by "
        "themselves.",
        next="Repair the cause, then run the same command again. To try every window all the same: "
        "--chunk 1",
    )
    window = plan.run.window
    told = doubts.told(window, error)
    return Ended(plan.run.pipeline.name, window, error=told, blocked=told is error)
