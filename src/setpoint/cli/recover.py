"""`setpoint recover`: settle unknown commits, list and remove what crashes left behind."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from setpoint import edge
from setpoint.cli.confirm import confirm
from setpoint.cli.output import Output
from setpoint.cli.selection import open_project
from setpoint.errors import NOTHING_STARTED, PermanentError, SetpointError, UsageError, counted
from setpoint.flow.plan import Bound
from setpoint.flow.recover import Remains, Settled, remains, settle
from setpoint.flow.world import World
from setpoint.project.discover import pipeline_named, project_pipelines
from setpoint.project.wiring import Project

_DEFAULT_HOURS = 24.0
_MOST_HOURS = 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pipeline", nargs="?", help="one pipeline; default: all of the project")
    parser.add_argument("--clean", action="store_true", help="remove leftover staged files")
    parser.add_argument(
        "--older-than",
        type=float,
        default=_DEFAULT_HOURS,
        metavar="HOURS",
        help="files of attempts that the ledger does not know are left alone until they are "
        "this old (default: 24)",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def execute(options: argparse.Namespace, output: Output) -> int:
    if not 0 <= options.older_than <= _MOST_HOURS:
        raise UsageError(
            "SP-C01",
            f"--older-than needs a number of hours from 0 to {_MOST_HOURS:,}.",
            state=NOTHING_STARTED,
            next="See: setpoint recover --help",
        )
    settled: list[Settled] = []
    found: list[Remains] = []
    removed: list[Remains] = []
    broken: list[tuple[str, SetpointError]] = []
    with open_project(options, output) as project:
        world = project.world()
        if world.ledger is None and project.config.file is not None:
            raise PermanentError(
                "SP-L01",
                "The ledger could not be read, so open attempts are not known.",
                why="Only the ledger knows which attempts did not end.",
                state="Nothing was settled and nothing was removed; every window holds its old "
                "rows or the new ones, never a mixture.",
                next="Repair the ledger as the warning says, then: setpoint recover",
            )
        age = timedelta(hours=options.older_than)
        for name, bind in _bindings(options, project, world).items():
            try:
                main = bind()
                for bound in (main, main.quarantine) if main.quarantine else (main,):
                    ours = settle(bound, world, edge.is_alive)
                    settled += ours
                    found += remains(bound, world, ours, older_than=age)
            except SetpointError as error:
                # One table that cannot be read must not keep the others from being settled.
                broken.append((name, error))
        if not options.pipeline:
            settled += _of_nobody(settled, world)
        removable = [item for item in found if item.removable]
        if options.clean and removable:
            size = sum(item.leftover.size for item in removable)
            command = shlex.join([*_command(options), "--yes"])
            confirm(
                f"Remove the stages of {counted(len(removable), 'attempt')} ({size:,} bytes)?",
                yes=options.yes,
                next=command,
            )
            for item in removable:
                try:
                    item.drop(item.leftover.location)
                    removed.append(item)
                except SetpointError as error:
                    broken.append((item.leftover.location, error))
    data: dict[str, Any] = {
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
    if broken:
        data["broken"] = [{"name": name, "error": error.as_dict()} for name, error in broken]
    lines = _lines(settled, found, removed, shlex.join(_command(options)), output)
    lines += [f"{output.paint('broken', 'red')}  {name}  {error}" for name, error in broken]
    output.answer(data, lines, ok=not broken)
    return broken[0][1].exit_code if broken else 0


def _bindings(
    options: argparse.Namespace, project: Project, world: World
) -> dict[str, Callable[[], Bound]]:
    """The targets to look at: of the pipelines, and of frames handed to publish()."""
    if options.pipeline:
        chosen = [pipeline_named(project.config, options.pipeline)]
    else:
        chosen = list(project_pipelines(project.config).values())
    bindings: dict[str, Callable[[], Bound]] = {
        pipeline.name: partial(project.bind, pipeline) for pipeline in chosen
    }
    if world.ledger is not None and not options.pipeline:
        strangers = {
            (item.pipeline, item.target)
            for item in world.ledger.attempts(limit=None)
            if item.pipeline not in bindings and item.trigger == "publish"
        }
        for name, uri in sorted(strangers):
            bindings[f"{name} at {uri}"] = partial(project.bind_history, name, uri)
    return bindings


def _of_nobody(settled: list[Settled], world: World) -> list[Settled]:
    """Open attempts at targets that no pipeline led to."""
    known = {item.attempt.attempt_id for item in settled}
    attempts = world.ledger.open_attempts() if world.ledger else ()
    return [
        Settled(item, "open", f"its target {item.target} was not looked at")
        for item in attempts
        if item.attempt_id not in known
    ]


def _command(options: argparse.Namespace) -> list[str]:
    """The command that removes exactly what this one lists."""
    words = ["setpoint", "recover", *([options.pipeline] if options.pipeline else []), "--clean"]
    if options.older_than != _DEFAULT_HOURS:
        words += ["--older-than", f"{options.older_than:g}"]
    return words


def _lines(
    settled: list[Settled],
    found: list[Remains],
    removed: list[Remains],
    command: str,
    output: Output,
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
            f"{word}  {item.target}/{item.leftover.location}  "
            f"{counted(item.leftover.files, 'file')}, {item.leftover.size:,} bytes; {item.reason}"
        )
    if not settled and not found:
        lines.append("Nothing to recover: no open attempts, no leftover stages.")
    elif any(item.removable for item in found) and not removed:
        lines.append(f"Leftovers are visible to no reader. Remove them with: {command}")
    return lines
