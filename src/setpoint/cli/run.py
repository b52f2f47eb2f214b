"""`setpoint run`: bring windows to the state of one clean run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from setpoint import edge
from setpoint.cli import plan as plan_verb
from setpoint.cli.output import Output
from setpoint.cli.selection import (
    add_selection,
    chosen_parameters,
    chosen_way,
    chosen_windows,
    open_project,
)
from setpoint.errors import SetpointError
from setpoint.flow.plan import Bound
from setpoint.flow.run import (
    plan_latest,
    plan_windows,
    record_unchanged,
    run_window,
    with_retries,
)
from setpoint.flow.steps import Plan
from setpoint.flow.world import Outcome, World
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

        def planned(number: int) -> tuple[Bound, list[Plan]]:
            bound = project.bind(pipeline)
            if resolved_default:
                (latest,) = windows
                return bound, plan_latest(bound, latest, world, parameters=parameters, how=how)
            return bound, plan_windows(bound, windows, world, parameters=parameters, how=how)

        bound, plans = with_retries(world, pipeline.name, planned)
        return execute_plans(bound, plans, world, output)


def execute_plans(bound: Bound, plans: Sequence[Plan], world: World, output: Output) -> int:
    """Fulfil plans one after the other, tell how each ended, and return the exit code."""
    unchanged = [plan for plan in plans if plan.is_unchanged]
    settled = {outcome.window: outcome for outcome in record_unchanged(bound, unchanged, world)}
    outcomes: list[Outcome] = []
    failures: list[tuple[Plan, SetpointError]] = []
    for plan in plans:
        outcome = settled.get(plan.run.window.id)
        if outcome is None:
            try:
                outcome = run_window(bound, plan, world)
            except Exception as error:
                # One window must not keep the others from being tried.
                told = error if isinstance(error, SetpointError) else output.unexpected(error)
                failures.append((plan, told))
                if len(plans) > 1:
                    output.note(str(told))
                continue
        outcomes.append(outcome)
        if outcome.state == "published" or len(unchanged) <= _SHOWN:
            output.line(_line(output, outcome))
        for note in outcome.notes:
            output.note(f"  {note}")
        for result in outcome.warnings:
            output.warn(f"audit {result.name}: {result.detail or 'failed'}")
    if len(unchanged) > _SHOWN:
        output.line(f"{len(unchanged)} windows are unchanged")
    data = {
        "pipeline": bound.pipeline.name,
        "windows": sorted(
            [_data(outcome) for outcome in outcomes]
            + [_failed_data(plan, error) for plan, error in failures],
            key=lambda item: str(item["window"]),
        ),
    }
    if not failures:
        output.answer(data, ())
        return 0
    worst = max((error for _, error in failures), key=lambda error: error.exit_code)
    if len(plans) > 1:
        output.failed(data, _summary(outcomes, failures), worst)
    else:
        output.error(worst)
    return worst.exit_code


_SHOWN = 20


def _line(output: Output, outcome: Outcome) -> str:
    label = f"{outcome.pipeline}[{outcome.window}]"
    receipt = outcome.receipt
    if outcome.state == "unchanged" or receipt is None:
        return f"{output.paint('unchanged', 'dim')}  {label}  {outcome.reason}"
    what = "receipt only, same rows" if outcome.only_receipt else f"{receipt.rows:,} rows"
    tries = f", {outcome.tries} tries" if outcome.tries > 1 else ""
    return (
        f"{output.paint('published', 'green')}  {label}  {what}, generation {receipt.generation}, "
        f"{outcome.seconds:.1f} s{tries}  ({outcome.reason})"
    )


def _data(outcome: Outcome) -> dict[str, Any]:
    receipt = outcome.receipt
    return {
        "window": outcome.window,
        "state": outcome.state,
        "reason": outcome.reason,
        "rows": receipt.rows if receipt else None,
        "generation": receipt.generation if receipt else None,
        "only_receipt": outcome.only_receipt,
        "attempt": outcome.attempt,
        "run_key": receipt.run_key if receipt else None,
        "contents": receipt.contents if receipt else None,
        "high_water_mark": receipt.high_water_mark if receipt else None,
        "seconds": round(outcome.seconds, 3),
        "tries": outcome.tries,
        "notes": list(outcome.notes),
        "warnings": [{"audit": r.name, "detail": r.detail} for r in outcome.warnings],
    }


def _failed_data(plan: Plan, error: SetpointError) -> dict[str, Any]:
    return {"window": plan.run.window.id, "state": "failed", "error": error.as_dict()}


def _summary(outcomes: list[Outcome], failures: list[tuple[Plan, SetpointError]]) -> str:
    ids = ", ".join(plan.run.window.id for plan, _ in failures[:10])
    more = "" if len(failures) <= 10 else f" and {len(failures) - 10} more"
    return f"{len(outcomes)} windows ended well, {len(failures)} did not: {ids}{more}"
