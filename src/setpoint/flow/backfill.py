"""Backfill: many windows, each with what will happen to it and why, in as few jobs as possible.

The plan comes first and is kept in the ledger; the executor consumes exactly that plan. What is
done is known from the receipts in the target, so the same command goes on after a crash, also
on another machine and with an empty ledger.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.flow.chunk import planned_now, run_chunk, why_alone
from setpoint.flow.plan import Bound
from setpoint.flow.run import Ended, plan_windows, record_unchanged, waits, with_retries
from setpoint.flow.status import WindowState, WindowStatus, expected_windows, status_of
from setpoint.flow.steps import USUAL, How, Plan
from setpoint.flow.world import World
from setpoint.ledger import BackfillRecord, LedgerError
from setpoint.model.fingerprint import digest
from setpoint.model.pipeline import carrying
from setpoint.model.ports import HoldingPort
from setpoint.model.ranges import onward
from setpoint.model.run import UNKNOWN
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

# Rows of the inputs that one chunk reads, where that is known: a few minutes of work at most, so
# that a crash costs little and memory stays what one chunk needs.
_ROWS = 200_000_000
_TOGETHER = 400  # windows of a function that takes a span
# Windows whose frames are united, each a part of one plan, or for which a database holds a
# snapshot: until it lets go, no old version of a row can be cleaned up there.
_UNITED = 30


@dataclass(frozen=True)
class Request:
    """What was asked for, beyond the windows.

    `restate` publishes windows again although they are done. `longest` limits the windows of a
    chunk, `jobs` says how many chunks are under way at once, `max_failures` after how many
    failed windows no further chunk is started.
    """

    only: tuple[Only, ...] = USUALLY
    restate: bool = False
    longest: int | None = None
    jobs: int = 1
    newest_first: bool = False
    max_failures: int | None = None

    @property
    def names(self) -> Sequence[Only]:
        """The kinds of windows that are to run."""
        return ("all",) if self.restate else self.only

    def chooses(self, status: WindowStatus) -> bool:
        """Whether a window is to run.

        One that failed is one whose last attempt did, also if older rows of it are published.
        """
        states = {state for name in self.names for state in ONLY[name]}
        return status.state in states or ("failed" in self.names and status.failed)

    @property
    def again(self) -> bool:
        """Whether the same request, made again, chooses the windows that failed in it."""
        return "failed" in self.names or "all" in self.names


@dataclass(frozen=True)
class Choice:
    """One window of a backfill: its state, and what will happen to it."""

    status: WindowStatus
    plan: Plan
    chosen: bool

    @property
    def window(self) -> Window:
        return self.status.window

    @property
    def action(self) -> Literal["run", "restate", "skip"]:
        if not self.chosen:
            return "skip"
        return "restate" if self.status.state == "done" else "run"


@dataclass(frozen=True)
class Backfill:
    """The plan of a backfill: every window, and the chunks of those that will run.

    `following` are published windows beyond it that go on from those.
    """

    backfill_id: str
    bound: Bound
    request: Request
    choices: tuple[Choice, ...]
    chunks: tuple[tuple[Plan, ...], ...]
    alone: str
    started_at: datetime
    recorded: str = ""
    following: tuple[Window, ...] = ()

    @property
    def pipeline(self) -> str:
        return self.bound.pipeline.name

    @property
    def resumes(self) -> bool:
        return bool(self.recorded)

    @property
    def chosen(self) -> list[Choice]:
        return [choice for choice in self.choices if choice.chosen]

    @property
    def rows(self) -> int | None:
        """The rows that will be read, as far as the sources tell without being read.

        Hours that lie in the files of one day are told these files each; they count once.
        """
        plans = [plan for chunk in self.chunks for plan in chunk]
        if not plans or any(_rows_of(plan) is None for plan in plans):
            return None
        return sum({part: rows or 0 for plan in plans for part, rows in _parts_of(plan)}.values())

    @property
    def asked(self) -> dict[str, Any]:
        """What makes two backfills the same request."""
        return _asked(self.request, [choice.window for choice in self.choices])

    @property
    def windows(self) -> int:
        """How many windows are to run."""
        return len(self.chosen)

    def work(self, world: World, stops: Callable[[], bool]) -> Iterator[Ended]:
        """Fulfil the plan; no chunk is started any more once `stops` says so."""
        chunked = {plan.run.window for chunk in self.chunks for plan in chunk}
        settled = [choice.plan for choice in self.chosen if choice.window not in chunked]
        outcomes = record_unchanged(self.bound, settled, world)
        for plan, outcome in zip(settled, outcomes, strict=True):
            yield Ended.of(plan, outcome)
        if self.request.jobs > 1:
            yield from self._at_once(replace(world, engine=world.engine.apart()), stops)
            return
        lost: Window | None = None
        for chunk in self.chunks:
            if stops():
                return
            if lost is not None and self.bound.pipeline.reads_itself:
                yield from (waits(plan, lost) for plan in chunk)
                continue
            for end in _chunk_now(self.bound, chunk, world):
                lost = end.window if end.error is not None else lost
                yield end

    def _at_once(self, world: World, stops: Callable[[], bool]) -> Iterator[Ended]:
        """Some chunks at a time, each in a session of its own."""
        waiting = list(self.chunks)
        under_way: set[Future[list[Ended]]] = set()
        interrupt: KeyboardInterrupt | None = None
        with ThreadPoolExecutor(self.request.jobs) as pool:
            while waiting or under_way:
                while waiting and len(under_way) < self.request.jobs:
                    if stops():
                        waiting.clear()
                        break
                    under_way.add(pool.submit(_all_of, self.bound, waiting.pop(0), world))
                try:
                    ended, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                except KeyboardInterrupt as stop:
                    # What is under way goes on to its end, and is told. A second one does not wait.
                    if interrupt is not None:
                        raise
                    interrupt = stop
                    waiting.clear()
                    continue
                for future in ended:
                    yield from future.result()
        if interrupt is not None:
            raise interrupt

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        chunk_of = {
            plan.run.window: number for number, chunk in enumerate(self.chunks, 1) for plan in chunk
        }
        return {
            "backfill": self.backfill_id,
            "pipeline": self.pipeline,
            "only": list(self.request.only),
            "restate": self.request.restate,
            "chunks": len(self.chunks),
            "input_rows": self.rows,
            "one_by_one": self.alone or None,
            "following": [window.id for window in self.following],
            "windows": [
                {
                    "pipeline": self.pipeline,
                    "window": choice.window.id,
                    "state": choice.status.state,
                    "action": choice.action,
                    "reason": choice.status.reason,
                    "chunk": chunk_of.get(choice.window),
                }
                for choice in self.choices
            ],
        }


def plan_backfill(
    bound: Bound,
    world: World,
    now: datetime,
    request: Request,
    parameters: Mapping[str, Any],
    windows: Sequence[Window] | None = None,
) -> Backfill:
    """Choose among the given windows, or all that should exist, and form chunks; without Spark."""
    if bound.pipeline.reads_itself and (request.jobs > 1 or request.newest_first):
        raise UsageError(
            "SP-C01",
            f"Each window of {bound.pipeline.name} reads the one before it.",
            why="They can only be run one after the other, the oldest first.",
            state=NOTHING_STARTED,
            next="Leave --jobs and --newest-first out.",
        )
    if windows is None:
        windows = expected_windows(bound, world, now)
    before = _unfinished(world, bound.pipeline.name, request, windows)
    plans = plan_windows(bound, windows, world, parameters=parameters)
    found = status_of(bound, world, plans)
    choices = [
        Choice(item, plan, request.chooses(item) and not _restated(plan, before, request))
        for item, plan in zip(found, plans, strict=True)
    ]
    following: set[Window] = set()
    if bound.pipeline.reads_itself:
        choices = list(_carried_on(choices))
        begun = [choice.window for choice in choices if choice.chosen]
        following = onward(begun, carrying(bound.pipeline, bound.target.published_windows()))
    chosen = [choice.plan.run.window for choice in choices if choice.chosen]
    how = How(restate=True) if request.restate else USUAL
    todo = [choice.plan for choice in choices if choice.chosen]
    if request.restate and chosen:
        todo = plan_windows(bound, chosen, world, parameters=parameters, how=how)
    if not bound.pipeline.reads_itself:
        # Whether a window that reads the one before it is unchanged is known when that one is done.
        todo = [plan for plan in todo if not plan.is_unchanged]
    chunks = chunks_of(bound, todo, request.longest)
    if request.newest_first:
        chunks.reverse()
    return Backfill(
        backfill_id=before.backfill_id if before else world.new_attempt_id(),
        bound=bound,
        request=request,
        choices=tuple(choices),
        chunks=tuple(tuple(chunk) for chunk in chunks),
        alone=why_alone(bound),
        started_at=before.started_at if before else now,
        recorded=before.plan if before else "",
        following=tuple(sorted(following)),
    )


def _carried_on(choices: Sequence[Choice]) -> Iterator[Choice]:
    """The choices with the published windows after a chosen one: what it brings is carried on."""
    begun = False
    for choice in choices:
        begun = choice.chosen or (begun and choice.plan.state.published)
        yield replace(choice, chosen=begun)


def _restated(plan: Plan, before: BackfillRecord | None, request: Request) -> bool:
    """Whether the backfill that is resumed has published the window again already."""
    receipt = plan.state.receipt
    if not request.restate or before is None or receipt is None or not plan.is_unchanged:
        return False
    # To restate a window twice does no harm, to leave it out does: no clock is asked, and a
    # receipt that names no backfill, as older ones do not, is another publish's.
    return receipt.backfill == before.backfill_id


def _unfinished(
    world: World, pipeline: str, request: Request, windows: Sequence[Window]
) -> BackfillRecord | None:
    """The latest backfill that was asked for in the same way, if it is not done.

    Of one that ended with failures the windows that failed are left. Which those are the windows'
    own states tell, but for windows that are published again although they are done.
    """
    if world.ledger is None:
        return None
    try:
        known = [item for item in world.ledger.backfills(limit=20) if item.pipeline == pipeline]
    except LedgerError:
        return None
    asked = _asked(request, windows)
    same = (item for item in known if json.loads(item.plan).get("asked") == asked)
    record = next(same, None)
    if record is None or record.state == "interrupted":
        return record
    if record.state == "failed" and request.restate:
        return record
    gone = world.is_alive(record.host, record.pid, record.process_started) is False
    return record if record.state == "running" and gone else None


def _asked(request: Request, windows: Sequence[Window]) -> dict[str, Any]:
    """What makes two backfills the same request."""
    ends = [windows[0].id, windows[-1].id, len(windows)] if windows else []
    those = digest(*(window.id for window in windows))
    return {"only": list(request.only), "restate": request.restate, "windows": [*ends, those]}


def _rows_of(plan: Plan) -> int | None:
    """The rows of a window's own part of the inputs, where they are known.

    What is read whole, such as a lookup, is not read once for every window.
    """
    sizes = [rows for _, rows in _parts_of(plan)]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _parts_of(plan: Plan) -> Iterator[tuple[tuple[str, str], int | None]]:
    """The parts of its inputs that a window reads, each with its rows."""
    sources = plan.run.pipeline.sources
    for name, pinned in plan.run.inputs.items():
        known = pinned.fingerprint != UNKNOWN
        if not sources[name].whole:
            yield (name, pinned.fingerprint if known else plan.run.window.id), pinned.rows


def chunks_of(bound: Bound, plans: Sequence[Plan], longest: int | None = None) -> list[list[Plan]]:
    """The plans in chunks of windows that follow each other.

    Without `longest` the size of a chunk follows from what the pipeline allows and from the
    rows that its inputs hold, as far as these are known without reading them.
    """
    if why_alone(bound):
        longest = 1
    held = any(isinstance(source, HoldingPort) for source in bound.sources.values())
    limit = longest or (_TOGETHER if bound.pipeline.spans and not held else _UNITED)
    chunks: list[list[Plan]] = []
    rows = 0
    for plan in plans:
        size = _rows_of(plan) or 0
        joins = chunks and follows(chunks[-1][-1].run.window, plan.run.window)
        full = not chunks or len(chunks[-1]) >= limit or (not longest and rows + size > _ROWS)
        if joins and not full:
            chunks[-1].append(plan)
            rows += size
        else:
            chunks.append([plan])
            rows = size
    return chunks


def _chunk_now(bound: Bound, chunk: Sequence[Plan], world: World) -> Iterator[Ended]:
    """A chunk whose windows are planned when its turn has come.

    Since the backfill was planned, hours may have passed: inputs have grown, and others may have
    published a window from what they hold now.
    """
    label = f"{bound.pipeline.name}[{chunk[0].run.window.id}]"
    try:
        now, plans = with_retries(world, label, lambda number: planned_now(bound, chunk, world))
    except Exception as error:
        yield from (Ended.of(plan, error=error) for plan in chunk)
        return
    yield from run_chunk(now, plans, world)


def _all_of(bound: Bound, chunk: Sequence[Plan], world: World) -> list[Ended]:
    return list(_chunk_now(bound, chunk, world))
