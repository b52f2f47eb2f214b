"""`setpoint backfill`: bring a range of windows to the state of one clean run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import cast, get_args

from setpoint import edge
from setpoint.cli.outcomes import report
from setpoint.cli.output import Output
from setpoint.cli.selection import (
    add_windows,
    chosen_parameters,
    given_windows,
    open_project,
    positive,
)
from setpoint.flow.backfill import USUALLY, Choice, Only, backfill, choose
from setpoint.flow.plan import Bound
from setpoint.flow.run import plan_windows, with_retries
from setpoint.flow.steps import Plan
from setpoint.project.discover import pipeline_named

_LISTED = 40


def configure(parser: argparse.ArgumentParser) -> None:
    add_windows(parser, "every window that should exist")
    parser.add_argument(
        "--only",
        action="append",
        choices=get_args(Only),
        help="windows of this state; may be repeated; default: missing and failed",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the windows and stop")
    parser.add_argument(
        "--chunk",
        type=positive,
        metavar="N",
        help="at most N windows in one Spark job and one commit; default: as many as fit",
    )


def execute(options: argparse.Namespace, output: Output) -> int:
    only = tuple(cast(Sequence[Only], options.only or USUALLY))
    with open_project(options, output) as project:
        pipeline = pipeline_named(project.config, options.pipeline)
        parameters = chosen_parameters(options, pipeline)
        windows = given_windows(options, pipeline, edge.utc_now(), output)
        world = project.world()

        def looked(number: int) -> tuple[Bound, list[Choice]]:
            bound = project.bind(pipeline)
            return bound, choose(bound, world, edge.utc_now(), only, windows)

        bound, choices = with_retries(world, pipeline.name, looked)
        chosen = [choice.window for choice in choices if choice.chosen]
        for line in _lines(pipeline.name, choices, only):
            output.note(line)
        if options.dry_run or not chosen:
            data = {
                "pipeline": pipeline.name,
                "only": list(only),
                "windows": [_data(choice) for choice in choices],
            }
            output.answer(data, ())
            return 0

        def planned(number: int) -> list[Plan]:
            return plan_windows(bound, chosen, world, parameters=parameters)

        plans = with_retries(world, pipeline.name, planned)
        ended = backfill(bound, plans, world, options.chunk)
        return report(pipeline.name, ended, len(plans), output)


def _lines(name: str, choices: Sequence[Choice], only: Sequence[Only]) -> Iterator[str]:
    chosen = [choice for choice in choices if choice.chosen]
    yield f"{name}  {len(chosen):,} of {len(choices):,} windows ({' and '.join(only)})"
    for choice in chosen[:_LISTED]:
        reason = choice.status.reason.split("  ", 1)[0]
        yield f"  {choice.window.id}  {choice.status.state}  {reason[:100]}"
    if len(chosen) > _LISTED:
        yield f"  and {len(chosen) - _LISTED:,} more, up to {chosen[-1].window.id}"


def _data(choice: Choice) -> dict[str, object]:
    return {
        "window": choice.window.id,
        "state": choice.status.state,
        "action": "run" if choice.chosen else "skip",
        "reason": choice.status.reason,
    }
