"""The life of a run: read, stage, audit, publish, record.

`execute` follows the steps of a plan, top to bottom. Between the steps lie the crash points;
whatever happens at one of them, the target holds the old slice or the new one, and the next
attempt finds out which by reading the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from setpoint.errors import RefusedError, SetpointError, UnknownCommitError
from setpoint.flow import steps
from setpoint.flow.evaluate import evaluate
from setpoint.flow.plan import Bound, plan
from setpoint.flow.publish import Verdict, publish
from setpoint.flow.recording import Recording, attempt_record, recall_from
from setpoint.flow.steps import Plan
from setpoint.flow.world import Outcome, World
from setpoint.ledger import LedgerError
from setpoint.ledger.records import AttemptState
from setpoint.model.audit import AuditResult, NotNull, RowCount, RowCountChange, rides_along
from setpoint.model.ports import Staged
from setpoint.model.window import Window


def plan_windows(
    bound: Bound,
    windows: Sequence[Window],
    world: World,
    *,
    parameters: Mapping[str, Any],
    force: bool = False,
) -> list[Plan]:
    """Plan windows with what the target says and the ledger remembers."""
    recall = recall_from(world, bound.target.uri, bound.pipeline.name)
    return plan(bound, windows, parameters=parameters, recall=recall, force=force)


def record_unchanged(bound: Bound, plans: Sequence[Plan], world: World) -> list[Outcome]:
    """Settle all windows that need nothing, in one go and without Spark."""
    records = [
        attempt_record(world, item, world.new_attempt_id(), "unchanged", bound.target.uri)
        for item in plans
    ]
    if world.ledger is not None and records:
        try:
            world.ledger.record_unchanged(records)
        except LedgerError as error:
            world.warn(f"{error} The run goes on without it.")
    return [
        Outcome(
            pipeline=item.run.pipeline.name,
            window=item.run.window.id,
            state="unchanged",
            reason=item.reason,
            receipt=item.state.receipt,
        )
        for item in plans
    ]


def run_window(bound: Bound, first: Plan, world: World) -> Outcome:
    """Fulfil one plan, with retries; every try looks at the target afresh."""
    started = world.now()
    label = first.run.label

    def one_try(number: int) -> Outcome:
        current = first if number == 1 else _plan_again(bound, first, world)
        if current.is_unchanged:
            return replace(record_unchanged(bound, [current], world)[0], tries=number)
        return replace(execute(bound, current, world, try_number=number), tries=number)

    def on_retry(number: int, error: BaseException, wait: float) -> None:
        world.warn(f"{label}  try {number} failed, next in {wait:.0f} s: {_first_part(error)}")

    outcome = world.retry.call(one_try, on_retry)
    return replace(outcome, seconds=(world.now() - started).total_seconds())


def execute(bound: Bound, current: Plan, world: World, *, try_number: int = 1) -> Outcome:
    """One attempt: follow the plan's steps and keep the ledger informed."""
    run, attempt = current.run, world.new_attempt_id()
    recording = Recording(world, attempt)
    recording.begin(current, bound.target.uri, bound.target.location(run, attempt), try_number)
    try:
        outcome = _follow(bound, current, world, recording, attempt, try_number)
    except RefusedError as error:
        recording.finish("refused", error=error)
        raise
    except UnknownCommitError as error:
        return _settle(bound, current, world, recording, attempt, error)
    except BaseException as error:
        recording.finish("failed", error=error)
        if isinstance(error, Exception):
            with suppress(SetpointError):
                bound.target.drop_stage(bound.target.location(run, attempt))
        raise
    world.faults.reach("recorded", try_number)
    return outcome


def _follow(
    bound: Bound,
    current: Plan,
    world: World,
    recording: Recording,
    attempt: str,
    try_number: int,
) -> Outcome:
    run, target, reach = current.run, bound.target, world.faults.reach
    inputs: dict[str, Any] = {}
    staged: Staged | None = None
    results: tuple[AuditResult, ...] = ()
    verdict: Verdict | None = None
    reach("resolved", try_number)
    session = world.engine.session(bound.connectors())
    with world.engine.pinned(session):
        for step in current.steps:
            world.tell(f"{run.label}  {step.name}  {step.describe()}")
            with recording.step(step.name, {"what": step.describe()}):
                match step:
                    case steps.Read():
                        source = bound.sources[step.source]
                        pinned = run.inputs[step.source]
                        inputs[step.source] = source.read(session, run.window, pinned)
                    case steps.Stage():
                        reach("read", try_number)
                        frame = evaluate(run, inputs)
                        staged = target.stage(frame, run, attempt, run.pipeline.audits)
                        if run.by_contents:
                            run = run.of_contents(staged.contents, attempt)
                        reach("staged", try_number)
                    case steps.Audit():
                        assert staged is not None
                        results = _audit(bound, session, current, staged)
                        recording.audits(results)
                        reach("audited", try_number)
                    case steps.Publish():
                        assert staged is not None
                        verdict = publish(
                            target,
                            session,
                            run,
                            staged,
                            results,
                            current.state,
                            world.now().isoformat(timespec="seconds"),
                        )
                        reach("committed", try_number)
                    case steps.Record():
                        assert staged is not None
                        assert verdict is not None
                        reach("published", try_number)
                        _record(bound, world, recording, verdict, staged)
                    case steps.Unchanged():
                        raise AssertionError("an unchanged window has nothing to execute")
    assert verdict is not None
    return Outcome(
        pipeline=run.pipeline.name,
        window=run.window.id,
        state="unchanged" if verdict.published is None else "published",
        reason=_reason(current, verdict),
        attempt=attempt,
        receipt=verdict.receipt,
        only_receipt=verdict.only_receipt,
        audits=results,
    )


