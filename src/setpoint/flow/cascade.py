"""Cascades: a backfill of pipelines that feed each other, in order, window by window.

A window of one pipeline needs the windows of another that lie in it, or in which it lies. Work
on it starts when they are there. What fails keeps back what depends on it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from setpoint.model.ranges import covering, onward
from setpoint.model.window import Window

Direction = Literal["upstream", "downstream"]
Graph: TypeAlias = Mapping[str, Sequence[str]]
"""For each pipeline the names of those whose targets it reads."""


# Windows that are planned at once: a year of quarters is not planned anew for every chunk.
_AT_A_TIME = 400


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
    """A pipeline of a cascade, its windows, and what each of them needs.

    `carried` are those that nobody asked for: each goes on from the window before it.
    """

    pipeline: Pipeline
    needs: Mapping[Window, frozenset[Need]]
    because: str
    carried: frozenset[Window] = frozenset()

    @property
    def windows(self) -> list[Window]:
        return sorted(self.needs)

    def reason(self, window: Window) -> str:
        """Why a window is part of the cascade."""
        return "it goes on from the window before" if window in self.carried else self.because


def members_of(
    root: Pipeline,
    windows: Sequence[Window],
    pipelines: Mapping[str, Pipeline],
    graph: Graph,
    directions: Iterable[Direction],
    now: datetime,
    published: Callable[[Pipeline], Iterable[Window]],
) -> list[Member]:
    """The pipelines of a cascade with their windows, those that are read before those that read.

    Downstream of a window are also the later ones of its own pipeline, if each reads the one
    before it, as far as they are published.
    """
    chosen: dict[str, set[Window]] = {root.name: set(windows)}
    carried: dict[str, set[Window]] = {}
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
            if name in reached and pipelines[name].reads_itself:
                carried[name] = onward(chosen[name], published(pipelines[name]))
                chosen[name] |= carried[name]
    return [
        Member(
            pipelines[name],
            {
                window: _needs(name, window, graph[name], pipelines, chosen)
                for window in chosen[name]
            },
            because[name],
            frozenset(carried.get(name, ())),
        )
        for name in order
        if name in chosen and (chosen[name] or name == root.name)
    ]


def _needs(
    pipeline: str,
    window: Window,
    read: Iterable[str],
    pipelines: Mapping[str, Pipeline],
    chosen: Mapping[str, set[Window]],
) -> frozenset[Need]:
    """The chosen windows that a window reads: those that have an instant in common with it.

    Of its own pipeline, it is the window before.
    """
    found = set()
    for name in read:
        if name in chosen:
            other, mine = pipelines[name], chosen[name]
            around = (
                (window.previous(),)
                if name == pipeline
                else covering(window.start, window.end, other.every, other.timezone)
            )
            found |= {Need(name, item) for item in around if item in mine}
    return frozenset(found)


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


class _Left:
    """What a cascade still has to do: which windows are ready, and who waits for whom."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.ready: dict[str, set[Window]] = {member.pipeline.name: set() for member in members}
        self._missing: dict[Need, set[Need]] = {}
        self._readers: dict[Need, list[Need]] = {}
        for member in members:
            for window, needs in member.needs.items():
                one = Need(member.pipeline.name, window)
                self._missing[one] = set(needs)
                for need in needs:
                    self._readers.setdefault(need, []).append(one)
                if not needs:
                    self.ready[one.pipeline].add(window)

    def done(self, one: Need) -> None:
        """A window is published: those that waited for it alone are ready."""
        self.ready[one.pipeline].discard(one.window)
        for reader in self._readers.get(one, ()):
            missing = self._missing.get(reader)
            if missing is not None:
                missing.discard(one)
                if not missing:
                    self.ready[reader.pipeline].add(reader.window)

    def lost(self, one: Need) -> Iterator[tuple[Need, Need]]:
        """A window failed: those that need it, each with the one that keeps it back."""
        self.ready[one.pipeline].discard(one.window)
        todo = [one]
        while todo:
            by = todo.pop(0)
            for reader in self._readers.get(by, ()):
                if self._missing.pop(reader, None) is not None:
                    todo.append(reader)
                    yield reader, by


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
    def recorded(self) -> str:
        """A cascade goes on with no other one."""
        return ""

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
                    "reason": member.reason(window),
                    "needs": sorted(need.label for need in member.needs[window]),
                }
                for member in self.members
                for window in member.windows
            ],
        }

    def work(self, world: World, stops: Callable[[], bool]) -> Iterator[Ended]:
        """Do it; tells how each window ended, or what keeps it from being tried."""
        left = _Left(self.members)
        while True:
            furthest = [m for m in reversed(self.members) if left.ready[m.pipeline.name]]
            if not furthest or stops():
                return
            ready = sorted(left.ready[furthest[0].pipeline.name])
            chosen = ready[-_AT_A_TIME:] if self.request.newest_first else ready[:_AT_A_TIME]
            for end in self._chunk(furthest[0], chosen, world):
                yield end
                need = Need(end.pipeline, end.window)
                if end.outcome is not None:
                    left.done(need)
                    continue
                for one, by in left.lost(need):
                    yield Ended(one.pipeline, one.window, error=_waits(one, by), blocked=True)

    def _chunk(self, member: Member, windows: Sequence[Window], world: World) -> Iterator[Ended]:
        """The first chunk of what is ready, planned now that its inputs are there."""
        pipeline = member.pipeline
        asked = [w for w in windows if pipeline.name == self.pipeline and w not in member.carried]
        windows = asked or windows
        parameters = self.parameters if asked else pipeline.parameters
        how = How(restate=True) if asked and self.request.restate else USUAL

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


def _waits(one: Need, by: Need) -> PermanentError:
    return PermanentError(
        "SP-R07",
        f"{one.label} was not tried: it needs {by.label}, which was not published.",
        why="It would be published without the rows of that window.",
        next="Repair that window, then start the same backfill again.",
    )
