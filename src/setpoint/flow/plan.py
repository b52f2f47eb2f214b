"""Planning: what each window needs and why, found without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from setpoint.flow import steps
from setpoint.flow.steps import Plan, Step
from setpoint.model.audit import rides_along
from setpoint.model.mark import Mark
from setpoint.model.pipeline import Pipeline, newest_of
from setpoint.model.ports import Recall, SourcePort, TargetPort
from setpoint.model.receipt import SliceState
from setpoint.model.run import Run
from setpoint.model.window import Window


@dataclass(frozen=True)
class Bound:
    """A pipeline bound to the adapters of its target and its sources.

    `quarantine` is the table beside the target for rows with a null in their key, if they are
    to be put aside.
    """

    pipeline: Pipeline
    target: TargetPort
    sources: Mapping[str, SourcePort]
    quarantine: Bound | None = None

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
    force: bool = False,
    again: tuple[str, str] | None = None,
) -> list[Plan]:
    """One plan per window, in the order given.

    `again` is a range of the cursor that an incremental pipeline is to read once more.
    """
    pipeline = bound.pipeline
    code, definition = pipeline.code, pipeline.definition()
    pinned = {name: source.pin(windows) for name, source in bound.sources.items()}
    states = bound.target.inspect(windows, recall)
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
        if is_superseded(run, state) and not force:
            newer = (steps.Superseded(state.newest),)
            plans.append(Plan(run, state, f"superseded by {state.newest}", newer))
            continue
        reason = "forced" if force else why(run, state)
        if again is not None:
            reason = f"the range {again[0]}..{again[1]} is read again"
        if reason is None and state.receipt is not None:
            unchanged = (steps.Unchanged(state.receipt),)
            plans.append(Plan(run, state, "nothing changed", unchanged))
            continue
        mechanism = mechanism or bound.target.mechanism()
        todo = steps_of(bound, run, state, mechanism, again)
        plans.append(Plan(run, state, reason or "", todo, forced=force, again=again))
    return plans


def is_superseded(run: Run, state: SliceState) -> bool:
    """Whether a newer window has been published that states the same rows."""
    newest, own = state.newest, run.window.id
    return bool(newest) and newest != own and newest_of([newest, own], run.pipeline) == newest


def why(run: Run, state: SliceState) -> str | None:
    """The reason to run, or None when the window already holds this very run."""
    receipt = state.receipt
    if not state.published:
        return "never published"
    if receipt is None:
        return "published before, but its receipt is gone from the target's log"
    if not state.untouched:
        return "somebody else changed the slice since it was published"
    if receipt.run_key == run.key:
        return None
    changed = stale_parts(run, receipt.code, receipt.parameters, receipt.inputs)
    return f"{' and '.join(changed)} changed" if changed else "the definition changed"


def stale_parts(
    run: Run,
    code: str,
    parameters: Mapping[str, Any],
    inputs: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """What differs between a run and an earlier one, in words."""
    parts = []
    if run.code != code:
        parts.append("the code")
    if {name: str(value) for name, value in run.parameters.items()} != {
        name: str(value) for name, value in parameters.items()
    }:
        parts.append("the parameters")
    for name, pinned in run.inputs.items():
        if inputs.get(name, {}).get("fingerprint") != pinned.fingerprint:
            parts.append(f"the input {name}")
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
    again: tuple[str, str] | None = None,
) -> tuple[Step, ...]:
    """The steps that bring a window to the state of this run."""
    audits = run.pipeline.audits
    reads = tuple(
        steps.Read(name, source.label, _bounds(name, source, run, state, again), detail)
        for name, source in bound.sources.items()
        for detail in (run.inputs[name].detail,)
    )
    return (
        *reads,
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
