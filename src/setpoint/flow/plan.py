"""Planning: what each window needs and why, found without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from setpoint.errors import NOTHING_STARTED, PermanentError, UsageError
from setpoint.flow import steps
from setpoint.flow.gaps import Upstream, gap_error, gaps_of
from setpoint.flow.late import changed_inputs, following, late_inputs
from setpoint.flow.recording import recall_from
from setpoint.flow.steps import EVERY, USUAL, How, Plan, Step
from setpoint.flow.world import World
from setpoint.model.audit import rides_along
from setpoint.model.mark import Mark
from setpoint.model.pipeline import Pipeline, newest_of
from setpoint.model.ports import LandingPort, Recall, SourcePort, TargetPort
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Pinned, Run
from setpoint.model.window import Window

NOTHING_CHANGED = "nothing changed"


@dataclass(frozen=True)
class Bound:
    """A pipeline bound to the adapters of its target and its sources.

    `quarantine` is the table beside the target for rows with a null in their key, if they are
    to be put aside. `upstream` are the pipelines whose windows its sources read.
    """

    pipeline: Pipeline
    target: TargetPort
    sources: Mapping[str, SourcePort]
    quarantine: Bound | None = None
    upstream: Mapping[str, Upstream] = field(default_factory=dict)
    again: Callable[[], Bound] | None = field(default=None, repr=False)

    def afresh(self) -> Bound:
        """The same, without what its adapters remember of an earlier look.

        Between the plan of many windows and the run of one of them hours may pass. What has
        landed an input remembers that: no retry may ask the origin a second time.
        """
        if self.again is None:
            return self
        made = self.again()
        landing = {name: self.sources[name] for name in self.landing}
        return replace(made, sources={**made.sources, **landing})

    @cached_property
    def landing(self) -> tuple[str, ...]:
        """The inputs that are kept once per window."""
        return tuple(n for n, source in self.sources.items() if isinstance(source, LandingPort))

    def connectors(self) -> frozenset[str]:
        """The connectors a session needs for this pipeline."""
        needed = self.target.connectors()
        for source in self.sources.values():
            needed |= source.connectors()
        return needed


def plan(
    bound: Bound,
    windows: Sequence[Window],
    *,
    parameters: Mapping[str, Any],
    recall: Recall | None = None,
    how: How = USUAL,
) -> list[Plan]:
    """One plan per window, in the order given."""
    pipeline = bound.pipeline
    if how.refresh not in ("", EVERY, *bound.landing):
        landed = ", ".join(bound.landing) or "none"
        raise UsageError(
            "SP-C06",
            f"{pipeline.name} has no landed input {how.refresh!r:.80} (it has: {landed}).",
            why="Only what is landed can be landed anew.",
            state=NOTHING_STARTED,
            next="Name one of these, or leave the name out.",
        )
    code, definition = pipeline.code, pipeline.definition()
    states = bound.target.inspect(windows, recall)
    gaps = gaps_of(bound.upstream, windows)
    try:
        pinned = _pinned(bound, windows, states, how)
    except PermanentError as error:
        if not gaps or how.force:
            raise
        # The table of a pipeline that was never run is not there yet.
        raise gap_error(pipeline, *next(iter(gaps.items()))) from error
    first = following(pipeline, bound.target)
    mechanism = ""
    plans = []
    for window in windows:
        run = Run(
            pipeline=pipeline,
            window=window,
            parameters=parameters,
            inputs={name: pins[window] for name, pins in pinned.items()},
            code=code,
            definition=definition,
        )
        state = states[window]
        if is_superseded(run, state) and not how.force:
            newer = (steps.Superseded(state.newest),)
            plans.append(Plan(run, state, f"superseded by {state.newest}", newer))
            continue
        late = late_inputs(run, state, first)
        reason, quiet = how.reason or why(run, state, late), NOTHING_CHANGED
        if reason is None and late:
            quiet = _left_out(run, state, late)
        if reason is None and state.receipt is not None:
            unchanged = (steps.Unchanged(state.receipt),)
            plans.append(Plan(run, state, quiet, unchanged))
            continue
        mechanism = mechanism or bound.target.mechanism()
        todo = steps_of(bound, run, state, mechanism, how)
        plans.append(Plan(run, state, reason or "", todo, how, gaps.get(window)))
    return plans


def _pinned(
    bound: Bound,
    windows: Sequence[Window],
    states: Mapping[Window, SliceState],
    how: How,
) -> dict[str, Mapping[Window, Pinned]]:
    """What each window reads: the sources as they are now, or as the last publish has read them."""
    if not how.as_published:
        return {name: source.pin(windows) for name, source in bound.sources.items()}
    pinned: dict[str, dict[Window, Pinned]] = {name: {} for name in bound.sources}
    for window in windows:
        receipt = states[window].receipt
        for name, source in bound.sources.items():
            if receipt is None or name not in receipt.inputs:
                raise PermanentError(
                    "SP-R05",
                    f"{bound.pipeline.name}[{window.id}] has no receipt that says what was read "
                    f"as {name}.",
                    why="--as-published reads what the last publish has read.",
                    next="Leave --as-published out.",
                )
            pinned[name][window] = source.pin_published(window, receipt.inputs[name])
    return {**pinned}


def plan_of_frame(bound: Bound, window: Window, world: World) -> Plan:
    """The plan for a frame that was handed over: its run is known once its rows are staged."""
    pipeline = bound.pipeline
    recall = recall_from(world, bound.target.uri, pipeline.name)
    state = bound.target.inspect([window], recall)[window]
    run = Run(pipeline, window, {}, {}, "", pipeline.definition(), by_contents=True)
    if is_superseded(run, state):
        newer = (steps.Superseded(state.newest),)
        return Plan(run, state, f"superseded by {state.newest}", newer)
    todo = steps_of(bound, run, state, bound.target.mechanism())
    return Plan(run, state, "a frame was handed over", todo)


def is_superseded(run: Run, state: SliceState) -> bool:
    """Whether a newer window has been published that states the same rows."""
    newest, own = state.newest, run.window.id
    return bool(newest) and newest != own and newest_of([newest, own], run.pipeline) == newest


def why(run: Run, state: SliceState, late: Sequence[str] = ()) -> str | None:
    """The reason to run, or None when the window already holds this very run.

    `late` are the inputs whose changes do not count.
    """
    receipt = state.receipt
    if not state.published:
        return "never published"
    if receipt is None:
        return "published before, but its receipt is gone from the target's log"
    if not state.untouched:
        return "somebody else changed the slice since it was published"
    if receipt.run_key == run.key or receipt.run_key == run.with_recorded(receipt, late).key:
        unsure = ", ".join(name for name in run.unsure if name not in late)
        return f"the input {unsure} cannot tell whether it changed" if unsure else None
    changed = stale_parts(run, receipt)
    return f"{' and '.join(changed)} changed" if changed else "the definition changed"


def _left_out(run: Run, state: SliceState, late: Sequence[str]) -> str:
    """Why nothing is done although inputs changed, or may have."""
    recorded = state.receipt.inputs if state.receipt else {}
    changed = [name for name in changed_inputs(run, recorded) if name in late]
    if changed:
        return f"late rows of {', '.join(changed)} are left out, as its policy says"
    return f"{', '.join(late)} is not read again, as its policy says"


def stale_parts(run: Run, receipt: Receipt) -> list[str]:
    """What differs between a run and a published one, in words."""
    parts = []
    if run.code != receipt.code:
        parts.append("the code")
    if {name: str(value) for name, value in run.parameters.items()} != {
        name: str(value) for name, value in receipt.parameters.items()
    }:
        parts.append("the parameters")
    for name in changed_inputs(run, receipt.inputs):
        before, now = receipt.inputs.get(name, {}).get("rows"), run.inputs[name].rows
        grown = now - before if isinstance(before, int) and now is not None else 0
        parts.append(f"the input {name}" + (f" (rows: {grown:+,})" if grown else ""))
    return parts


def mark_of(pipeline: Pipeline, state: SliceState) -> Mark | None:
    """The high-water mark that the target's latest receipt holds.

    If somebody else changed the table, rows below the mark may be gone: then there is none,
    and everything is read again, which does no harm to a write that goes by key.
    """
    name = pipeline.cursor_source
    if name is None or state.receipt is None or not state.untouched:
        return None
    return Mark.read(state.receipt.high_water_mark, pipeline.sources[name].cursor)


def steps_of(
    bound: Bound,
    run: Run,
    state: SliceState,
    mechanism: str,
    how: How = USUAL,
) -> tuple[Step, ...]:
    """The steps that bring a window to the state of this run."""
    audits = run.pipeline.audits
    lands = tuple(
        steps.Land(name, bound.sources[name].label, (landed or 0) + 1)
        for name in bound.landing
        for landed in (run.inputs[name].version,)
        if how.refreshes(name) or landed is None
    )
    reads = tuple(
        steps.Read(name, source.label, _bounds(name, source, run, state, how.again), detail)
        for name, source in bound.sources.items()
        for detail in (run.inputs[name].detail,)
    )
    return (
        *lands,
        *reads,
        steps.Check(tuple(run.pipeline.allow)),
        steps.Stage(bound.target.uri, tuple(a.name for a in audits if rides_along(a))),
        steps.Audit(tuple(a.name for a in audits if not rides_along(a))),
        steps.Publish(state.generation + 1, mechanism),
        steps.Record(),
    )


def _bounds(
    name: str,
    source: SourcePort,
    run: Run,
    state: SliceState,
    again: tuple[str, str] | None,
) -> str:
    cursor = run.pipeline.sources[name].cursor
    if not cursor:
        return source.bounds(run.window)
    if again is not None:
        return f"{cursor[0]} from {again[0]} to before {again[1]}"
    mark = mark_of(run.pipeline, state)
    back = run.pipeline.sources[name].lookback
    earlier = f", looking back {back}" if back else ""
    return f"from the mark on, {mark}{earlier}" if mark else "true: there is no mark yet"
