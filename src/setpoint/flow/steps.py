"""The steps of a run, as values: `plan` prints them, `run` executes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Run
from setpoint.model.window import Window


@dataclass(frozen=True)
class Unchanged:
    """The window already holds this run: nothing to do."""

    receipt: Receipt
    name = "unchanged"

    def describe(self) -> str:
        return f"generation {self.receipt.generation}, published {self.receipt.published_at}"


@dataclass(frozen=True)
class Superseded:
    """A newer window already states what the rows are: nothing to do."""

    by: str
    name = "superseded"

    def describe(self) -> str:
        return f"by {self.by}, the newest window that was published"


@dataclass(frozen=True)
class Land:
    """Keep what a source that cannot be read again gives for the window."""

    source: str
    label: str
    generation: int
    name = "land"

    def describe(self) -> str:
        return f"{self.source} from {self.label} as generation {self.generation}"


@dataclass(frozen=True)
class Read:
    """Bind one input, clipped to the window and pinned to a version."""

    source: str
    label: str
    bounds: str
    detail: str
    name = "read"

    def describe(self) -> str:
        return f"{self.source} from {self.label} ({self.detail}) where {self.bounds}"


@dataclass(frozen=True)
class Check:
    """Evaluate the pipeline and search its plan for what would make a second run differ."""

    allowed: tuple[str, ...]
    name = "check"

    def describe(self) -> str:
        allowed = f"; allowed: {', '.join(self.allowed)}" if self.allowed else ""
        return f"search the plan for what would make a second run differ{allowed}"


@dataclass(frozen=True)
class Stage:
    """Write the pipeline's rows where no reader sees them."""

    place: str
    checks: tuple[str, ...]
    name = "stage"

    def describe(self) -> str:
        checks = f"; on the way: {', '.join(self.checks)}" if self.checks else ""
        return f"write the rows for {self.place} where no reader sees them{checks}"


@dataclass(frozen=True)
class Audit:
    """Check the staged rows as a set."""

    checks: tuple[str, ...]
    name = "audit"

    def describe(self) -> str:
        return ", ".join(self.checks) if self.checks else "nothing beyond the row checks"


@dataclass(frozen=True)
class Publish:
    """Make the staged rows the window's slice, in one commit with the receipt."""

    generation: int
    mechanism: str
    name = "publish"

    def describe(self) -> str:
        return f"generation {self.generation} by {self.mechanism}"


@dataclass(frozen=True)
class Record:
    """Tell the ledger."""

    name = "record"

    def describe(self) -> str:
        return "the ledger keeps the attempt, its steps and the receipt"


Step = Unchanged | Superseded | Land | Read | Check | Stage | Audit | Publish | Record


EVERY = "*"


@dataclass(frozen=True)
class How:
    """What was asked for beyond the windows.

    `force` runs them although nothing changed, and although something speaks against it; `again`
    is a range of the cursor that an incremental pipeline is to read once more; `as_published`
    reads the inputs that the last publish has read; `refresh` names the landed input that is
    landed anew, or `EVERY` one. `restate` runs them although nothing changed, and no more.
    """

    force: bool = False
    again: tuple[str, str] | None = None
    as_published: bool = False
    refresh: str = ""
    restate: bool = False

    def refreshes(self, name: str) -> bool:
        """Whether an input is landed anew although it is landed already."""
        return self.refresh in (EVERY, name)

    @property
    def reason(self) -> str | None:
        """Why a window runs whatever its state is."""
        if self.again is not None:
            return f"the range {self.again[0]}..{self.again[1]} is read again"
        if self.force or self.restate:
            return "forced" if self.force else "restated"
        if not self.refresh:
            return None
        what = "its inputs are" if self.refresh == EVERY else f"the input {self.refresh} is"
        return f"{what} landed anew"


USUAL = How()


@dataclass(frozen=True)
class Plan:
    """What will happen to one window, and why."""

    run: Run
    state: SliceState
    reason: str
    steps: tuple[Step, ...]
    how: How = USUAL
    gap: tuple[str, Sequence[Window]] | None = None
    """A pipeline that is read, and its windows that should be there and are not."""

    def without_check(self) -> Plan:
        """The plan for rows of a frame that was checked already."""
        return replace(self, steps=tuple(s for s in self.steps if not isinstance(s, Check)))

    @property
    def is_unchanged(self) -> bool:
        """Whether there is nothing to do."""
        return any(isinstance(step, (Unchanged, Superseded)) for step in self.steps)
