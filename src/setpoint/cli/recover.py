"""`setpoint recover`: settle unknown commits, list and remove what crashes left behind."""

from __future__ import annotations

import argparse
from datetime import timedelta

from setpoint import edge
from setpoint.cli.confirm import confirm
from setpoint.cli.output import Output
from setpoint.cli.selection import open_project
from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.flow.recover import Remains, Settled, remains, settle
from setpoint.project.discover import pipeline_named, project_pipelines


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pipeline", nargs="?", help="one pipeline; default: all of the project")
    parser.add_argument("--clean", action="store_true", help="remove leftover staged files")
    parser.add_argument(
        "--older-than",
        type=float,
        default=24.0,
        metavar="HOURS",
        help="files of attempts that the ledger does not know are left alone until they are "
        "this old (default: 24)",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def execute(options: argparse.Namespace, output: Output) -> int:
    if options.older_than < 0:
        raise UsageError(
            "SP-C01",
            "--older-than needs a number of hours, 0 or more.",
            state=NOTHING_STARTED,
            next="See: setpoint recover --help",
        )
    with open_project(options, output) as project:
        if options.pipeline:
            chosen = [pipeline_named(project.config, options.pipeline)]
        else:
            chosen = list(project_pipelines(project.config).values())
        world = project.world()
        settled: list[Settled] = []
        found: list[Remains] = []
        bounds = {}
        bound_ones = [project.bind(pipeline) for pipeline in chosen]
        if world.ledger is not None and not options.pipeline:
            # Frames handed to publish() have a history too, but no pipeline in the project.
            known = {pipeline.name for pipeline in chosen}
            strangers = {
                (item.pipeline, item.target)
                for item in world.ledger.attempts(limit=None)
                if item.pipeline not in known and item.trigger == "publish"
            }
            bound_ones += [project.bind_history(name, uri) for name, uri in sorted(strangers)]
        for bound in bound_ones:
            bounds[bound.target.uri] = bound
            ours = settle(bound, world, edge.is_alive)
            settled += ours
            age = timedelta(hours=options.older_than)
            found += remains(bound, world, ours, older_than=age)
        removed: list[Remains] = []
        removable = [item for item in found if item.removable]
        if options.clean and removable:
            size = sum(item.leftover.size for item in removable)
            confirm(
                f"Remove {len(removable)} leftover stages ({size:,} bytes)?",
                yes=options.yes,
                next="setpoint recover --clean --yes",
            )
            for item in removable:
                bounds[item.target].target.drop_stage(item.leftover.location)
                removed.append(item)
    data = {
        "settled": [
            {
                "pipeline": item.attempt.pipeline,
                "window": item.attempt.window_id,
                "attempt": item.attempt.attempt_id,
                "verdict": item.verdict,
                "detail": item.detail,
            }
            for item in settled
        ],
        "leftovers": [
            {
                "pipeline": item.leftover.pipeline,
                "window": item.leftover.window,
                "attempt": item.leftover.attempt,
                "location": f"{item.target}/{item.leftover.location}",
                "files": item.leftover.files,
                "bytes": item.leftover.size,
                "removable": item.removable,
                "reason": item.reason,
                "removed": item in removed,
            }
            for item in found
        ],
    }
    output.answer(data, _lines(settled, found, removed, output))
    return 0


def _lines(
    settled: list[Settled], found: list[Remains], removed: list[Remains], output: Output
) -> list[str]:
    colours = {"published": "green", "crashed": "yellow"}
    lines = [
        f"{output.paint(item.verdict, colours.get(item.verdict, 'bold'))}  "
        f"{item.attempt.pipeline}[{item.attempt.window_id}]  attempt {item.attempt.attempt_id}: "
        f"{item.detail}"
        for item in settled
    ]
    for item in found:
        word = "removed" if item in removed else "leftover"
        lines.append(
            f"{word}  {item.target}/{item.leftover.location}  {item.leftover.files} files, "
            f"{item.leftover.size:,} bytes; {item.reason}"
        )
    if not settled and not found:
        lines.append("Nothing to recover: no open attempts, no leftover stages.")
    elif any(item.removable for item in found) and not removed:
        lines.append(
            "Leftovers are visible to no reader. Remove them with: setpoint recover --clean"
        )
    return lines
