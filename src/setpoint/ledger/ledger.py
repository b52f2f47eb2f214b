"""The ledger as the rest of setpoint sees it: no database library is imported here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TypeAlias

from setpoint.ledger.records import (
    AttemptRecord,
    AttemptState,
    AuditRecord,
    BackfillRecord,
    BackfillState,
    Ending,
    ReceiptRecord,
    StepRecord,
)
from setpoint.model.secret import Secret

NewReceipt: TypeAlias = tuple[str, str, int, str, "int | None"]
"""pipeline, window id, generation, body as JSON text, version of the target's commit."""


class Ledger(ABC):
    """History for people and a cache of receipts; the target wins whenever the two disagree.

    Every method raises `LedgerError` (SP-L01), and nothing else, when the database cannot be
    used. Before a publish that ends the run: the target is unchanged. AFTER a publish it must
    not turn a success into a failure. The receipt is already in the target, so callers of
    `step`, `audit`, `finish` and `remember_receipts` then write::

        try:
            ledger.finish(attempt_id, state="published", finished_at=now, generation=7)
        except LedgerError as error:
            warn(str(error))  # the publish stands; the next run settles the open attempt

    One ledger may be used by several threads, and one database by several processes and hosts
    at once (a SQLite file by the processes of one host).
    """

    @staticmethod
    def open(url: str | Secret) -> Ledger:
        """Open the ledger at `url` and create what is missing, its folder included.

        `sqlite:///relative/path`, `sqlite:////absolute/path` or `postgresql://…`. A URL of
        another kind is a `UsageError`; a database that cannot be used is a `LedgerError`.
        """
        # Imported here because SQLAlchemy takes longer to load than most commands take to run.
        from setpoint.ledger.sql import SqlLedger

        return SqlLedger(Secret.of(url, whole=False))

    @property
    @abstractmethod
    def where(self) -> str:
        """Its place as a person may see it: the file, or the server and the database."""

    @abstractmethod
    def close(self) -> None:
        """Give back the connections; closing twice is harmless."""

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @abstractmethod
    def begin(self, *attempts: AttemptRecord) -> None:
        """Record attempts before they do anything; those of a chunk in one transaction."""

    @abstractmethod
    def step(self, attempt_ids: Sequence[str], step: StepRecord) -> None:
        """Record a step of attempts that share it; the same position again replaces it."""

    @abstractmethod
    def audit(self, audits: Mapping[str, Sequence[AuditRecord]]) -> None:
        """Add audit results to those that attempts already have, in one transaction."""

    @abstractmethod
    def note(self, notes: Mapping[str, Sequence[str]]) -> None:
        """Keep what a person should know about attempts; noted again, it replaces the old."""

    def finish(
        self,
        attempt_id: str,
        *,
        state: AttemptState,
        finished_at: datetime,
        generation: int | None = None,
        rows: int | None = None,
        error_code: str | None = None,
        error_text: str | None = None,
    ) -> None:
        """Record how an attempt ended; also used by `recover` to settle an open one."""
        end = Ending(attempt_id, state, finished_at, generation, rows, error_code, error_text)
        self.finish_all([end])

    @abstractmethod
    def finish_all(self, endings: Sequence[Ending]) -> None:
        """Record how several attempts ended, in one transaction."""

    @abstractmethod
    def record_unchanged(self, attempts: Sequence[AttemptRecord]) -> None:
        """Record many attempts that found nothing to do, in one transaction."""

    @abstractmethod
    def attempts(
        self,
        pipeline: str | None = None,
        windows: Collection[str] | None = None,
        limit: int | None = 50,
    ) -> list[AttemptRecord]:
        """The newest attempts, newest first; `limit=None` gives all of them."""

    @abstractmethod
    def latest_attempts(self, pipeline: str) -> dict[str, AttemptRecord]:
        """The latest attempt of every window of a pipeline, by window id."""

    @abstractmethod
    def open_attempts(self) -> list[AttemptRecord]:
        """The attempts that are running or whose outcome is unknown, newest first."""

    @abstractmethod
    def attempts_of(self, trigger: str) -> list[AttemptRecord]:
        """All attempts that were made for one reason, oldest first."""

    @abstractmethod
    def begin_backfill(self, backfill: BackfillRecord) -> None:
        """Record a backfill and its plan before it does anything, or that it goes on."""

    @abstractmethod
    def end_backfill(self, backfill_id: str, state: BackfillState, finished_at: datetime) -> bool:
        """Record how a backfill stands, unless it has ended before; whether that is recorded."""

    @abstractmethod
    def backfills(self, limit: int | None = 50) -> list[BackfillRecord]:
        """The newest backfills, newest first."""

    @abstractmethod
    def backfill(self, backfill_id: str) -> BackfillRecord | None:
        """One backfill; None when there is none of that id."""

    @abstractmethod
    def steps(self, attempt_id: str) -> list[StepRecord]:
        """The steps of an attempt in their order."""

    @abstractmethod
    def audits(self, attempt_id: str) -> list[AuditRecord]:
        """The audit results of an attempt in the order they were recorded."""

    @abstractmethod
    def notes(self, attempt_id: str) -> list[str]:
        """The notes of an attempt in their order."""

    @abstractmethod
    def remember_receipts(
        self, target: str, table_id: str, receipts: Sequence[NewReceipt], recorded_at: datetime
    ) -> None:
        """Keep receipts as they were read from the target; the same again changes nothing."""

    @abstractmethod
    def receipts(
        self, target: str, table_id: str, pipeline: str
    ) -> dict[tuple[str, int], tuple[str, int | None]]:
        """The newest receipt of every window: (window, generation) to (body, commit version)."""

    @abstractmethod
    def all_receipts(self, target: str, pipeline: str, window: str) -> list[ReceiptRecord]:
        """Every receipt ever seen for a window, of earlier tables at that place too."""
