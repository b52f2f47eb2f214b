"""`setpoint backfill list|show|cancel`: what the ledger knows of backfills."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setpoint import edge
from setpoint.cli.output import Output, table
from setpoint.cli.selection import open_project
from setpoint.errors import NOTHING_STARTED, SetpointError, UsageError
from setpoint.flow.execution import trigger_of
from setpoint.ledger import BackfillRecord, Ledger
from setpoint.project.config import find_config
from setpoint.project.discover import pipelines

ACTIONS = ("list", "show", "cancel")


def is_asked_for(options: argparse.Namespace) -> bool:
    """Whether a command is about backfills, and not about a pipeline that has such a name.

    What names a backfill is about that backfill. Otherwise a pipeline of the name comes first.
    """
    if options.pipeline not in ACTIONS or options.id is not None:
        return options.pipeline in ACTIONS
    try:
        return options.pipeline not in pipelines(find_config(Path.cwd(), options.config))
    except SetpointError:
        return True  # what keeps pipelines from being loaded need not keep anybody from looking


def execute(options: argparse.Namespace, output: Output) -> int:
    if options.dry_run or (options.pipeline == "list" and options.id is not None):
        odd = "--dry-run" if options.dry_run else f"{options.id!r:.80}"
        raise UsageError(
            "SP-C01",
            f"{odd} has no meaning for backfill {options.pipeline}.",
            state=NOTHING_STARTED,
            next="Leave it out.",
        )
    with open_project(options, output) as project:
        ledger = project.ledger()
        if ledger is None:
            output.answer({"backfills": []}, "Only the ledger knows of backfills.", ok=False)
            return 1
        if options.pipeline == "list" or (options.pipeline == "show" and options.id is None):
            found = [_summed(ledger, record) for record in ledger.backfills()]
            rows = [[str(item[name]) for name in _COLUMNS] for item in found]
            output.answer(
                {"backfills": found},
                table(rows, _COLUMNS) if rows else "There are no backfills yet.",
            )
            return 0
        record = _named(ledger, options.id)
        if options.pipeline == "show":
            return _show(ledger, record, output)
        return _cancel(ledger, record, output)


_COLUMNS = ("backfill", "pipeline", "state", "started", "windows", "done", "failed", "left")


def _named(ledger: Ledger, identifier: str | None) -> BackfillRecord:
    if identifier is None:
        raise UsageError(
            "SP-C01",
            "The id of a backfill is missing.",
            state=NOTHING_STARTED,
            next="See: setpoint backfill show",
        )
    record = ledger.backfill(identifier)
    if record is None:
        raise UsageError(
            "SP-C06",
            f"There is no backfill {identifier!r:.80} in the ledger.",
            state=NOTHING_STARTED,
            next="See: setpoint backfill show",
        )
    return record


def _state(record: BackfillRecord) -> str:
    """How it stands; a process that is gone cannot say that it was interrupted."""
    if record.state != "running":
        return record.state
    alive = edge.is_alive(record.host, record.pid, record.process_started)
    return "interrupted" if alive is False else "running"


def _windows(ledger: Ledger, record: BackfillRecord) -> list[dict[str, Any]]:
    """The windows of the plan, each with how it ended so far."""
    attempts = {
        (item.pipeline, item.window_id): item
        for item in ledger.attempts_of(trigger_of(record.backfill_id))
    }
    found = []
    for window in json.loads(record.plan).get("windows", []):
        attempt = attempts.get((window["pipeline"], window["window"]))
        ended = attempt.state if attempt else ("waiting" if window["action"] != "skip" else "")
        error = attempt.error_text if attempt else None
        found.append({**window, "ended": ended, "error": error})
    return found


def _summed(ledger: Ledger, record: BackfillRecord) -> Mapping[str, Any]:
    windows = [item for item in _windows(ledger, record) if item["action"] != "skip"]
    counts = Counter(item["ended"] for item in windows)
    return {
        "backfill": record.backfill_id,
        "pipeline": record.pipeline,
        "state": _state(record),
        "started": record.started_at.isoformat(timespec="seconds"),
        "windows": len(windows),
        "done": counts["published"] + counts["unchanged"],
        "failed": counts["failed"] + counts["refused"] + counts["crashed"] + counts["unknown"],
        "left": counts["waiting"] + counts["running"],
    }


def _show(ledger: Ledger, record: BackfillRecord, output: Output) -> int:
    summed, windows = _summed(ledger, record), _windows(ledger, record)
    lines = [
        f"backfill {record.backfill_id}  {record.pipeline}  {summed['state']}, "
        f"started {summed['started']}: {summed['done']:,} of {summed['windows']:,} done, "
        f"{summed['failed']:,} failed, {summed['left']:,} left",
        *table(
            [
                [
                    f"{item['pipeline']}[{item['window']}]",
                    item["action"],
                    item["ended"],
                    (item["error"] or item["reason"] or "").split("\n", 1)[0][:100],
                ]
                for item in windows
            ],
            ("window", "action", "ended", "reason"),
        ),
    ]
    output.answer({**summed, "windows": windows}, lines)
    return 0


def _cancel(ledger: Ledger, record: BackfillRecord, output: Output) -> int:
    """It starts no further chunk; what is under way ends as usual."""
    was = _state(record)
    cancelled = ledger.end_backfill(record.backfill_id, "cancelled", edge.utc_now())
    text = (
        f"backfill {record.backfill_id} is cancelled: it ends after the chunks that are under way"
        if cancelled and was == "running"
        else f"backfill {record.backfill_id} is cancelled: its process had ended before"
        if cancelled
        else f"backfill {record.backfill_id} has ended already: {record.state}"
    )
    output.answer({"backfill": record.backfill_id, "cancelled": cancelled, "was": was}, text)
    return 0
