"""`setpoint show`: everything that is known about one window."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from setpoint import edge
from setpoint.cli.output import Output
from setpoint.cli.selection import open_project
from setpoint.errors import counted
from setpoint.flow.plan import Bound
from setpoint.flow.quarantine import SUFFIX, quarantine_of
from setpoint.flow.recording import recall_from
from setpoint.ledger import AttemptRecord, Ledger
from setpoint.model.mark import Mark
from setpoint.model.pipeline import Pipeline
from setpoint.model.ports import LandingPort
from setpoint.model.ranges import parse_windows
from setpoint.model.receipt import SliceState
from setpoint.model.window import Window
from setpoint.project.config import Config
from setpoint.project.discover import pipeline_named

_ATTEMPTS = 10


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pipeline", help="a pipeline's name, or file.py:name")
    parser.add_argument("--window", metavar="ID", help="default: the latest complete window")


def execute(options: argparse.Namespace, output: Output) -> int:
    with open_project(options, output) as project:
        pipeline = _named(project.config, options.pipeline)
        if options.window is not None:
            windows = parse_windows(options.window, pipeline.every, pipeline.timezone)
        else:
            latest = Window.latest_complete(edge.utc_now(), pipeline.every, pipeline.timezone)
            windows = (latest,)
        bound = project.bind(pipeline)
        world = project.world()
        recall = recall_from(world, bound.target.uri, pipeline.name)
        states = bound.target.inspect(windows, recall)
        kept = {item.attempt for item in bound.target.leftovers()}
        shown = [
            {
                "pipeline": pipeline.name,
                "window": window.id,
                "start": window.start.isoformat(),
                "end": window.end.isoformat(),
                "target": bound.target.uri,
                **_state(states[window]),
                "notes": _notes(world.ledger, states[window]),
                "landed": _landed(bound, window, states[window]),
                "attempts": _attempts(world.ledger, pipeline.name, window.id, kept),
            }
            for window in windows
        ]
    lines = [line for item in shown for line in _lines(item, output)]
    output.answer(shown[0] if len(shown) == 1 else shown, lines)
    return 0


def _named(config: Config, reference: str) -> Pipeline:
    """A pipeline, or the quarantine beside one, which has a history of its own."""
    main = reference.removesuffix(SUFFIX)
    aside = quarantine_of(pipeline_named(config, main)) if main != reference else None
    return aside or pipeline_named(config, reference)


def _state(state: SliceState) -> dict[str, Any]:
    return {
        "generation": state.generation,
        "untouched": state.untouched,
        "rows_now": state.rows,
        "commit_version": state.commit_version,
        "receipt": state.receipt.as_dict() if state.receipt else None,
    }


def _notes(ledger: Ledger | None, state: SliceState) -> list[str]:
    """What the attempt that published the window had to tell."""
    if ledger is None or state.receipt is None:
        return []
    return ledger.notes(state.receipt.attempt)


def _landed(bound: Bound, window: Window, state: SliceState) -> list[dict[str, Any]]:
    """What is landed for the window, input by input, and what it was published from."""
    inputs = state.receipt.inputs if state.receipt else {}
    return [
        {
            "input": name,
            "generation": item.generation,
            "landed_at": item.landed_at,
            "items": item.items,
            "pages": item.pages,
            "readings": item.readings,
            "contents": item.contents,
            "attempt": item.attempt,
            "request": dict(item.request),
            "place": source.uri,
            "published": inputs.get(name, {}).get("version") == item.generation,
        }
        for name, source in bound.sources.items()
        if isinstance(source, LandingPort)
        for item in source.generations(window)
    ]


def _attempts(
    ledger: Ledger | None, pipeline: str, window: str, kept: set[str]
) -> list[dict[str, Any]]:
    if ledger is None:
        return []
    return [
        {
            "attempt": attempt.attempt_id,
            "state": attempt.state,
            "try": attempt.try_number,
            "started_at": attempt.started_at.isoformat(timespec="seconds"),
            "seconds": _seconds(attempt),
            "host": attempt.host,
            "pid": attempt.pid,
            "window_from_clock": attempt.resolved_default,
            "error": attempt.error_text,
            "stage": f"{attempt.target}/{attempt.stage}" if attempt.attempt_id in kept else None,
            "steps": [
                {"step": step.name, "seconds": round(step.seconds, 3)}
                for step in ledger.steps(attempt.attempt_id)
            ],
            "audits": [
                {
                    "audit": audit.name,
                    "severity": audit.severity,
                    "passed": audit.passed,
                    "violations": audit.violations,
                    "rows": audit.rows,
                    "detail": audit.detail,
                    "sample": json.loads(audit.sample),
                }
                for audit in ledger.audits(attempt.attempt_id)
            ],
        }
        for attempt in ledger.attempts(pipeline, windows=[window], limit=_ATTEMPTS)
    ]


def _seconds(attempt: AttemptRecord) -> float | None:
    if attempt.finished_at is None:
        return None
    return round((attempt.finished_at - attempt.started_at).total_seconds(), 3)


def _lines(item: dict[str, Any], output: Output) -> Iterator[str]:
    yield output.paint(f"{item['pipeline']}[{item['window']}]", "bold")
    if item["window"] != "incremental":
        yield f"  window     {item['start']} to {item['end']}, end excluded"
    yield f"  target     {item['target']}"
    receipt = item["receipt"]
    landed_inputs = {landed["input"] for landed in item["landed"]}
    if receipt is None:
        told = "published, details unknown" if item["generation"] else "never published"
        yield f"  state      {told}"
    else:
        slice_text = "untouched since" if item["untouched"] else "changed by somebody else since"
        yield (
            f"  published  generation {receipt['generation']}, {counted(receipt['rows'], 'row')}, "
            f"{receipt['published_at']}, {slice_text}"
        )
        version = item["commit_version"]
        commit = "not in the log any more," if version is None else f"version {version}"
        yield f"  commit     {commit} by attempt {receipt['attempt']}"
        yield f"  run key    {receipt['run_key']}"
        yield f"  contents   {receipt['contents']}"
        if receipt["pattern"]:
            yield f"  pattern    {receipt['pattern']}"
        if mark := Mark.of(receipt["high_water_mark"]):
            yield f"  mark       {mark}"
        if receipt["tombstones"]:
            yield f"  removed    keys in {len(receipt['tombstones'])} places below _setpoint"
        for name, pinned in receipt["inputs"].items():
            word = "generation" if name in landed_inputs else "version"
            version = pinned.get("version")
            yield f"  input      {name}" + (f" at {word} {version}" if version is not None else "")
        for name, value in receipt["parameters"].items():
            yield f"  parameter  {name} = {value}"
    for note in item["notes"]:
        yield f"  note       {note}"
    for landed in item["landed"]:
        used = ", published from" if landed["published"] else ""
        yield (
            f"  landed     {landed['input']} generation {landed['generation']}, "
            f"{landed['landed_at']}, items: {landed['items']:,}, contents "
            f"{landed['contents']}{used}"
        )
    for attempt in item["attempts"]:
        yield from _attempt_lines(attempt, output)


def _attempt_lines(attempt: dict[str, Any], output: Output) -> Iterator[str]:
    colour = {"published": "green", "unchanged": "dim"}.get(attempt["state"], "red")
    duration = "" if attempt["seconds"] is None else f", {attempt['seconds']:.1f} s"
    yield (
        f"  attempt    {attempt['attempt']}  {output.paint(attempt['state'], colour)}  "
        f"{attempt['started_at']}{duration}, {attempt['host']} pid {attempt['pid']}"
    )
    if attempt["steps"]:
        steps = "  ".join(f"{step['step']} {step['seconds']:.2f} s" for step in attempt["steps"])
        yield f"             {steps}"
    for audit in attempt["audits"]:
        if not audit["passed"]:
            yield f"             {audit['severity']}: {audit['audit']}: {audit['detail']}"
            for row in audit["sample"]:
                yield f"               {row}"
    if attempt["error"]:
        yield f"             {attempt['error']}"
    if attempt["stage"]:
        yield f"             staged at {attempt['stage']}"
