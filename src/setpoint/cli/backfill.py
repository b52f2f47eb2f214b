"""`setpoint backfill`: bring a range of windows to the state of one clean run."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, cast, get_args

from setpoint import edge
from setpoint.cli import backfills
from setpoint.cli.outcomes import data_of, error_data, line_of
from setpoint.cli.output import Output, Stopped
from setpoint.cli.selection import (
    add_windows,
    chosen_parameters,
    given_windows,
    open_project,
    positive,
)
from setpoint.errors import NOTHING_STARTED, SetpointError, UsageError, counted, shortened
from setpoint.flow.backfill import USUALLY, Backfill, Choice, Only, Request, plan_backfill
from setpoint.flow.cascade import Cascade, Direction, members_of
from setpoint.flow.execution import CANCELLED, Execution
from setpoint.flow.plan import Bound
from setpoint.flow.run import Ended, with_retries
from setpoint.flow.status import expected_windows
from setpoint.flow.world import World
from setpoint.model.pipeline import Pipeline, carrying
from setpoint.model.window import Window
from setpoint.project.discover import pipeline_named, project_pipelines
from setpoint.project.graph import upstream_of
from setpoint.project.wiring import Project

_LISTED = 40
_REASON = 200


def configure(parser: argparse.ArgumentParser) -> None:
    add_windows(parser, "every window that should exist")
    parser.add_argument("id", nargs="?", help="with show and cancel: the id of a backfill")
    parser.add_argument(
        "--only",
        action="append",
        choices=get_args(Only),
        help="windows of this state; may be repeated; default: missing and failed",
    )
    parser.add_argument(
        "--restate", action="store_true", help="publish windows again although they are done"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before restating")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and stop")
    parser.add_argument(
        "--chunk",
        type=positive,
        metavar="N",
        help="at most N windows in one Spark job and one commit; default: as many as fit",
    )
    parser.add_argument(
        "--jobs", type=positive, default=1, metavar="N", help="chunks under way at once; default: 1"
    )
    parser.add_argument("--newest-first", action="store_true", help="default: the oldest first")
    parser.add_argument(
        "--max-failures", type=positive, metavar="N", help="start no more after N failed windows"
    )
    parser.add_argument("--fail-fast", action="store_true", help="the same as --max-failures 1")
    parser.add_argument(
        "--upstream", action="store_true", help="first the windows of pipelines that are read"
    )
    parser.add_argument(
        "--downstream", action="store_true", help="then the windows of pipelines that read them"
    )


def execute(options: argparse.Namespace, output: Output) -> int:
    if backfills.is_asked_for(options):
        return backfills.execute(options, output)
    request = _request(options)
    with open_project(options, output) as project:
        pipeline = pipeline_named(project.config, options.pipeline)
        if pipeline.every.is_incremental:
            raise _usage(
                f"{pipeline.name} goes by a high-water mark and has no windows to fill",
                f"Read a range of its cursor again: setpoint run {pipeline.name} --range A..B",
            )
        parameters = chosen_parameters(options, pipeline)
        windows = given_windows(options, pipeline, edge.utc_now(), output)
        world = project.world()

        def planned(number: int) -> Backfill | Cascade:
            bound, now = project.bind(pipeline), edge.utc_now()
            those = windows or _expected(bound, world, now)
            if directions := _directions(options):
                return _cascade(pipeline, those, directions, request, parameters, project)
            return plan_backfill(bound, world, now, request, parameters, those)

        plan = with_retries(world, pipeline.name, planned)
        said = _said(options, pipeline)
        lines = list(_lines(plan, said) if isinstance(plan, Backfill) else _members(plan))
        if options.dry_run:
            output.answer(plan.as_dict(), lines)
            return 0
        if not plan.windows:
            return _nothing(Execution(plan, world), lines, output)
        for line in lines:
            output.note(line)
        _ask(plan, options, output)
        return _run(Execution(plan, world), said, output)


def _said(options: argparse.Namespace, pipeline: Pipeline) -> str:
    """The command for the same windows of the pipeline, up to what is to be done with them."""
    words = ["setpoint", "backfill", pipeline.name]
    if options.window is not None:
        words += ["--window", options.window]
    elif options.first is not None:
        words += ["--from", options.first, "--to", options.last]
    return shlex.join(words)


def _expected(bound: Bound, world: World, now: datetime) -> Sequence[Window]:
    found = expected_windows(bound, world, now)
    if not found and bound.pipeline.start is None:
        raise _usage(
            f"{bound.pipeline.name} was never published and has no start=, so that nothing says "
            "which windows it should have",
            "Name them: --from A --to B; or give the pipeline a start.",
        )
    return found


def _request(options: argparse.Namespace) -> Request:
    if options.id is not None:
        raise _usage(f"{options.id!r:.80} is one word too many", "See: setpoint backfill --help")
    if options.restate and options.only:
        raise _usage("--restate and --only exclude each other", "Choose one of them.")
    if options.only and (options.upstream or options.downstream):
        raise _usage(
            "--only is for one pipeline",
            "Leave it out: with --upstream or --downstream, whatever is not done is done.",
        )
    if options.jobs > 1 and (options.upstream or options.downstream):
        raise _usage("--jobs is for one pipeline", "Leave it out: their order is kept.")
    if options.fail_fast and options.max_failures:
        raise _usage("--fail-fast and --max-failures exclude each other", "Choose one of them.")
    return Request(
        only=tuple(cast(Sequence[Only], options.only or USUALLY)),
        restate=options.restate,
        longest=options.chunk,
        jobs=options.jobs,
        newest_first=options.newest_first,
        max_failures=1 if options.fail_fast else options.max_failures,
    )


def _directions(options: argparse.Namespace) -> tuple[Direction, ...]:
    upstream: tuple[Direction, ...] = ("upstream",) if options.upstream else ()
    return (*upstream, "downstream") if options.downstream else upstream


def _cascade(
    root: Pipeline,
    windows: Sequence[Window],
    directions: tuple[Direction, ...],
    request: Request,
    parameters: Mapping[str, Any],
    project: Project,
) -> Cascade:
    """The windows of a pipeline with those of the pipelines that they read, or that read them."""
    known = project_pipelines(project.config)
    if root.name not in known:
        raise _usage(
            f"{root.name} is not a pipeline of the project", "Name it in [pipelines] paths."
        )
    graph = upstream_of(known.values(), project.config)

    def published(item: Pipeline) -> list[Window]:
        return carrying(item, project.bind(item).target.published_windows())

    return Cascade(
        backfill_id=edge.new_attempt_id(),
        root=root,
        members=tuple(
            members_of(root, windows, known, graph, directions, edge.utc_now(), published)
        ),
        request=request,
        parameters=parameters,
        bind=project.bind,
        started_at=edge.utc_now(),
        directions=directions,
    )


def _members(plan: Cascade) -> Iterator[str]:
    """A cascade as a person reads it: the pipelines in their order, with their windows."""
    yield (
        f"{_number(plan.windows, 'window')} of {_number(len(plan.members), 'pipeline')}, in order; "
        "what is up to date when its turn comes stays as it is"
    )
    for member in plan.members:
        for reason, group in groupby(member.windows, member.reason):
            windows = list(group)
            which = windows[0].id if len(windows) == 1 else f"{windows[0].id}..{windows[-1].id}"
            count = _number(len(windows), "window")
            yield f"  {member.pipeline.name}  {count}  {which}  ({reason})"


def _lines(plan: Backfill, said: str) -> Iterator[str]:
    """The plan as a person reads it: what runs, in how many pieces, and what is skipped and why."""
    which = (
        "all, also those that are done" if plan.request.restate else " and ".join(plan.request.only)
    )
    start = plan.bound.pipeline.start
    rows = f", {counted(plan.rows, 'row')} to read" if plan.rows is not None else ""
    chunks = f" in {_number(len(plan.chunks), 'chunk')}" if plan.chunks else ""
    yield (
        f"{plan.pipeline}  {len(plan.chosen):,} of {_number(len(plan.choices), 'window')} "
        f"({which}){chunks}{rows}"
    )
    if plan.alone and len(plan.chosen) > 1:
        yield f"  one window at a time: {plan.alone}"
    if plan.resumes:
        yield f"  this goes on with backfill {plan.backfill_id}, which was not done"
    if start and (early := sum(choice.window < start for choice in plan.chosen)):
        yield f"  {_number(early, 'window')} before the start of the pipeline, {start.id}"
    listed = list(_stretches(plan.choices))
    for line in listed[:_LISTED]:
        yield f"  {line}"
    if len(listed) > _LISTED:
        yield f"  and {len(listed) - _LISTED:,} more lines; all of them: --dry-run --json"
    yield from _following(plan, said)


def _following(plan: Backfill, said: str) -> Iterator[str]:
    if plan.following:
        first, last = plan.following[0].id, plan.following[-1].id
        which = first if first == last else f"{first}..{last} ({len(plan.following):,})"
        yield f"  these go on from it, and are stale if its rows change: {which}"
        yield f"  to run them as well: {said} --downstream"


def _stretches(choices: Sequence[Choice]) -> Iterator[str]:
    """Neighbours with one fate in one line."""

    def fate(choice: Choice) -> tuple[str, str, str]:
        # Of a failure its code counts: what it says names its own window.
        return choice.action, choice.status.state, choice.status.reason.split("  ", 1)[0]

    for (action, state, _), group in groupby(choices, fate):
        same = list(group)
        reason = shortened(same[0].status.reason, _REASON)
        first, last = same[0].window.id, same[-1].window.id
        which = first if len(same) == 1 else f"{first}..{last} ({len(same):,})"
        yield f"{action:7}  {which}  {state}{f': {reason}' if reason else ''}"


def _ask(plan: Backfill | Cascade, options: argparse.Namespace, output: Output) -> None:
    """Windows that are done are published again only by somebody who means it."""
    if isinstance(plan, Backfill):
        done = sum(choice.action == "restate" for choice in plan.chosen)
    else:
        roots = [member for member in plan.members if member.pipeline.name == plan.pipeline]
        done = sum(len(member.needs) - len(member.carried) for member in roots)
    if not done or not plan.request.restate or options.yes:
        return
    if not sys.stdin.isatty() or output.as_json:
        raise _usage(
            f"{_number(done, 'window')} would be published again although nothing changed",
            "Say that you mean it: --yes",
        )
    print(f"Publish {_number(done, 'window')} again? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise _usage("it was not confirmed", "Nothing was done.")


def _nothing(execution: Execution, lines: Sequence[str], output: Output) -> int:
    """There is nothing to do, or nothing any more."""
    plan = execution.plan
    output.event("plan", plan.as_dict())
    execution.settle()
    if plan.recorded:
        lines = [
            *lines,
            "  nothing was left of it, so that it is ended; the same command begins anew",
        ]
    output.answer(_data(execution, [], 0.0), lines)
    return 0


def _run(execution: Execution, said: str, output: Output) -> int:
    """Do it: a live line on a terminal, a line per window elsewhere, an event each with --json.

    `said` is the command for these windows.
    """
    plan, progress = execution.plan, execution.progress
    started = edge.utc_now()
    output.event("plan", plan.as_dict())
    errors: list[tuple[Ended, SetpointError]] = []
    blocked: list[tuple[Ended, SetpointError]] = []
    windows: list[dict[str, Any]] = []
    last: Exception | None = None
    stopped = False
    try:
        for end in execution.run():
            if end.outcome is None:
                error = end.error
                assert error is not None
                told = error if isinstance(error, SetpointError) else output.unexpected(error)
                (blocked if end.blocked else errors).append((end, told))
                windows.append({"pipeline": end.pipeline, **error_data(end.window.id, told)})
                if end.blocked:
                    windows[-1]["state"] = "blocked"
                if error is not last:  # a chunk that fails for one cause has one error
                    output.note(str(told))
                last = error
            else:
                windows.append({"pipeline": end.pipeline, **data_of(end.outcome)})
                _tell_window(end, output)
            output.event("window", windows[-1])
            output.tell(_bar(execution, _since(started)))
    except KeyboardInterrupt:
        stopped, progress.stopped = True, "interrupted"
    seconds = _since(started)
    data = _data(execution, windows, seconds)
    summary = list(_summary(execution, errors, blocked, seconds, said))
    if stopped:
        raise Stopped(data, summary)
    if not errors and not progress.stopped:
        output.answer(data, summary)
        return 0
    worst = max((error for _, error in errors), key=lambda error: error.exit_code, default=None)
    if worst is None:  # it was cancelled, from outside
        output.answer(data, summary, ok=False)
        return 130
    output.failed(data, summary, worst)
    return worst.exit_code


def _data(
    execution: Execution, windows: Sequence[Mapping[str, Any]], seconds: float
) -> dict[str, Any]:
    plan, progress = execution.plan, execution.progress
    return {
        "backfill": plan.backfill_id,
        "pipeline": plan.pipeline,
        "published": progress.published,
        "unchanged": progress.unchanged,
        "failed": len(progress.failed),
        "blocked": progress.blocked,
        "under_way": progress.under_way,
        "not_started": progress.not_started,
        "seconds": round(seconds, 3),
        "windows": sorted(windows, key=lambda item: (item["pipeline"], item["window"])),
    }


def _tell_window(end: Ended, output: Output) -> None:
    outcome = end.outcome
    assert outcome is not None
    if not output.is_live:
        output.line(line_of(output, outcome))
    for note in outcome.notes:
        output.note(f"  {outcome.window}  {note}")
    for result in outcome.warnings:
        output.warn(f"{outcome.window}  audit {result.name}: {result.detail or 'failed'}")


def _bar(execution: Execution, seconds: float) -> str:
    progress = execution.progress
    share = progress.done / progress.windows
    filled = "#" * round(24 * share)
    rate = progress.done / seconds if seconds else 0.0
    left = (progress.windows - progress.done) / rate if rate else 0.0
    failed = f", {len(progress.failed):,} failed" if progress.failed else ""
    return (
        f"[{filled:24}] {progress.done:,} of {progress.windows:,} windows{failed}, "
        f"{rate:.1f} a second, {left:.0f} s left"
    )


def _summary(
    execution: Execution,
    errors: Sequence[tuple[Ended, SetpointError]],
    blocked: Sequence[tuple[Ended, SetpointError]],
    seconds: float,
    said: str,
) -> Iterator[str]:
    """What can be pasted into a ticket."""
    plan, progress = execution.plan, execution.progress
    waiting, halted = progress.not_started, progress.under_way
    parts = [
        f"{progress.published:,} published",
        *([f"{progress.unchanged:,} unchanged"] if progress.unchanged else []),
        *([f"{len(progress.failed):,} failed"] if progress.failed else []),
        *([f"{progress.blocked:,} blocked"] if progress.blocked else []),
        *([f"{halted:,} under way ({progress.stopped})"] if halted else []),
        *([f"{waiting:,} not started ({progress.stopped})"] if waiting else []),
    ]
    yield f"backfill {plan.backfill_id}  {plan.pipeline}  {', '.join(parts)} in {seconds:.1f} s"
    for word, ends in (("failed", errors), ("blocked", blocked)):
        for end, error in ends[:_LISTED]:
            told = f"{error.code} {shortened(error.what)}"
            yield f"  {word}  {end.pipeline}[{end.window.id}]  {told}"
        if len(ends) > _LISTED:
            rest = len(ends) - _LISTED
            yield f"  and {rest:,} more {word}; see: setpoint backfill show {plan.backfill_id}"
    if isinstance(plan, Backfill) and progress.published:
        yield from _following(plan, said)
    if errors and plan.request.again:
        yield "  when they are repaired, the same command does what is left"
    elif errors:
        yield f"  when they are repaired: {said} --only failed"
        if waiting:
            yield "  the same command does those that were not started"
    elif (waiting or halted) and not (plan.request.restate and progress.stopped == CANCELLED):
        yield "  the same command does what is left"


def _since(started: datetime) -> float:
    return (edge.utc_now() - started).total_seconds()


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _usage(what: str, next: str) -> UsageError:
    return UsageError("SP-C01", f"{what[:1].upper()}{what[1:]}.", state=NOTHING_STARTED, next=next)
