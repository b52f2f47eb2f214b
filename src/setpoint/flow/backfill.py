"""Choosing the windows of a backfill: every window with what will happen to it, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from setpoint.flow.plan import Bound
from setpoint.flow.status import WindowState, WindowStatus, status
from setpoint.flow.world import World
from setpoint.model.window import Window

Only = Literal["missing", "failed", "stale", "all"]
ONLY: dict[Only, tuple[WindowState, ...]] = {
    "missing": ("missing",),
    "failed": ("failed",),
    "stale": ("stale", "touched"),
    "all": ("missing", "failed", "stale", "touched", "unknown", "done"),
}
USUALLY: tuple[Only, ...] = ("missing", "failed")


@dataclass(frozen=True)
class Choice:
    """One window of a backfill: its state, and whether it is to run."""

    status: WindowStatus
    chosen: bool

    @property
    def window(self) -> Window:
        return self.status.window


def choose(
    bound: Bound,
    world: World,
    now: datetime,
    only: Sequence[Only],
    windows: Sequence[Window] | None = None,
) -> list[Choice]:
    """The given windows, or all that should exist, with those of the wanted states chosen."""
    found = status(bound, world, now, windows)
    if found.problem is not None:
        raise found.problem
    wanted = {state for name in only for state in ONLY[name]}
    return [Choice(item, item.state in wanted) for item in found.windows]
