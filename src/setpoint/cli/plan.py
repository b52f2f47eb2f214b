"""`setpoint plan`: what a run would do, and why, without Spark."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from setpoint import edge
from setpoint.cli.output import Output
from setpoint.cli.selection import (
    add_selection,
    chosen_parameters,
    chosen_way,
    chosen_windows,
    open_project,
)
from setpoint.errors import counted
from setpoint.flow.plan import Bound
from setpoint.flow.run import plan_latest, plan_windows, refusal_of
from setpoint.flow.steps import Plan
from setpoint.project.discover import pipeline_named


def configure(parser: argparse.ArgumentParser) -> None:
    add_selection(parser)


def execute(options: argparse.Namespace, output: Output) -> int:
    with open_project(options, output) as project:
        pipeline = pipeline_named(project.config, options.pipeline)
        parameters = chosen_parameters(options, pipeline)
        windows, resolved_default = chosen_windows(options, pipeline, edge.utc_now(), output)
        bound, how = project.bind(pipeline), chosen_way(options, pipeline)
        world = project.world()
        if resolved_default:
            plans = plan_latest(bound, windows[0], world, parameters=parameters, how=how)
        else:
            plans = plan_windows(bound, windows, world, parameters=parameters, how=how)
        data = {
            "pipeline": pipeline.name,
            "target": bound.target.uri,
            "windows": [
                {
                    "window": plan.run.window.id,
                    "action": _action(bound, plan),
                    "reason": plan.reason,
                    "run_key": plan.run.key,
                    "steps": [{"step": s.name, "what": s.describe()} for s in plan.steps],
                }
                for plan in plans
            ],
        }
        lines = list(_lines(bound, plans, output))
    output.answer(data, lines)
    return 0


def _action(bound: Bound, plan: Plan) -> str:
    if plan.is_unchanged:
        return "unchanged"
    return "refuse" if refusal_of(bound, plan) else "run"


def _lines(bound: Bound, plans: list[Plan], output: Output) -> Iterator[str]:
    for plan in plans:
        if refusal := refusal_of(bound, plan):
            yield f"{output.paint('refuse', 'red')}  {plan.run.label}  {refusal}"
            continue
        if plan.is_unchanged:
            yield f"{output.paint('unchanged', 'dim')}  {plan.run.label}  {plan.reason}"
            continue
        yield f"{output.paint('run', 'bold')}  {plan.run.label}  {plan.reason}"
        for step in plan.steps:
            yield f"  {step.name:<8} {step.describe()}"
    todo = sum(not plan.is_unchanged for plan in plans)
    if len(plans) > 1:
        yield f"{todo} of {counted(len(plans), 'window')} to run"