def _audit(bound: Bound, session: Any, current: Plan, staged: Staged) -> tuple[AuditResult, ...]:
    """All verdicts, in the order of the definition; row-level ones were counted while staging."""
    run = current.run
    audits = run.pipeline.audits
    results: list[AuditResult] = []
    set_level = [audit for audit in audits if not rides_along(audit)]
    in_spark = [audit for audit in set_level if not isinstance(audit, (RowCount, RowCountChange))]
    answers = {}
    if in_spark:
        answered = bound.target.audit(session, staged, run, in_spark)
        answers = dict(zip(map(id, in_spark), answered, strict=True))
    for position, audit in enumerate(audits):
        match audit:
            case RowCount():
                results.append(_row_count(audit, staged))
            case RowCountChange():
                results.append(_row_count_change(bound, audit, current, staged))
            case _ if rides_along(audit):
                count = staged.violations[position]
                found = bound.target.sample(session, staged, run, audit) if count else ()
                detail = "" if not count else _row_detail(audit, count)
                results.append(
                    AuditResult(
                        audit.name, audit.severity, not count, count, staged.rows, detail, found
                    )
                )
            case _:
                results.append(answers[id(audit)])
    return tuple(results)


def _row_detail(audit: Any, count: int) -> str:
    return f"{count:,} nulls" if isinstance(audit, NotNull) else f"{count:,} offending rows"


def _row_count(audit: RowCount, staged: Staged) -> AuditResult:
    low, high = audit.min, audit.max
    fits = (low is None or staged.rows >= low) and (high is None or staged.rows <= high)
    detail = (
        f"{staged.rows:,} rows, expected {low or 0:,} to {'any' if high is None else f'{high:,}'}"
    )
    return AuditResult(audit.name, audit.severity, fits, 0, staged.rows, detail)


def _row_count_change(
    bound: Bound, audit: RowCountChange, current: Plan, staged: Staged
) -> AuditResult:
    previous = current.run.window.previous()
    before = bound.target.inspect([previous])[previous]
    rows = before.receipt.rows if before.receipt else before.rows
    if not before.published or rows is None:
        detail = f"nothing to compare with: {previous.id} was never published"
        return AuditResult(audit.name, audit.severity, True, 0, staged.rows, detail)
    change = abs(staged.rows - rows) / rows if rows else float(staged.rows > 0)
    detail = f"{staged.rows:,} rows against {rows:,} in {previous.id}: {change:.1%} change"
    return AuditResult(audit.name, audit.severity, change <= audit.max, 0, staged.rows, detail)


def _record(
    bound: Bound, world: World, recording: Recording, verdict: Verdict, staged: Staged
) -> None:
    try:
        if verdict.published is None or verdict.only_receipt:
            bound.target.drop_stage(staged.location)
        else:
            bound.target.tidy_stage(staged)
    except SetpointError as error:
        # The window is right; what could not be cleared away is a matter for recover.
        world.warn(f"{error}")
    if verdict.published is not None:
        recording.receipt(bound.target.uri, verdict.published)
    state: AttemptState = "unchanged" if verdict.published is None else "published"
    recording.finish(state, receipt=verdict.receipt)


def _reason(current: Plan, verdict: Verdict) -> str:
    if verdict.published is not None:
        return current.reason
    if current.run.by_contents:
        return "the window already holds these rows"
    return "published by another attempt meanwhile"


def _settle(
    bound: Bound,
    current: Plan,
    world: World,
    recording: Recording,
    attempt: str,
    error: UnknownCommitError,
) -> Outcome:
    """The commit's answer was lost: ask the target whether it landed."""
    run = current.run
    try:
        landed = bound.target.landed(run.window, attempt)
    except SetpointError as unreadable:
        recording.finish("unknown", error=error)
        raise error from unreadable
    if landed is None:
        recording.finish("failed", error=error)
        raise error
    recording.receipt(bound.target.uri, landed)
    recording.finish("published", receipt=landed.receipt)
    return Outcome(
        pipeline=run.pipeline.name,
        window=run.window.id,
        state="published",
        reason=f"{current.reason}; the commit's answer was lost, the target has the receipt",
        attempt=attempt,
        receipt=landed.receipt,
    )


def _plan_again(bound: Bound, first: Plan, world: World) -> Plan:
    window = first.run.window
    if first.run.by_contents:
        return replace(first, state=bound.target.inspect([window])[window])
    parameters = first.run.parameters
    return plan_windows(bound, [window], world, parameters=parameters, force=first.forced)[0]


def _first_part(error: BaseException) -> str:
    return f"{error.code} {error.what}" if isinstance(error, SetpointError) else str(error)
