"""How windows ended, told while they end and summed up afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from setpoint.cli.output import Output
from setpoint.errors import SetpointError, counted
from setpoint.flow.run import Ended
from setpoint.flow.world import Outcome

_SHOWN = 20


def report(name: str, ended: Iterable[Ended], windows: int, output: Output) -> int:
    """Tell how each of the windows of a pipeline ended, and return the exit code."""
    outcomes: list[Outcome] = []
    failures: list[tuple[str, SetpointError]] = []
    unchanged = 0
    for end in ended:
        if end.outcome is None:
            error = end.error
            assert isinstance(error, Exception)
            told = error if isinstance(error, SetpointError) else output.unexpected(error)
            failures.append((end.window.id, told))
            if windows > 1:
                output.note(str(told))
            continue
        outcome = end.outcome
        outcomes.append(outcome)
        unchanged += outcome.state == "unchanged"
        if outcome.state == "published" or unchanged <= _SHOWN:
            output.line(line_of(output, outcome))
        for note in outcome.notes:
            output.note(f"  {note}")
        for result in outcome.warnings:
            output.warn(f"audit {result.name}: {result.detail or 'failed'}")
    if unchanged > _SHOWN:
        output.line(f"and {unchanged - _SHOWN:,} more windows are unchanged")
    data = {
        "pipeline": name,
        "windows": sorted(
            [data_of(outcome) for outcome in outcomes]
            + [error_data(window, error) for window, error in failures],
            key=lambda item: str(item["window"]),
        ),
    }
    if not failures:
        output.answer(data, ())
        return 0
    worst = max((error for _, error in failures), key=lambda error: error.exit_code)
    if windows > 1:
        output.failed(data, _summary(outcomes, failures), worst)
    else:
        output.error(worst)
    return worst.exit_code


def line_of(output: Output, outcome: Outcome) -> str:
    """How a window ended, in a line."""
    label = f"{outcome.pipeline}[{outcome.window}]"
    receipt = outcome.receipt
    if outcome.state == "unchanged" or receipt is None:
        return f"{output.paint('unchanged', 'dim')}  {label}  {outcome.reason}"
    what = "receipt only, same rows" if outcome.only_receipt else counted(receipt.rows, "row")
    tries = f", {outcome.tries} tries" if outcome.tries > 1 else ""
    return (
        f"{output.paint('published', 'green')}  {label}  {what}, generation {receipt.generation}, "
        f"{outcome.seconds:.1f} s{tries}  ({outcome.reason})"
    )


def data_of(outcome: Outcome) -> dict[str, Any]:
    """How a window ended, for a program."""
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


def error_data(window: str, error: SetpointError) -> dict[str, Any]:
    """A window that failed, for a program."""
    return {"window": window, "state": "failed", "error": error.as_dict()}


def _summary(outcomes: list[Outcome], failures: list[tuple[str, SetpointError]]) -> str:
    ids = ", ".join(window for window, _ in failures[:10])
    more = "" if len(failures) <= 10 else f" and {len(failures) - 10} more"
    return f"{counted(len(outcomes), 'window')} ended well, {len(failures)} did not: {ids}{more}"
