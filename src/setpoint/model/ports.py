"""What the protocol needs from the outside: targets, sources, the session, the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, runtime_checkable

from setpoint.errors import SetpointError
from setpoint.model.audit import Audit, AuditResult
from setpoint.model.landing import Landing
from setpoint.model.mark import Mark
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Chunk, Pinned, Run, Statement
from setpoint.model.span import Span
from setpoint.model.window import Window

Frame = Any
# Receipts that the target may have forgotten, by window and generation, each with its commit.
Remembered = Mapping[tuple[str, int], tuple[Receipt, int | None]]
Recall = Callable[[str], Remembered]
# The same, once it is known which table is meant; asked only when the target has forgotten.
Recalled = Callable[[], Remembered]


def forgotten() -> Remembered:
    """Nobody remembers anything."""
    return {}


def recalled(recall: Recall | None, table_id: Callable[[], str]) -> Recalled:
    """What is remembered of a table; looked up once, and only if somebody asks."""
    return cache(lambda: recall(table_id())) if recall else forgotten


@dataclass(frozen=True)
class Staged:
    """Rows that are written but visible to no reader.

    `rows` counts what is to be published, after duplicates were resolved; `deletes` how many of
    them remove a key; `quarantined` the rows with a null in the key that were put aside.
    `notes` say in words what was decided on the way. `corrects` is set before a publish whose
    rows are to replace what their window said before. `proven` are the positions of set-level
    audits that are known to hold.
    """

    location: str
    attempt: str
    rows: int
    contents: str | None
    files: str | None
    violations: Mapping[int, int]
    changes_schema: bool
    handle: Any
    deletes: int = 0
    quarantined: int = 0
    notes: tuple[str, ...] = ()
    corrects: bool = False
    proven: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Published:
    """The target's own word that a receipt landed."""

    receipt: Receipt
    commit_version: int | None
    table_id: str
    notes: tuple[str, ...] = ()
    tidy: bool = False
    """Whether the commit has left nothing of the stage."""


@dataclass(frozen=True)
class Leftover:
    """Staged files of an attempt that never published."""

    location: str
    attempt: str
    pipeline: str
    window: str
    files: int
    size: int
    modified_ms: int


class Fenced(Exception):
    """Somebody else changed the window between our look and our commit."""

    def __init__(self, state: SliceState) -> None:
        super().__init__("the window was changed by somebody else")
        self.state = state


class TargetPort(Protocol):
    """A destination, bound to one pipeline."""

    @property
    def uri(self) -> str: ...

    def check_definition(self) -> None:
        """Compare the definition with the existing table, if there is one."""
        ...

    def connectors(self) -> frozenset[str]:
        """The connectors that a session needs for this target; found without Spark."""
        ...

    def mechanism(self) -> str:
        """How a publish will be done, in words."""
        ...

    def inspect(
        self, windows: Sequence[Window], recall: Recall | None = None
    ) -> Mapping[Window, SliceState]:
        """What the target itself says about the windows, without Spark."""
        ...

    def table_id(self) -> str | None: ...

    def published_windows(self) -> Sequence[str]:
        """The ids of all windows that the target's log names."""
        ...

    def location(self, run: Run, attempt: str) -> str:
        """Where an attempt stages its rows."""
        ...

    def stage(self, frame: Frame, run: Run, attempt: str, audits: Sequence[Audit]) -> Staged: ...

    def audit(
        self, session: Any, staged: Staged, run: Run, audits: Sequence[Audit]
    ) -> list[AuditResult]:
        """Evaluate the set-level audits over the staged rows."""
        ...

    def sample(self, session: Any, staged: Staged, audit: Audit) -> tuple[dict[str, Any], ...]: ...

    def publish(
        self, session: Any, run: Run, receipt: Receipt, staged: Staged | None, expected: SliceState
    ) -> Published:
        """One commit: the staged rows as the write pattern wants them, and the receipt.

        Without a stage the receipt is renewed alone. Raises `Fenced` when the window, or the
        newest one where that counts, is not what it was in `expected`.
        """
        ...

    def landed(self, window: str, attempt: str) -> Published | None:
        """Whether an attempt's receipt is in the target."""
        ...

    def has_stage(self, location: str) -> bool:
        """Whether an attempt has left anything at its place yet."""
        ...

    def drop_stage(self, location: str) -> None: ...

    def tidy_stage(self, staged: Staged) -> None:
        """After a publish: remove what the stage still holds and no commit needs."""
        ...

    def leftovers(self) -> Sequence[Leftover]: ...


