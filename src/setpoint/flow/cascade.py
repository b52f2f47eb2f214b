"""Cascades: a backfill of pipelines that feed each other, in order, window by window.

A window of one pipeline needs the windows of another that lie in it, or in which it lies. Work
on it starts when they are there. What fails keeps back what depends on it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from setpoint.errors import PermanentError, SetpointError
from setpoint.flow.backfill import Request, chunks_of
from setpoint.flow.chunk import run_chunk
from setpoint.flow.plan import Bound
from setpoint.flow.run import Ended, plan_windows, record_unchanged, with_retries
from setpoint.flow.steps import USUAL, How, Plan
from setpoint.flow.world import World
from setpoint.model.pipeline import Pipeline
from setpoint.model.ranges import covering
from setpoint.model.window import Window

Direction = Literal["upstream", "downstream"]
Graph: TypeAlias = Mapping[str, Sequence[str]]
"""For each pipeline the names of those whose targets it reads."""


@dataclass(frozen=True)
class Need:
    """A window of another pipeline that has to be there first."""

    pipeline: str
    window: Window

    @property
    def label(self) -> str:
        return f"{self.pipeline}[{self.window.id}]"


@dataclass(frozen=True)
class Member:
    """A pipeline of a cascade, its windows, and what each of them needs."""

    pipeline: Pipeline
    needs: Mapping[Window, frozenset[Need]]
    because: str

    @property
    def windows(self) -> list[Window]:
        return sorted(self.needs)


def members_of(
    root: Pipeline,
    windows: Sequence[Window],
    pipelines: Mapping[str, Pipeline],
    graph: Graph,
    directions: Iterable[Direction],
    now: datetime,
) -> list[Member]:
    """The pipelines of a cascade with their windows, those that are read before those that read."""
    chosen: dict[str, set[Window]] = {root.name: set(windows)}
    because = {root.name: "asked for"}
    order = _in_order(pipelines, graph)
    if "upstream" in directions:
        for name in reversed(order):
            for other in graph[name] if name in chosen else ():
                if other != name:
                    _join(chosen, pipelines[other], chosen[name], now)
                    because.setdefault(other, f"{name} reads it")
    if "downstream" in directions:
        reached = {root.name}
        for name in order:
            fed = [other for other in graph[name] if other in reached and other != name]
            for other in fed:
                _join(chosen, pipelines[name], chosen[other], now)
                because.setdefault(name, f"it reads {other}")
                reached.add(name)
    return [
        Member(
            pipelines[name],
            {
                window: frozenset(
                    Need(other, found)
                    for other in graph[name]
                    if other in chosen and other != name
                    for found in chosen[other]
                    if _touch(found, window)
                )
                for window in chosen[name]
            },
            because[name],
        )
        for name in order
        if name in chosen and (chosen[name] or name == root.name)
    ]


def _in_order(pipelines: Mapping[str, Pipeline], graph: Graph) -> list[str]:
    """The names, each after those that it reads."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name not in order:
            for other in sorted(graph[name]):
                if other != name and other in pipelines:
                    visit(other)
            order.append(name)

    for name in sorted(pipelines):
        visit(name)
    return order


def _join(
    chosen: dict[str, set[Window]], pipeline: Pipeline, windows: Iterable[Window], now: datetime
) -> None:
    """The windows of a pipeline that have an instant in common with those of another."""
    mine = chosen.setdefault(pipeline.name, set())
    if pipeline.every.is_incremental:
        return
    for window in windows:
        for found in covering(window.start, window.end, pipeline.every, pipeline.timezone):
            before = pipeline.start is not None and found < pipeline.start
            if found.end <= now and not before:
                mine.add(found)


def _touch(one: Window, other: Window) -> bool:
    return one.start < other.end and other.start < one.end


@dataclass
class _Left:
    """What a cascade still has to do, and how it stands."""

    waiting: dict[str, set[Window]]
    done: set[Need] = field(default_factory=set)
    lost: set[Need] = field(default_factory=set)


