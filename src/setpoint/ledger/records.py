"""What the ledger stores, as plain values without any database in them.

All times are aware datetime values; they are stored in UTC and come back in UTC. Members that
hold structured values (`StepRecord.detail`, `AuditRecord.sample`, `ReceiptRecord.body`) are
JSON text: whoever writes them knows how to encode them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

AttemptState = Literal[
    "running", "published", "unchanged", "failed", "refused", "unknown", "crashed"
]
"""How an attempt stands; `running` and `unknown` are open, all others are settled."""

OPEN_STATES: tuple[AttemptState, ...] = ("running", "unknown")


def require_aware(name: str, value: datetime | None) -> None:
    """Refuse a time without a zone: it would be stored as another moment than was meant."""
    if value is not None and value.utcoffset() is None:
        raise ValueError(f"{name} has no time zone: {value!r}")


@dataclass(frozen=True)
class AttemptRecord:
    """One try to publish one window."""

    attempt_id: str
    pipeline: str
    window_id: str
    run_key: str
    state: AttemptState
    started_at: datetime
    finished_at: datetime | None = None
    generation: int | None = None
    rows: int | None = None
    host: str = ""
    pid: int = 0
    process_started: str = ""
    """When the process began, as its host tells it; with `pid` it names one process for good."""
    trigger: str | None = None
    resolved_default: bool = False
    """True when the user gave no window and it was derived from the clock."""
    error_code: str | None = None
    error_text: str | None = None
    target: str = ""
    stage: str = ""
    """Where the staged files lie, so that `recover` can list and remove them."""
    try_number: int = 1

    def __post_init__(self) -> None:
        require_aware("started_at", self.started_at)
        require_aware("finished_at", self.finished_at)

    @property
    def is_open(self) -> bool:
        """True while nobody has settled how the attempt ended."""
        return self.state in OPEN_STATES


@dataclass(frozen=True)
class Ending:
    """How an attempt ended."""

    attempt_id: str
    state: AttemptState
    finished_at: datetime
    generation: int | None = None
    rows: int | None = None
    error_code: str | None = None
    error_text: str | None = None

    def __post_init__(self) -> None:
        require_aware("finished_at", self.finished_at)


@dataclass(frozen=True)
class StepRecord:
    """One step of an attempt and how long it took."""

    position: int
    name: str
    started_at: datetime
    seconds: float
    detail: str = "{}"

    def __post_init__(self) -> None:
        require_aware("started_at", self.started_at)


@dataclass(frozen=True)
class AuditRecord:
    """The verdict of one audit on the staged rows of an attempt."""

    name: str
    severity: str
    passed: bool
    violations: int | None = None
    rows: int | None = None
    detail: str = ""
    sample: str = "[]"


BackfillState = Literal["running", "done", "failed", "interrupted", "cancelled"]
"""How a backfill stands. `failed`: some of its windows; all others are published."""


@dataclass(frozen=True)
class BackfillRecord:
    """A backfill: what was planned for which windows, and how it stands.

    `plan` is JSON text. What became of a window is told by the attempts that name the backfill
    as their trigger.
    """

    backfill_id: str
    pipeline: str
    state: BackfillState
    started_at: datetime
    finished_at: datetime | None = None
    host: str = ""
    pid: int = 0
    process_started: str = ""
    plan: str = "{}"

    def __post_init__(self) -> None:
        require_aware("started_at", self.started_at)
        require_aware("finished_at", self.finished_at)


@dataclass(frozen=True)
class ReceiptRecord:
    """A receipt as it was last seen in a target."""

    target: str
    table_id: str
    pipeline: str
    window_id: str
    generation: int
    body: str
    commit_version: int | None
    recorded_at: datetime