@runtime_checkable
class ChunkPort(TargetPort, Protocol):
    """A target that can take several windows in one commit."""

    def alone(self) -> str:
        """Why windows have to be published one by one; empty when they need not."""
        ...

    def location(self, run: Statement, attempt: str) -> str: ...

    def stage(
        self, frame: Frame, run: Statement, attempt: str, audits: Sequence[Audit]
    ) -> Staged: ...

    def divide(
        self,
        session: Any,
        staged: Staged,
        chunk: Chunk,
        attempts: Mapping[Window, str],
        audits: Sequence[Audit],
    ) -> Mapping[Window, Staged]:
        """What the stage of a chunk holds of each window, found in one Spark job."""
        ...

    def publish_chunk(
        self,
        session: Any,
        chunk: Chunk,
        receipts: Sequence[Receipt],
        parts: Sequence[Staged] | None,
        expected: Mapping[Window, SliceState],
    ) -> Sequence[Published]:
        """One commit: the parts in place of what their windows held, and a receipt for each.

        Without parts the receipts are renewed alone. Raises `Fenced` when one of the windows is
        not what it was in `expected`; then nothing is committed.
        """
        ...


@dataclass(frozen=True)
class Remarks:
    """What a person should know about the rows that a window reads of an input.

    With a `refusal` they must not be published.
    """

    notes: tuple[str, ...] = ()
    refusal: SetpointError | None = None


class SourcePort(Protocol):
    """A source, bound to one pipeline's argument."""

    @property
    def label(self) -> str: ...

    def connectors(self) -> frozenset[str]: ...

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        """What each window would read now, without Spark."""
        ...

    def pin_published(self, window: Window, recorded: Mapping[str, Any]) -> Pinned:
        """What a publish has read, by what its receipt says; refused if that is gone."""
        ...

    def bounds(self, window: Window) -> str:
        """The clip, as a person reads it."""
        ...

    def read(self, session: Any, window: Window, pinned: Pinned) -> Frame: ...

    def confirm(self, window: Window, pinned: Pinned) -> None:
        """After the rows were staged: refuse them if the input changed while it was read."""
        ...

    def read_increment(
        self, session: Any, pinned: Pinned, after: Mark | None, again: tuple[str, str] | None
    ) -> tuple[Frame, Mark | None]:
        """The rows from a mark on, and the mark that they lead to, pinned before they are read.

        With `again`, a half-open range of the cursor's first column, the mark stays.
        """
        ...


@runtime_checkable
class SpanPort(SourcePort, Protocol):
    """A source that reads many windows as cheaply as one."""

    def read_span(self, session: Any, span: Span, pins: Mapping[Window, Pinned]) -> Frame:
        """The rows of all windows of a span."""
        ...


@runtime_checkable
class LandingPort(SourcePort, Protocol):
    """A source that is kept once per window, because it cannot be read again.

    The version of its `Pinned` is the newest landed generation; None before the first.
    """

    @property
    def uri(self) -> str:
        """Where its landed copies lie."""
        ...

    def land(self, session: Any, window: Window, attempt: str) -> Pinned:
        """Keep what the origin gives for the window now, as the next generation."""
        ...

    def generations(self, window: Window) -> Sequence[Landing]:
        """What is landed for a window, oldest first; found without Spark."""
        ...

    def leftovers(self) -> Sequence[Leftover]:
        """Files of attempts that landed nothing."""
        ...

    def drop(self, location: str) -> None:
        """Remove such files."""
        ...


@runtime_checkable
class AbsentPort(SourcePort, Protocol):
    """A source that can tell without Spark that there is nothing to read."""

    def absent(self, window: Window, pinned: Pinned) -> SetpointError | None:
        """Why a window cannot be read, if there is nothing for it that could be."""
        ...


@runtime_checkable
class RemarkPort(SourcePort, Protocol):
    """A source that may give a window rows which the clip to the window leaves out."""

    def remarks(self, session: Any, pins: Mapping[Window, Pinned]) -> Mapping[Window, Remarks]:
        """After the reads of some windows: what a person should know about their rows."""
        ...


@runtime_checkable
class HoldingPort(SourcePort, Protocol):
    """A source that holds something open at its origin while its frame may still be read.

    Whoever reads it has to release it, however the reading ends.
    """

    def seen(self, window: Window, pinned: Pinned) -> Pinned:
        """After a read: what it sees of a window, which may be newer than what was pinned."""
        ...

    def release(self, window: Window) -> None:
        """Let go of what a read of the window holds, together with others or by itself.

        Harmless when it holds nothing.
        """
        ...