@dataclass(frozen=True)
class Cascade:
    """The plan of a cascade: whatever is ready and furthest downstream comes first."""

    backfill_id: str
    root: Pipeline
    members: tuple[Member, ...]
    request: Request
    parameters: Mapping[str, Any]
    bind: Callable[[Pipeline], Bound]
    started_at: datetime
    directions: tuple[Direction, ...]

    @property
    def pipeline(self) -> str:
        return self.root.name

    @property
    def windows(self) -> int:
        """How many windows are looked at; what is there already is settled without Spark."""
        return sum(len(member.needs) for member in self.members)

    @property
    def asked(self) -> dict[str, Any]:
        """Not looked for: a cascade that is started again finds what is done in the targets."""
        return {"cascade": self.backfill_id}

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        return {
            "backfill": self.backfill_id,
            "pipeline": self.pipeline,
            "restate": self.request.restate,
            "directions": list(self.directions),
            "windows": [
                {
                    "pipeline": member.pipeline.name,
                    "window": window.id,
                    "action": "run",
                    "reason": member.because,
                    "needs": sorted(need.label for need in member.needs[window]),
                }
                for member in self.members
                for window in member.windows
            ],
        }

    def work(self, world: World, stops: Callable[[], bool]) -> Iterator[Ended]:
        """Do it; tells how each window ended, or what keeps it from being tried."""
        left = _Left({member.pipeline.name: set(member.needs) for member in self.members})
        while True:
            yield from self._blocked(left)
            ready = self._ready(left)
            if ready is None or stops():
                return
            member, windows = ready
            for end in self._chunk(member, windows, world):
                need = Need(end.pipeline, end.window)
                (left.done if end.outcome else left.lost).add(need)
                left.waiting[end.pipeline].discard(end.window)
                yield end

    def _ready(self, left: _Left) -> tuple[Member, list[Window]] | None:
        for member in reversed(self.members):
            waiting = left.waiting[member.pipeline.name]
            ready = [window for window in waiting if member.needs[window] <= left.done]
            if ready:
                return member, sorted(ready)
        return None

    def _blocked(self, left: _Left) -> Iterator[Ended]:
        """Windows whose needs were not met; they keep back those that need them in turn."""
        for member in self.members:
            name = member.pipeline.name
            for window in sorted(left.waiting[name]):
                lost = sorted(need.label for need in member.needs[window] & left.lost)
                if lost:
                    left.waiting[name].discard(window)
                    left.lost.add(Need(name, window))
                    yield Ended(name, window, error=_waits(name, window, lost), blocked=True)

    def _chunk(self, member: Member, windows: Sequence[Window], world: World) -> Iterator[Ended]:
        """The first chunk of what is ready, planned now that its inputs are there."""
        pipeline, is_root = member.pipeline, member.pipeline.name == self.root.name
        parameters = self.parameters if is_root else pipeline.parameters
        how = How(force=True) if is_root and self.request.restate else USUAL

        def planned(number: int) -> tuple[Bound, list[Plan]]:
            bound = self.bind(pipeline)
            return bound, plan_windows(bound, windows, world, parameters=parameters, how=how)

        try:
            bound, plans = with_retries(world, pipeline.name, planned)
        except SetpointError as error:
            yield from (Ended(pipeline.name, window, error=error) for window in windows)
            return
        unchanged = [plan for plan in plans if plan.is_unchanged]
        if unchanged:
            outcomes = record_unchanged(bound, unchanged, world)
            yield from (Ended.of(p, o) for p, o in zip(unchanged, outcomes, strict=True))
            return
        chunks = chunks_of(bound, plans, self.request.longest)
        yield from run_chunk(bound, chunks[-1 if self.request.newest_first else 0], world)


def _waits(name: str, window: Window, lost: Sequence[str]) -> PermanentError:
    more = f" and {len(lost) - 1:,} more" if len(lost) > 1 else ""
    return PermanentError(
        "SP-R07",
        f"{name}[{window.id}] was not tried: it needs {lost[0]}{more}, which was not published.",
        why="It would be published without the rows of that window.",
        next="Repair that window, then start the same backfill again.",
    )
