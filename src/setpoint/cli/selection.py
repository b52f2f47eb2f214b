"""The options that choose a pipeline, its windows and its parameters."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from setpoint.cli.output import Output
from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.flow.steps import EVERY, How
from setpoint.model.pipeline import Pipeline
from setpoint.model.ranges import parse_windows
from setpoint.model.window import Window
from setpoint.project.config import find_config
from setpoint.project.wiring import Project, parameters_of


def add_windows(parser: argparse.ArgumentParser, default: str) -> None:
    """Options that choose a pipeline, its windows and its parameters."""
    parser.add_argument("pipeline", help="a pipeline's name, or file.py:name")
    parser.add_argument(
        "--window",
        "--windows",
        metavar="ID",
        help=f"2026-04-25, a range A..B (both included) or a list A,C..D; default: {default}",
    )
    parser.add_argument("--from", dest="first", metavar="ID", help="the first window of a range")
    parser.add_argument("--to", dest="last", metavar="ID", help="the last window, included")
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the pipeline; may be repeated",
    )


def positive(text: str) -> int:
    """The value of an option that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not a number of 1 or more")
    return int(text)


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Options of verbs that work on windows of one pipeline."""
    add_windows(parser, "the latest complete window")
    parser.add_argument(
        "--range",
        metavar="A..B",
        help="for incremental pipelines: read the cursor's values from A to before B again, and "
        "leave the high-water mark alone",
    )
    parser.add_argument(
        "--force", action="store_true", help="run even if nothing changed since the last publish"
    )
    parser.add_argument(
        "--as-published",
        action="store_true",
        help="read the versions of the inputs that the last publish has read, not those of now",
    )
    parser.add_argument(
        "--refresh",
        nargs="?",
        const=EVERY,
        default="",
        metavar="INPUT",
        help="land anew what is landed already, beside it: all inputs, or the one that is named",
    )


def open_project(options: argparse.Namespace, output: Output) -> Project:
    """The project that the command is about."""
    config = find_config(Path.cwd(), options.config)
    project = Project(config, tell=output.tell, warn=output.warn, trigger="cli")
    output.scrubbed = project.scrubbed
    return project


def chosen_windows(
    options: argparse.Namespace, pipeline: Pipeline, now: datetime, output: Output
) -> tuple[tuple[Window, ...], bool]:
    """The windows the user asked for; without any, the latest complete one, said aloud."""
    windows = given_windows(options, pipeline, now, output)
    if windows is not None:
        return windows, False
    window = Window.latest_complete(now, pipeline.every, pipeline.timezone)
    if pipeline.every.is_incremental:
        return (window,), False
    output.note(
        f"window {window.id}: the latest complete {pipeline.every} in {pipeline.timezone} "
        f"at {now.isoformat(timespec='seconds')}"
    )
    return (window,), True


def given_windows(
    options: argparse.Namespace, pipeline: Pipeline, now: datetime, output: Output
) -> tuple[Window, ...] | None:
    """The windows the user asked for; None without any."""
    ranged = options.first is not None or options.last is not None
    if options.window is not None and ranged:
        raise _usage("--window and --from/--to exclude each other")
    if (options.first is None) != (options.last is None):
        raise _usage("--from and --to belong together")
    if ranged:
        text = f"{options.first}..{options.last}"
    elif options.window is not None:
        text = options.window
    else:
        return None
    windows = tuple(parse_windows(text, pipeline.every, pipeline.timezone))
    timed = not pipeline.every.is_incremental
    open_ones = [window for window in windows if timed and window.end > now]
    if open_ones:
        output.warn(
            f"{_ids(open_ones)} not over yet: rows that arrive later are missing until it is "
            "run again."
        )
    return windows


def chosen_way(options: argparse.Namespace, pipeline: Pipeline) -> How:
    """How the windows are to be run."""
    if options.as_published and options.refresh:
        raise _usage("--as-published and --refresh exclude each other")
    again = _chosen_range(options, pipeline)
    return How(options.force, again, options.as_published, options.refresh)


def _chosen_range(options: argparse.Namespace, pipeline: Pipeline) -> tuple[str, str] | None:
    """The range of the cursor to read again, if one was asked for."""
    if options.range is None:
        return None
    if not pipeline.every.is_incremental:
        raise _usage(
            f"--range is for incremental pipelines, and {pipeline.name} runs every {pipeline.every}"
        )
    start, dots, end = options.range.partition("..")
    if not dots or not start.strip() or not end.strip():
        raise _usage(f"--range {options.range!r:.80} is not A..B")
    return start.strip(), end.strip()


def chosen_parameters(options: argparse.Namespace, pipeline: Pipeline) -> dict[str, Any]:
    """The parameters, with what --param says."""
    given = {}
    for item in options.param:
        name, separator, value = item.partition("=")
        if not separator or not name:
            raise _usage(f"--param {item!r:.80} is not NAME=VALUE")
        given[name] = value
    return parameters_of(pipeline, given)


def _ids(windows: Sequence[Window]) -> str:
    first = windows[0].id
    return f"{first} is" if len(windows) == 1 else f"{first} and {len(windows) - 1} more are"


def _usage(what: str) -> UsageError:
    return UsageError(
        "SP-C01", f"{what}.", state=NOTHING_STARTED, next="See the options with --help."
    )
