"""A backfill under way: recorded before it starts, counted while it goes, ended from outside."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from setpoint.flow.backfill import Request
from setpoint.flow.run import Ended
from setpoint.flow.world import World
from setpoint.ledger import BackfillRecord, BackfillState, Ledger, LedgerError

CANCELLED = "it was cancelled"


class Work(Protocol):
    """What is planned: windows of one pipeline, or of pipelines that feed each other."""

    @property
    def backfill_id(self) -> str: ...

    @property
    def pipeline(self) -> str: ...

    @property
    def request(self) -> Request: ...

    @property
    def started_at(self) -> datetime: ...

    @property
    def windows(self) -> int:
        """How many windows are to run."""
        ...

    @property
    def recorded(self) -> str:
        """The plan of the backfill that this one goes on with, as it was recorded, if there is one.

        What was planned first is what its progress is told of.
        """
        ...

    @property
    def asked(self) -> dict[str, Any]:
        """What makes two backfills the same request."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        ...

    def work(self, world: World, stops: Callable[[], bool]) -> Iterator[Ended]:
        """Fulfil the plan; nothing is started any more once `stops` says so."""
        ...


@dataclass
class Progress:
    """How far a backfill is."""

    windows: int
    published: int = 0
    unchanged: int = 0
    blocked: int = 0
    failed: list[Ended] = field(default_factory=list)
    stopped: str = ""
    open: set[tuple[str, str]] = field(default_factory=set)
    """Windows that an attempt began and none has ended."""

    @property
    def under_way(self) -> int:
        """How many windows were begun, and have not ended in any way."""
        return len(self.open)

    @property
    def not_started(self) -> int:
        return self.windows - self.done - self.under_way

    def begin(self, pipeline: str, windows: Sequence[str]) -> None:
        self.open |= {(pipeline, window) for window in windows}

    @property
    def done(self) -> int:
        return self.published + self.unchanged + self.blocked + len(self.failed)

    def count(self, end: Ended) -> None:
        self.open.discard((end.pipeline, end.window.id))
        if end.blocked:
            self.blocked += 1
        elif end.outcome is None:
            self.failed.append(end)
        elif end.outcome.state == "published":
            self.published += 1
        else:
            self.unchanged += 1


class Execution:
    """A plan on its way."""

    def __init__(self, plan: Work, world: World) -> None:
        self.plan = plan
        self.progress = Progress(plan.windows)
        identifier, begins = plan.backfill_id, self.progress.begin
        trigger = trigger_of(identifier)
        self._world = replace(world, begins=begins, trigger=trigger, backfill=identifier)

    def run(self) -> Iterator[Ended]:
        """Do it; tells how each window ended, as it ends."""
        self._begin()
        state: BackfillState = "interrupted"
        try:
            for end in self.plan.work(self._world, self._stops):
                self.progress.count(end)
                yield end
            state = "failed" if self.progress.failed or self.progress.stopped else "done"
        finally:
            identifier, now = self.plan.backfill_id, self._world.now()
            self._tell(lambda ledger: ledger.end_backfill(identifier, state, now))

    def settle(self) -> None:
        """Nothing is left of it: what goes on with an earlier one ends that one."""
        if self.plan.recorded:
            identifier, now = self.plan.backfill_id, self._world.now()
            self._begin()
            self._tell(lambda ledger: ledger.end_backfill(identifier, "done", now))

    def _stops(self) -> bool:
        """Whether nothing further is to be started."""
        limit, ledger = self.plan.request.max_failures, self._world.ledger
        if limit is not None and len(self.progress.failed) >= limit:
            failed = len(self.progress.failed)
            self.progress.stopped = "one has failed" if failed == 1 else f"{failed:,} have failed"
        elif ledger is not None:
            try:
                record = ledger.backfill(self.plan.backfill_id)
            except LedgerError:
                record = None  # history only: it must not stop the work
            if record is not None and record.state == "cancelled":
                self.progress.stopped = CANCELLED
        return bool(self.progress.stopped)

    def _begin(self) -> None:
        plan, (host, pid, started) = self.plan, self._world.identity
        record = BackfillRecord(
            backfill_id=plan.backfill_id,
            pipeline=plan.pipeline,
            state="running",
            started_at=plan.started_at,
            host=host,
            pid=pid,
            process_started=started,
            plan=plan.recorded or json.dumps({**plan.as_dict(), "asked": plan.asked}),
        )
        self._tell(lambda ledger: ledger.begin_backfill(record))

    def _tell(self, call: Callable[[Ledger], object]) -> None:
        if self._world.ledger is None:
            return
        try:
            call(self._world.ledger)
        except LedgerError as error:
            self._world.warn(str(error))


def trigger_of(backfill_id: str) -> str:
    """What the attempts of a backfill name as their reason."""
    return f"backfill {backfill_id}"
