"""`setpoint status`: done, missing, failed and stale windows of every pipeline."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from setpoint import edge
from setpoint.cli.output import Output, table
from setpoint.cli.selection import open_project
from setpoint.errors import SetpointError, counted, shortened
from setpoint.flow.status import STATES, PipelineStatus, WindowState, status
from setpoint.project.discover import pipeline_named, pipelines, project_pipelines
from setpoint.project.graph import upstream_of
from setpoint.prove.certificate import Standing, standing

_LISTED: tuple[WindowState, ...] = ("failed", "missing", "stale", "touched", "unknown")
_RANGES = 12


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pipeline", nargs="?", help="one pipeline; default: all of the project")
    parser.add_argument("--windows", action="store_true", help="list every window")


def execute(options: argparse.Namespace, output: Output) -> int:
    with open_project(options, output) as project:
        if options.pipeline:
            chosen = [pipeline_named(project.config, options.pipeline)]
            known = {**pipelines(project.config), chosen[0].name: chosen[0]}
        else:
            known = project_pipelines(project.config)
            chosen = list(known.values())
        graph = upstream_of(known.values(), project.config)
        proofs = {item.name: standing(project.config.root, item) for item in chosen}
        world = project.world()
        found = []
        broken: list[tuple[str, SetpointError]] = []
        for pipeline in chosen:
            try:
                found.append(status(project.bind(pipeline), world, edge.utc_now()))
            except SetpointError as error:
                broken.append((pipeline.name, error))
    data = {
        "pipelines": [
            {
                **_data(item),
                "upstream": list(graph[item.pipeline]),
                "proof": proofs[item.pipeline].as_dict(),
            }
            for item in found
        ]
        + [{"pipeline": name, "error": error.as_dict()} for name, error in broken]
    }
    output.answer(data, list(_lines(found, broken, proofs, options.windows, output)), ok=not broken)
    return broken[0][1].exit_code if broken else 0


def _lines(
    found: list[PipelineStatus],
    broken: list[tuple[str, SetpointError]],
    proofs: Mapping[str, Standing],
    every_window: bool,
    output: Output,
) -> Iterator[str]:
    if not found and not broken:
        yield "This project has no pipelines yet; write a first one: setpoint init"
        return
    if found:
        rows = [
            [
                item.pipeline,
                item.every,
                *(f"{item.count(state):,}" for state in STATES),
                item.windows[-1].window.id if item.windows else "-",
                proofs[item.pipeline].words,
            ]
            for item in found
        ]
        yield from table(rows, ["pipeline", "every", *STATES, "latest", "proof"])
    for item in found:
        for state in _LISTED:
            ranges = item.ranges(state)
            for first, last, number in ranges[:_RANGES]:
                span = first.id if number == 1 else f"{first.id}..{last.id} ({number:,} windows)"
                reason = shortened(next(w.reason for w in item.windows if w.window == first))
                yield f"{output.paint(state, 'yellow')}  {item.pipeline}[{span}]  {reason}"
            if len(ranges) > _RANGES:
                yield f"{state}  {item.pipeline}  {len(ranges) - _RANGES} more ranges"
        yield from _repairs(item)
        if item.problem is not None:
            yield f"{item.pipeline}: whether windows are stale is not known. {item.problem}"
        if every_window:
            for window in item.windows:
                rows_text = "" if window.rows is None else f"{counted(window.rows, 'row')}"
                yield f"  {window.window.id}  {window.state:<8} {rows_text}"
    for name, error in broken:
        yield f"{output.paint('broken', 'red')}  {name}  {error}"


def _repairs(item: PipelineStatus) -> Iterator[str]:
    """The commands that bring what is not done to where it should be."""
    if item.every == "incremental" or item.problem is not None:
        return
    if item.count("missing") or item.count("failed"):
        yield f"  to fill: setpoint backfill {item.pipeline}"
    if item.count("stale") or item.count("touched"):
        yield f"  to bring up to date: setpoint backfill {item.pipeline} --only stale"


def _data(item: PipelineStatus) -> dict[str, Any]:
    return {
        "pipeline": item.pipeline,
        "every": item.every,
        "target": item.target,
        "counts": {state: item.count(state) for state in STATES},
        "problem": item.problem.as_dict() if item.problem else None,
        "windows": [
            {
                "window": window.window.id,
                "state": window.state,
                "reason": window.reason,
                "generation": window.generation,
                "rows": window.rows,
            }
            for window in item.windows
        ],
    }
