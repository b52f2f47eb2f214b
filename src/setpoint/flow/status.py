"""Status: what each window of a pipeline is like now, by the target's own word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from setpoint.errors import SetpointError
from setpoint.flow.plan import NOTHING_CHANGED, Bound, is_superseded
from setpoint.flow.recording import recall_from
from setpoint.flow.run import plan_windows
from setpoint.flow.steps import Plan
from setpoint.flow.world import World
from setpoint.ledger import AttemptRecord, LedgerError
from setpoint.model.pipeline import windows_named
from setpoint.model.ranges import windows_between
from setpoint.model.receipt import SliceState
from setpoint.model.window import Window

WindowState = Literal["done", "missing", "failed", "stale", "touched", "unknown"]

STATES: dict[WindowState, str] = {
    "done": "holds what the code and the inputs of now would give",
    "missing": "was never published",
    "failed": "was never published, and the last attempt failed",
    "stale": "is published, but the code, the parameters or the inputs have changed since",
    "touched": "is published, but somebody else changed its slice since",
    "unknown": "is published, but its receipt or its inputs cannot be looked at",
}

_DIED = "its process ended before it did (setpoint recover)"
_ENDED_BADLY = ("failed", "refused", "crashed", "unknown")


@dataclass(frozen=True)
class WindowStatus:
    """One window and why it is in its state.

    `failed` says that the last attempt ended badly and that there is still something to do,
    whatever was published before: a stale window may have failed, too.
    """

    window: Window
    state: WindowState
    reason: str
    generation: int
    rows: int | None
    failed: bool = False


@dataclass(frozen=True)
class PipelineStatus:
    """All windows from the pipeline's start, or its first publish, to the latest complete one."""

    pipeline: str
    every: str
    target: str
    windows: tuple[WindowStatus, ...]
    problem: SetpointError | None = None

    def count(self, state: WindowState) -> int:
        return sum(item.state == state for item in self.windows)

    def ranges(self, state: WindowState) -> list[tuple[Window, Window, int]]:
        """Neighbouring windows of one state and reason, as first, last and number."""
        found: list[tuple[Window, Window, int]] = []
        previous: WindowStatus | None = None
        for item in self.windows:
            if item.state == state:
                if previous is not None and _alike(previous, item):
                    first, _, number = found[-1]
                    found[-1] = (first, item.window, number + 1)
                else:
                    found.append((item.window, item.window, 1))
            previous = item
        return found


def _alike(one: WindowStatus, other: WindowStatus) -> bool:
    return one.state == other.state and one.reason == other.reason


def status(
    bound: Bound, world: World, now: datetime, windows: Sequence[Window] | None = None
) -> PipelineStatus:
    """The status of some windows of a pipeline, or of all that should exist; without Spark."""
    pipeline = bound.pipeline
    attempts = _latest_attempts(world, pipeline.name)
    windows = _expected(bound, attempts, now) if windows is None else windows
    problem: SetpointError | None = None
    plans: dict[Window, Plan] = {}
    states: dict[Window, SliceState] = {}
    try:
        planned = plan_windows(bound, windows, world, parameters=pipeline.parameters)
        plans = {plan.run.window: plan for plan in planned}
        states = {plan.run.window: plan.state for plan in planned}
    except SetpointError as error:
        # The inputs cannot be looked at; what is published is known all the same.
        problem = error
        recall = recall_from(world, bound.target.uri, pipeline.name)
        states = dict(bound.target.inspect(windows, recall))
    return PipelineStatus(
        pipeline=pipeline.name,
        every=str(pipeline.every),
        target=bound.target.uri,
        windows=tuple(
            _carried_on(
                bound,
                (
                    _one(window, states[window], plans.get(window), attempts.get(window.id))
                    for window in windows
                ),
            )
        ),
        problem=problem,
    )


def expected_windows(bound: Bound, world: World, now: datetime) -> Sequence[Window]:
    """The windows that should exist, from the first known one to the latest that is complete."""
    return _expected(bound, _latest_attempts(world, bound.pipeline.name), now)


def status_of(bound: Bound, world: World, plans: Sequence[Plan]) -> list[WindowStatus]:
    """The status of windows that are planned already."""
    attempts = _latest_attempts(world, bound.pipeline.name)
    found = (
        _one(plan.run.window, plan.state, plan, attempts.get(plan.run.window.id)) for plan in plans
    )
    return list(_carried_on(bound, found))


