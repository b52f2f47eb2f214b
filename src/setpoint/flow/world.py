"""What a run is given from the outside, and what it tells while it goes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from setpoint.flow.faults import Faults
from setpoint.flow.retry import RetryPolicy
from setpoint.ledger import Ledger
from setpoint.model.audit import AuditResult
from setpoint.model.determinism import Finding
from setpoint.model.receipt import Receipt
from setpoint.model.window import Window


def tell_nobody(pipeline: str, windows: Sequence[str]) -> None:
    """Nobody counts the windows that are begun."""


class EnginePort(Protocol):
    """The Spark engine; nothing is started before `session` is called."""

    def session(self, connectors: frozenset[str]) -> Any: ...

    def apart(self) -> EnginePort:
        """The engine for work in several threads: a session of its own for each run."""
        ...

    def pinned(self, session: Any) -> AbstractContextManager[None]:
        """The settings that rows depend on, for the length of a block."""
        ...

    def as_input(self, frame: Any) -> Any:
        """The frame of a source, marked so that `findings` does not look into how it is read."""
        ...

    def findings(self, frame: Any, keys: Collection[str], function: Any) -> tuple[Finding, ...]:
        """What in the plan of a frame would make a second run differ; runs no Spark job."""
        ...

    def united(
        self,
        frames: Sequence[tuple[Window, Any]],
        predicate: Callable[[Window, Mapping[str, str]], str] | None = None,
    ) -> Any:
        """The frames of several windows as one; with a predicate, each row is its own window's.

        The predicate says as SQL which rows are a window's, given the types of the columns.
        """
        ...


@dataclass(frozen=True)
class Outcome:
    """How one window ended."""

    pipeline: str
    window: str
    state: str
    reason: str
    attempt: str = ""
    receipt: Receipt | None = None
    only_receipt: bool = False
    audits: tuple[AuditResult, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    tries: int = 1

    @property
    def warnings(self) -> tuple[AuditResult, ...]:
        return tuple(result for result in self.audits if not result.passed)


@dataclass(frozen=True)
class World:
    """The dependencies of a run: passed in, never looked up."""

    engine: EnginePort
    ledger: Ledger | None
    now: Callable[[], datetime]
    new_attempt_id: Callable[[], str]
    identity: tuple[str, int, str]
    is_alive: Callable[[str, int, str], bool | None] = lambda host, pid, started: None
    faults: Faults = field(default_factory=Faults)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    tell: Callable[[str], None] = lambda message: None
    warn: Callable[[str], None] = lambda message: None
    begins: Callable[[str, Sequence[str]], None] = tell_nobody
    trigger: str = "python"
    backfill: str = ""
    resolved_default: bool = False
    scrubbed: Callable[[str], str] = lambda text: text
    """Takes out of a text what must not be seen, before it is recorded or told."""
