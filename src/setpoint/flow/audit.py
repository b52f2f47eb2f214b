"""The audit step: every verdict over the staged rows, in the order of the definition."""

from __future__ import annotations

from typing import Any

from setpoint.flow.plan import Bound
from setpoint.model.audit import (
    Audit,
    AuditResult,
    NotNull,
    RowCount,
    RowCountChange,
    rides_along,
)
from setpoint.model.ports import Staged
from setpoint.model.run import Run


def audit(
    bound: Bound, session: Any, run: Run, staged: Staged, before: int | None = None
) -> tuple[AuditResult, ...]:
    """Judge the stage: row-level audits were counted while staging, set-level ones run now.

    `before` counts the rows of the window before, where it is published in the same commit.
    """
    audits = run.pipeline.audits
    in_spark = [
        item
        for position, item in enumerate(audits)
        if _needs_spark(item) and position not in staged.proven
    ]
    answered = bound.target.audit(session, staged, run, in_spark) if in_spark else []
    answers = iter(answered)
    results = []
    for position, item in enumerate(audits):
        match item:
            case RowCount():
                results.append(_row_count(item, staged))
            case RowCountChange():
                results.append(_row_count_change(bound, item, run, staged, before))
            case _ if rides_along(item):
                count = staged.violations[position]
                sample = bound.target.sample(session, staged, item) if count else ()
                results.append(_counted(item, count, staged.rows, sample))
            case _ if position in staged.proven:
                results.append(AuditResult(item.name, item.severity, True, 0, staged.rows))
            case _:
                results.append(next(answers))
    return tuple(results)


def _needs_spark(item: Audit) -> bool:
    return not rides_along(item) and not isinstance(item, (RowCount, RowCountChange))


def _counted(item: Audit, count: int, rows: int, sample: tuple[dict[str, Any], ...]) -> AuditResult:
    what = "nulls" if isinstance(item, NotNull) else "offending rows"
    detail = f"{count:,} {what}" if count else ""
    return AuditResult(item.name, item.severity, not count, count, rows, detail, sample)


def _row_count(item: RowCount, staged: Staged) -> AuditResult:
    low, high = item.min, item.max
    fits = (low is None or staged.rows >= low) and (high is None or staged.rows <= high)
    limit = f"at least {low:,}" if high is None else f"{low or 0:,} to {high:,}"
    detail = f"{staged.rows:,} rows, expected {limit}"
    return AuditResult(item.name, item.severity, fits, 0, staged.rows, detail)


def _row_count_change(
    bound: Bound, item: RowCountChange, run: Run, staged: Staged, rows: int | None
) -> AuditResult:
    previous = run.window.previous()
    if rows is None:
        before = bound.target.inspect([previous])[previous]
        rows = before.receipt.rows if before.receipt else before.rows
        if not before.published or rows is None:
            cause = "has an unknown number of rows" if before.published else "was never published"
            detail = f"nothing to compare with: {previous.id} {cause}"
            return AuditResult(item.name, item.severity, True, 0, staged.rows, detail)
    change = abs(staged.rows - rows) / rows if rows else float(staged.rows > 0)
    detail = f"{staged.rows:,} rows against {rows:,} in {previous.id}: {change:.1%} change"
    return AuditResult(item.name, item.severity, change <= item.max, 0, staged.rows, detail)