def _carried_on(bound: Bound, found: Iterable[WindowStatus]) -> Iterator[WindowStatus]:
    """What goes on from a stale window will change with it, though nothing it reads has yet."""
    before, cause = None, ""
    for item in found:
        window = item.window
        goes_on = before == window.previous() and window != bound.pipeline.start
        if cause and item.state == "done" and goes_on:
            yield replace(item, state="stale", reason=f"it goes on from {cause}, which is stale")
        else:
            cause = window.id if item.state == "stale" and bound.pipeline.reads_itself else ""
            yield item
        before = window


def _one(
    window: Window, state: SliceState, plan: Plan | None, attempt: AttemptRecord | None
) -> WindowStatus:
    rows = state.receipt.rows if state.receipt else state.rows
    kind, reason = _kind(state, plan, attempt)
    settled = plan is not None and plan.is_unchanged
    failed = attempt is not None and attempt.state in _ENDED_BADLY and not settled
    return WindowStatus(window, kind, reason, state.generation, rows, failed)


def _kind(
    state: SliceState, plan: Plan | None, attempt: AttemptRecord | None
) -> tuple[WindowState, str]:
    if plan is not None and is_superseded(plan.run, state):
        return "done", f"superseded by {state.newest}"
    if not state.published:
        if attempt is not None and attempt.state in _ENDED_BADLY:
            return "failed", attempt.error_text or attempt.state
        if attempt is not None and attempt.is_open:
            return (
                "missing",
                "an attempt is open: it is running, or nobody can tell (setpoint recover)",
            )
        if attempt is not None:
            return "missing", "the ledger knows a publish that the target does not hold"
        return "missing", "never published"
    if state.receipt is None:
        return "unknown", "published, details unknown"
    if not state.untouched:
        return "touched", "somebody else changed the slice"
    if plan is None:
        return "unknown", "published, but its inputs cannot be looked at now"
    if plan.is_unchanged:
        return "done", "" if plan.reason == NOTHING_CHANGED else plan.reason
    reason = plan.reason
    if plan.run.unsure and state.receipt.run_key == plan.run.key:
        return "done", reason
    if attempt is not None and attempt.state in _ENDED_BADLY:
        reason += f"; the last attempt was {attempt.state} ({attempt.error_code or 'no code'})"
    return "stale", reason


def _expected(bound: Bound, attempts: dict[str, AttemptRecord], now: datetime) -> Sequence[Window]:
    """The windows that should exist: from the stated start, or the first known, until now.

    One outside of that which was published all the same is there by itself, and so is one of the
    future that was tried. One of the past that was tried only, before the start, was a slip.
    """
    pipeline = bound.pipeline
    if pipeline.every.is_incremental:
        return (Window.parse("incremental", every=pipeline.every, timezone=pipeline.timezone),)
    published = windows_named(bound.target.published_windows(), pipeline)
    tried = windows_named(attempts, pipeline)
    first = pipeline.start or min(published or tried, default=None)
    if first is None:
        return ()
    latest = Window.latest_complete(now, pipeline.every, pipeline.timezone)
    others = {*published, *(window for window in tried if window > latest)}
    return (
        *sorted(window for window in others if window < first),
        *(windows_between(first, latest) if first <= latest else ()),
        *sorted(window for window in others if window > max(first, latest)),
    )


def _latest_attempts(world: World, pipeline: str) -> dict[str, AttemptRecord]:
    if world.ledger is None:
        return {}
    try:
        found = world.ledger.latest_attempts(pipeline)
    except LedgerError as error:
        world.warn(str(error))
        return {}
    return {window: _seen_to_end(world, attempt) for window, attempt in found.items()}


def _seen_to_end(world: World, attempt: AttemptRecord) -> AttemptRecord:
    """An attempt whose process is gone has crashed, though nobody was there to record it."""
    host, pid, started = attempt.host, attempt.pid, attempt.process_started
    if attempt.state != "running" or world.is_alive(host, pid, started) is not False:
        return attempt
    return replace(attempt, state="crashed", error_text=_DIED)
