"""`setpoint run`: bring windows to the state of one clean run."""

from __future__ import annotations

import argparse

from setpoint import edge
from setpoint.cli import plan as plan_verb
from setpoint.cli.outcomes import report
from setpoint.cli.output import Output
from setpoint.cli.selection import (
    add_selection,
    chosen_parameters,
    chosen_way,
    chosen_windows,
    open_project,
)
from setpoint.flow.plan import Bound
from setpoint.flow.run import plan_latest, plan_windows, planned, run_windows
from setpoint.flow.steps import Plan
from setpoint.project.discover import pipeline_named


def configure(parser: argparse.ArgumentParser) -> None:
    add_selection(parser)
    parser.add_argument("--dry-run", action="store_true", help="show the plan and stop")


def execute(options: argparse.Namespace, output: Output) -> int:
    if options.dry_run:
        return plan_verb.execute(options, output)
    with open_project(options, output) as project:
        pipeline = pipeline_named(project.config, options.pipeline)
        parameters = chosen_parameters(options, pipeline)
        windows, resolved_default = chosen_windows(options, pipeline, edge.utc_now(), output)
        how = chosen_way(options, pipeline)
        world = project.world(resolved_default=resolved_default)

        def look() -> tuple[Bound, list[Plan]]:
            bound = project.bind(pipeline)
            if resolved_default:
                (latest,) = windows
                return bound, plan_latest(bound, latest, world, parameters=parameters, how=how)
            return bound, plan_windows(bound, windows, world, parameters=parameters, how=how)

        bound, plans = planned(world, pipeline, windows, look)
        ended = run_windows(bound, plans, world)
        return report(pipeline.name, ended, len(plans), output)
