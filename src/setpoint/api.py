"""The Python API: run a pipeline, or publish a frame from an existing job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.flow.plan import Bound, plan_of_frame
from setpoint.flow.run import plan_windows, planned, record_unchanged, run_window
from setpoint.flow.steps import EVERY, How, Plan
from setpoint.flow.world import Outcome
from setpoint.model.pipeline import Pipeline, pipeline
from setpoint.model.ranges import parse_windows
from setpoint.model.table import Table
from setpoint.model.window import Window
from setpoint.model.write import WritePattern
from setpoint.project.config import find_config
from setpoint.project.wiring import Project, known_parameters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run(
    pipeline: Pipeline,
    window: Window | str | None = None,
    *,
    parameters: Mapping[str, Any] | None = None,
    force: bool = False,
    as_published: bool = False,
    refresh: bool | str = False,
    again: tuple[str, str] | None = None,
    config: str | Path | None = None,
) -> Outcome:
    """Bring one window of a pipeline to the state of one clean run.

    An incremental pipeline needs no window: it goes on from its high-water mark, or reads a
    range of its cursor, `again=(start, end)` with the end not included, once more.
    `as_published` reads the versions of the inputs that the last publish has read; `refresh`
    lands anew what is landed already, all of it or the input of that name.

    Uses the active Spark session if there is one, and the project of the current folder, or
    the one of the configuration file `config`. Raises a `SetpointError` when the window
    could not be published; the target is then as it was.
    """
    if window is None and pipeline.every.is_incremental:
        window = str(pipeline.every)
    chosen = _one_window(window, pipeline)
    if again is not None and not pipeline.every.is_incremental:
        raise UsageError(
            "SP-W02",
            f"again= is for incremental pipelines, and {pipeline.name} runs every "
            f"{pipeline.every}.",
            state=NOTHING_STARTED,
            next="Run the windows again with force=True.",
        )
    if as_published and refresh:
        raise UsageError(
            "SP-C01",
            "as_published= and refresh= exclude each other.",
            state=NOTHING_STARTED,
            next="Read what was published, or land it anew.",
        )
    anew = EVERY if refresh is True else refresh or ""
    how = How(force, again, as_published, anew)
    with Project(find_config(Path.cwd(), config)) as project:
        values = {**pipeline.parameters, **known_parameters(pipeline, parameters or {})}
        world = project.world()

        def look() -> tuple[Bound, Plan]:
            bound = project.bind(pipeline)
            (plan,) = plan_windows(bound, [chosen], world, parameters=values, how=how)
            return bound, plan

        bound, plan = planned(world, pipeline, [chosen], look)
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
    allow: Mapping[str, str] | None = None,
) -> Outcome:
    """Make a frame the content of a window: the one-line change in an existing PySpark job.

    Replaces `frame.write.mode("append")...`. Stages the rows, audits them and publishes them
    in one commit with a receipt. Publishing the same rows again changes nothing. The history
    belongs to `name`, by default the last part of the target's name. `allow` names findings of
    the determinism check that are no mistake, each with its reason.
    """
    chosen = window if isinstance(window, Window) else Window.parse(window, timezone=timezone)
    made = pipeline(
        every=str(chosen.grain),
        target=target,
        write=write,
        audits=audits,
        name=name or _name_of(target),
        timezone=chosen.timezone,
        allow=allow,
    )(lambda window: frame)
    from setpoint.spark.engine import GivenSession

    config = find_config(Path.cwd())
    with Project(config, trigger="publish") as project:
        world = project.world(with_ledger=config.file is not None)
        world = replace(world, engine=GivenSession(frame.sparkSession))

        def look() -> tuple[Bound, Plan]:
            bound = project.bind(made)
            return bound, plan_of_frame(bound, chosen, world)

        bound, plan = planned(world, made, [chosen], look)
        return run_window(bound, plan, world)


def _one_window(window: Window | str | None, pipeline: Pipeline) -> Window:
    if window is None:
        what = f"{pipeline.name} runs every {pipeline.every}, and no window was given"
    elif isinstance(window, str):
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
