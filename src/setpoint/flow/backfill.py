"""Backfill: many windows, each with what will happen to it and why, in as few jobs as possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from setpoint.flow.chunk import run_chunk, why_alone
from setpoint.flow.plan import Bound
from setpoint.flow.run import Ended, record_unchanged
from setpoint.flow.status import WindowState, WindowStatus, status
from setpoint.flow.steps import Plan
from setpoint.flow.world import World
from setpoint.model.span import follows
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


# Rows of the inputs that one chunk reads, where that is known: a few minutes of work at most, so
# that a crash costs little and memory stays what one chunk needs.
_ROWS = 200_000_000
_TOGETHER = 400  # windows of a function that takes a span
_UNITED = 30  # windows whose frames are united: each is a part of one plan


def chunks_of(bound: Bound, plans: Sequence[Plan], longest: int | None = None) -> list[list[Plan]]:
    """The plans that have something to do, in chunks of windows that follow each other.

    Without `longest` the size of a chunk follows from what the pipeline allows and from the
    rows that its inputs hold, as far as these are known without reading them.
    """
    if why_alone(bound):
        longest = 1
    limit = longest or (_TOGETHER if bound.pipeline.spans else _UNITED)
    chunks: list[list[Plan]] = []
    rows = 0
    for plan in plans:
        size = sum(pinned.rows or 0 for pinned in plan.run.inputs.values())
        joins = chunks and follows(chunks[-1][-1].run.window, plan.run.window)
        full = not chunks or len(chunks[-1]) >= limit or (not longest and rows + size > _ROWS)
        if joins and not full:
            chunks[-1].append(plan)
            rows += size
        else:
            chunks.append([plan])
            rows = size
    return chunks


def backfill(
    bound: Bound, plans: Sequence[Plan], world: World, longest: int | None = None
) -> Iterator[Ended]:
    """Fulfil the plans, chunk by chunk, and tell how each window ended."""
    unchanged = [plan for plan in plans if plan.is_unchanged]
    for plan, outcome in zip(unchanged, record_unchanged(bound, unchanged, world), strict=True):
        yield Ended(plan, outcome)
    for chunk in chunks_of(bound, [plan for plan in plans if not plan.is_unchanged], longest):
        yield from run_chunk(bound, chunk, world)
