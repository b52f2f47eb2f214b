"""The Python API: run a pipeline, or publish a frame from an existing job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.flow.plan import Bound
from setpoint.flow.run import plan_windows, record_unchanged, run_window
from setpoint.flow.steps import Audit, Plan, Publish, Record, Stage
from setpoint.flow.world import Outcome
from setpoint.model.audit import rides_along
from setpoint.model.pipeline import Pipeline, pipeline
from setpoint.model.ranges import parse_windows
from setpoint.model.run import Run
from setpoint.model.table import Table
from setpoint.model.window import Window
from setpoint.model.write import WritePattern
from setpoint.project.config import Config, find_config
from setpoint.project.wiring import Project

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run(
    pipeline: Pipeline,
    window: Window | str,
    *,
    parameters: Mapping[str, Any] | None = None,
    force: bool = False,
    config: Config | None = None,
) -> Outcome:
    """Bring one window of a pipeline to the state of one clean run.

    Uses the active Spark session if there is one. Raises a `SetpointError` when the window
    could not be published; the target is then as it was.
    """
    chosen = _one_window(window, pipeline)
    with Project(config or find_config(Path.cwd())) as project:
        bound = project.bind(pipeline)
        world = project.world()
        values = {**pipeline.parameters, **(parameters or {})}
        plan = plan_windows(bound, [chosen], world, parameters=values, force=force)[0]
        if plan.is_unchanged:
            return record_unchanged(bound, [plan], world)[0]
        return run_window(bound, plan, world)


def publish(
    frame: DataFrame,
    *,
    target: Table,
    window: Window | str,
    write: WritePattern | None = None,
    audits: Sequence[Any] = (),
    name: str | None = None,
    timezone: str = "UTC",
) -> Outcome:
    """Make a frame the content of a window: the one-line change in an existing PySpark job.

    Replaces `frame.write.mode("append")...`. Stages the rows, audits them and publishes them
    in one commit with a receipt. Publishing the same rows again changes nothing. The history
    belongs to `name`, by default the last part of the target's name.
    """
    chosen = window if isinstance(window, Window) else Window.parse(window, timezone=timezone)
    made = pipeline(
        every=str(chosen.grain),
        target=target,
        write=write,
        audits=audits,
        name=name or _name_of(target),
        timezone=chosen.timezone,
    )(lambda window: frame)
    config = find_config(Path.cwd())
    with Project(config, trigger="publish") as project:
        bound = project.bind(made)
        world = project.world(with_ledger=config.file is not None)
        world = replace(world, engine=_GivenSession(frame.sparkSession))
        return run_window(bound, _plan_of_frame(bound, chosen), world)


class _GivenSession:
    """The engine when the caller brought the session along with the frame."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def session(self, connectors: frozenset[str]) -> SparkSession:
        from setpoint.spark.session import require_connectors

        require_connectors(self._session, connectors)
        return self._session

    def pinned(self, session: SparkSession) -> AbstractContextManager[None]:
        from setpoint.spark.stage import pinned_settings

        return pinned_settings(session)


def _plan_of_frame(bound: Bound, window: Window) -> Plan:
    made = bound.pipeline
    state = bound.target.inspect([window])[window]
    run = Run(made, window, {}, {}, "", made.definition(), by_contents=True)
    steps = (
        Stage(bound.target.uri, tuple(a.name for a in made.audits if rides_along(a))),
        Audit(tuple(a.name for a in made.audits if not rides_along(a))),
        Publish(state.generation + 1, bound.target.mechanism()),
        Record(),
    )
    return Plan(run, state, "a frame was handed over", steps)


def _one_window(window: Window | str, pipeline: Pipeline) -> Window:
    if isinstance(window, str):
        windows = parse_windows(window, pipeline.every, pipeline.timezone)
        if len(windows) == 1:
            return windows[0]
        what = f"{window!r:.80} names {len(windows)} windows"
    elif window.grain == pipeline.every and window.timezone == pipeline.timezone:
        return window
    else:
        what = (
            f"{window.id} is a {window.grain} window in {window.timezone}, but {pipeline.name} "
            f"runs every {pipeline.every} in {pipeline.timezone}"
        )
    raise UsageError(
        "SP-W02",
        f"{what}.",
        state=NOTHING_STARTED,
        next="Give one window of the pipeline's grain.",
    )


def _name_of(target: Table) -> str:
    last = re.split(r"[/.]", target.label.rstrip("/"))[-1]
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", last)
    return name if name[:1].isalpha() else f"table_{name}"
