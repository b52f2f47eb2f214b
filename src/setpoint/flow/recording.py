"""Recording: what the ledger hears of an attempt. It can never fail a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

from setpoint.errors import RefusedError, SetpointError
from setpoint.flow.steps import Plan
from setpoint.flow.world import World
from setpoint.ledger import AttemptRecord, AuditRecord, Ending, Ledger, LedgerError, StepRecord
from setpoint.ledger.records import AttemptState
from setpoint.model.audit import AuditResult
from setpoint.model.ports import Published, Recall
from setpoint.model.receipt import Receipt, read_receipt

# An attempt, how it ended, and with what receipt or error.
End: TypeAlias = tuple[str, AttemptState, Receipt | None, BaseException | None]


class Recording:
    """The ledger's view of one attempt, or of those of a chunk, which share their steps.

    A ledger that cannot be used is a warning, once, and not a failure: the receipt in the
    target is what counts.
    """

    def __init__(self, world: World, *attempts: str) -> None:
        self._world = world
        self._attempts = attempts
        self._position = 0
        self._ledger = world.ledger

    def begin(self, plans: Sequence[Plan], target: str, stage: str, try_number: int) -> None:
        records = [
            replace(
                attempt_record(self._world, plan, attempt, "running", target),
                stage=stage,
                try_number=try_number,
            )
            for plan, attempt in zip(plans, self._attempts, strict=True)
        ]
        self._world.begins(records[0].pipeline, [record.window_id for record in records])
        self._tell(lambda ledger: ledger.begin(*records))

    def fail(self, pipeline: str, windows: Sequence[str], error: SetpointError) -> None:
        """Attempts that ended before they could begin."""
        error.scrub(self._world.scrubbed)
        now = self._world.now()
        records = [
            replace(
                _record(self._world, pipeline, window, attempt),
                state="refused" if isinstance(error, RefusedError) else "failed",
                finished_at=now,
                error_code=error.code,
                error_text=str(error),
            )
            for window, attempt in zip(windows, self._attempts, strict=True)
        ]
        self._tell(lambda ledger: ledger.begin(*records))

    @contextmanager
    def step(self, name: str, detail: Mapping[str, Any] | None = None) -> Iterator[None]:
        """Time a step; it is recorded whether it succeeds or not."""
        started = self._world.now()
        try:
            yield
        finally:
            self._position += 1
            seconds = (self._world.now() - started).total_seconds()
            text = self._world.scrubbed(json.dumps(dict(detail or {}), default=str))
            record = StepRecord(self._position, name, started, seconds, text)
            self._tell(lambda ledger: ledger.step(self._attempts, record))

    def audits(self, results: Mapping[str, Sequence[AuditResult]]) -> None:
        """The verdicts of each attempt's audits."""
        records = {
            attempt: [
                AuditRecord(
                    name=result.name,
                    severity=result.severity,
                    passed=result.passed,
                    violations=result.violations,
                    rows=result.rows,
                    detail=result.detail,
                    sample=json.dumps(result.sample, default=str),
                )
                for result in found
            ]
            for attempt, found in results.items()
            if found
        }
        if records:
            self._tell(lambda ledger: ledger.audit(records))

    def notes(self, notes: Mapping[str, Sequence[str]]) -> None:
        """What a person should know about each attempt."""
        if any(notes.values()):
            self._tell(lambda ledger: ledger.note(notes))

    def finish(
        self,
        state: AttemptState,
        *,
        receipt: Receipt | None = None,
        error: BaseException | None = None,
    ) -> None:
        """All attempts ended in the same way."""
        self.finish_each([(attempt, state, receipt, error) for attempt in self._attempts])

    def finish_each(
        self,
        ends: Sequence[End],
    ) -> None:
        for error in (error for *_, error in ends if isinstance(error, SetpointError)):
            error.scrub(self._world.scrubbed)
        now = self._world.now()
        endings = [
            Ending(
                attempt,
                state,
                now,
                generation=receipt.generation if receipt else None,
                rows=receipt.rows if receipt else None,
                error_code=error.code if isinstance(error, SetpointError) else None,
                error_text=self._world.scrubbed(_text_of(error)) if error else None,
            )
            for attempt, state, receipt, error in ends
        ]
        self._tell(lambda ledger: ledger.finish_all(endings))

    def receipts(self, target: str, published: Sequence[Published]) -> None:
        if not published:
            return
        table_id = published[0].table_id
        pairs = [(item.receipt, item.commit_version) for item in published]
        self._tell(lambda ledger: remember(self._world, target, table_id, pairs))

    def _tell(self, call: Callable[[Ledger], None]) -> None:
        if self._ledger is None:
            return
        try:
            call(self._ledger)
        except LedgerError as error:
            self._ledger = None
            self._world.warn(str(error))


def _text_of(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) or type(error).__name__


def attempt_record(
    world: World, plan: Plan, attempt: str, state: AttemptState, target: str
) -> AttemptRecord:
    """The ledger's row for an attempt at a plan."""
    receipt = plan.state.receipt if state == "unchanged" else None
    begun = _record(world, plan.run.pipeline.name, plan.run.window.id, attempt)
    return replace(
        begun,
        run_key=plan.run.key,
        state=state,
        finished_at=begun.started_at if state == "unchanged" else None,
        generation=receipt.generation if receipt else None,
        rows=receipt.rows if receipt else None,
        target=target,
    )


def _record(world: World, pipeline: str, window: str, attempt: str) -> AttemptRecord:
    host, pid, started = world.identity
    return AttemptRecord(
        attempt_id=attempt,
        pipeline=pipeline,
        window_id=window,
        run_key="",
        state="running",
        started_at=world.now(),
        host=host,
        pid=pid,
        process_started=started,
        trigger=world.trigger,
        resolved_default=world.resolved_default,
    )


def remember(
    world: World, target: str, table_id: str, receipts: Sequence[tuple[Receipt, int | None]]
) -> None:
    """Keep receipts in the ledger, so that they outlive the clean-up of the target's log."""
    if world.ledger is None or not receipts:
        return
    world.ledger.remember_receipts(
        target,
        table_id,
        [
            (r.pipeline, r.window, r.generation, json.dumps(r.as_dict(), sort_keys=True), version)
            for r, version in receipts
        ],
        world.now(),
    )


def recall_from(world: World, target: str, pipeline: str) -> Recall:
    """The receipts that the ledger remembers of a target."""

    def recall(table_id: str) -> Mapping[tuple[str, int], tuple[Receipt, int | None]]:
        if world.ledger is None:
            return {}
        try:
            kept = world.ledger.receipts(target, table_id, pipeline)
        except LedgerError as error:
            world.warn(str(error))
            return {}
        read = {key: (read_receipt(body), version) for key, (body, version) in kept.items()}
        return {key: (found, version) for key, (found, version) in read.items() if found}

    return recall
