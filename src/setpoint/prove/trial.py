"""A trial: a table of its own in the sandbox, runs that fill it, and what it holds then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from setpoint.flow.faults import Faults
from setpoint.flow.plan import Bound
from setpoint.flow.quarantine import quarantine_of
from setpoint.flow.retry import RetryPolicy
from setpoint.flow.run import plan_windows, record_unchanged, run_window
from setpoint.flow.steps import How
from setpoint.flow.world import Outcome, World
from setpoint.model.determinism import Finding
from setpoint.model.pipeline import Pipeline
from setpoint.model.ports import HoldingPort, SourcePort
from setpoint.model.source import Source
from setpoint.model.window import Window
from setpoint.prove.engine import AS_IT_IS, TrialEngine, Variation

if TYPE_CHECKING:
    from setpoint.prove.sandbox import Sandbox

TARGET, QUARANTINE = "the target", "the quarantine"


@dataclass(frozen=True)
class Committed:
    """What the target's own log says: it differs as soon as anything was committed.

    `version` is the table's, where the destination counts its versions. `windows` holds for each
    window its generation, its attempt, and whether its slice is what that attempt published.
    """

    version: int | None
    windows: Mapping[str, tuple[int, str, bool | None]]


@dataclass
class Trial:
    """One table in the sandbox, and the runs that bring it to its end state."""

    name: str
    pipeline: Pipeline
    sandbox: Sandbox
    found: list[Finding] = field(default_factory=list)
    """What the search of the plans has found on the way."""
    ran: datetime | None = None
    """What the clock said when its last run began, for recognising it among the rows."""
    strict: bool = False
    """Whether a plan is refused for what production would refuse it for."""

    def bind(self, inputs: Mapping[str, SourcePort] | None = None) -> Bound:
        """The pipeline bound to the trial's table and to the inputs of the proof, or to others.

        Bound anew for every run, as every command does it.
        """
        bound = self.sandbox.project.bind(self.pipeline)
        inputs = self.sandbox.inputs.sources if inputs is None else inputs
        return replace(
            bound,
            sources={name: inputs.get(name, port) for name, port in bound.sources.items()},
            upstream={name: item for name, item in bound.upstream.items() if item.before},
        )

    def run(
        self,
        *windows: Window,
        fault: str = "",
        force: bool = False,
        variation: Variation = AS_IT_IS,
        tries: int = 1,
        inputs: Mapping[str, SourcePort] | None = None,
    ) -> list[Outcome]:
        """Run windows one after the other, each as a command of its own; errors are raised."""
        outcomes = []
        for window in windows:
            world, bound = self.world(fault, variation, tries), self.bind(inputs)
            self.ran = world.now()
            outcomes.append(self._one(bound, world, window, force))
        return outcomes

    def _one(self, bound: Bound, world: World, window: Window, force: bool) -> Outcome:
        given = self.sandbox.parameters
        (plan,) = plan_windows(bound, [window], world, parameters=given, how=How(force=force))
        if plan.is_unchanged:
            return record_unchanged(bound, [plan], world)[0]
        return run_window(bound, plan, world)

    def run_together(self, windows: Sequence[Window]) -> list[Outcome]:
        """Run windows that follow each other as one chunk of a backfill; errors are raised."""
        from setpoint.flow.chunk import run_chunk

        world, bound = self.world("", AS_IT_IS, 1), self.bind()
        self.ran = world.now()
        plans = plan_windows(bound, windows, world, parameters=self.sandbox.parameters)
        outcomes = []
        for ended in run_chunk(bound, plans, world):
            if ended.error is not None:
                raise ended.error
            assert ended.outcome is not None
            outcomes.append(ended.outcome)
        return outcomes

    def world(self, fault: str, variation: Variation, tries: int) -> World:
        """The world of production, but for what the trial varies."""
        world = self.sandbox.world
        engine = TrialEngine(world.engine, self.sandbox.connectors, variation, strict=self.strict)
        engine.found = self.found
        return replace(
            world,
            engine=engine,
            faults=Faults.from_environment({"SETPOINT_FAULT": fault}),
            retry=RetryPolicy(tries, 0.0, 0.0),
        )

    @contextmanager
    def tables(self) -> Iterator[Mapping[str, Any]]:
        """The rows of the target and of its quarantine, as frames that can be read inside.

        A table that was never made is left out.
        """
        adapters, session = self.sandbox.project.adapters, self.sandbox.session
        found, held = {}, []
        (window,) = self.sandbox.windows[:1]
        aside = quarantine_of(self.pipeline)
        beside = {QUARANTINE: aside} if aside is not None else {}
        try:
            for label, pipeline in {TARGET: self.pipeline, **beside}.items():
                if adapters.target(pipeline).table_id() is None:
                    continue
                whole = Source(origin=pipeline.target, whole=True)
                port = adapters.source(label, whole, self.pipeline)
                found[label] = port.read(session, window, port.pin([window])[window])
                held += [port] if isinstance(port, HoldingPort) else []
            yield found
        finally:
            for port in held:
                port.release(window)

    def committed(self, *windows: Window) -> Committed:
        """What the target's log says about windows."""
        target, adapters = self.bind().target, self.sandbox.project.adapters
        states = target.inspect(windows)
        version = None
        if target.table_id() is not None and self.pipeline.target.kind in ("delta", "iceberg"):
            whole = Source(origin=self.pipeline.target, whole=True)
            port = adapters.source(TARGET, whole, self.pipeline)
            version = port.pin(windows[:1])[windows[0]].version
        return Committed(
            version,
            {
                window.id: (
                    state.generation,
                    state.receipt.attempt if state.receipt else "",
                    state.untouched,
                )
                for window, state in states.items()
            },
        )

    def mark(self, window: Window) -> str | None:
        """The high-water mark of an incremental pipeline, as the latest receipt has it."""
        receipt = self.bind().target.inspect([window])[window].receipt
        return receipt.high_water_mark if receipt else None

    def slices(self, *windows: Window) -> dict[str, str]:
        """The files that hold each window, as one value; empty where there are no files."""
        column = self.pipeline.slice_column
        if column is None or self.pipeline.target.kind == "postgres":
            return {}
        timed = Source(origin=self.pipeline.target, time=column)
        port = self.sandbox.project.adapters.source(TARGET, timed, self.pipeline)
        return {window.id: pin.fingerprint for window, pin in port.pin(windows).items()}
