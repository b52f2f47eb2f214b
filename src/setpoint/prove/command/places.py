"""What a command writes: tables, files and folders, and what a proof does with each of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from setpoint.model.proof import Difference
    from setpoint.model.window import Window
    from setpoint.spark.session import Sessions


# Rows that are shown of a difference.
EXAMPLES = 3


@dataclass(frozen=True)
class Waiting:
    """Who stands before a closed gate: the command, as far as one can tell, and anybody else."""

    ours: int = 0
    others: int = 0

    @property
    def any(self) -> bool:
        return bool(self.ours or self.others)


class Gate(Protocol):
    """Holds writers of one place between two commits, so that a kill needs no luck.

    Readers are never held.
    """

    def is_closed(self) -> bool:
        """Whether no writer can begin now; what was under way has been committed."""
        ...

    def is_committed(self) -> bool:
        """Whether the writer that was let pass is done, as its server knows it; then it is closed.

        Who waits for that to be told sees it late on a busy machine.
        """
        ...

    def waiting(self) -> Waiting:
        """Which writers stand before the gate."""
        ...

    def let_one_pass(self) -> None:
        """Let the writer that waits do one transaction; the gate closes behind it."""
        ...

    def leave_open(self) -> None:
        """Hold nobody any more."""
        ...

    def turn_away(self) -> None:
        """End the writers that wait and surely belong to the command, which was killed."""
        ...


@dataclass(frozen=True)
class Sight:
    """A look that costs almost nothing: what a reader would see, and what else is there."""

    visible: str
    beneath: str = ""
    exact: bool = True
    """Whether every change of what a reader would see shows in it."""
    files: frozenset[tuple[str, int]] = frozenset()
    """The files of a place without rows, each with a number for its size and time."""
    empty: frozenset[str] = frozenset()
    """Those of them that are empty: as a rule just made, and about to be filled."""

    def made_since(self, last: Sight) -> frozenset[str]:
        """The files that were made empty or emptied since, if that is all that has happened."""
        made = self.empty - last.empty
        other = {name for name, _ in self.files ^ last.files} - made
        return frozenset() if other else made


@dataclass(frozen=True)
class Watching:
    """Eyes on a place; the gate is there where writers can be held between two commits."""

    look: Callable[[], Sight]
    gate: Gate | None = None


@dataclass(frozen=True)
class Question:
    """How two states of a table are compared.

    `time` and `window` narrow the comparison to the rows of one window, or to all others.
    """

    key: tuple[str, ...] = ()
    time: str = ""
    window: Window | None = None
    outside: bool = False


class Place(Protocol):
    """A place that a command writes to; it may not exist yet."""

    @property
    def name(self) -> str:
        """The name that the user gave it."""
        ...

    @property
    def label(self) -> str:
        """The place as a person writes it: `delta:lake/orders`."""
        ...

    @property
    def address(self) -> str:
        """What a command needs to know to find it."""
        ...

    @property
    def identity(self) -> str:
        """One text for whatever names lead to the same place; of a file, its path without links."""
        ...

    def refusal(self, beside: Sequence[Place]) -> str:
        """Why it cannot be brought back to what it was; empty when it can.

        What lies `beside` it is brought back as well.
        """
        ...

    def keep(self, folder: Path) -> None:
        """Keep its state in a folder that does not exist yet, to bring it back."""
        ...

    def restore(self, folder: Path) -> None:
        """Bring it back to the state that was kept, and compare; what differs is an error."""
        ...

    def reset(self, folder: Path) -> None:
        """Bring it back for the next trial: rows, not yet everything that is left behind."""
        ...

    def elsewhere(self, folder: Path) -> str:
        """Why it is another place now than when it was kept, in words; empty when it is not."""
        ...

    def copy_in(self, folder: Path) -> Place:
        """The place of a copy that belongs to the proof; nothing is written yet."""
        ...

    def fill(self, original: Place) -> None:
        """Make this copy what the original is; the original is only read."""
        ...

    def left_out(self) -> str:
        """What a copy of it would not have, in words; empty when a copy is all that it is."""
        ...

    def discard(self) -> None:
        """Remove a copy that belongs to the proof."""
        ...

    def watching(self, *, held: bool = True) -> AbstractContextManager[Watching]:
        """Eyes on it for the time that a command runs; without a gate unless writers are held."""
        ...


class Table(Place, Protocol):
    """A place that holds rows."""

    def remember(self, folder: Path) -> None:
        """Keep its rows in a folder that does not exist yet, to compare with them."""
        ...

    def exists(self, folder: Path) -> bool:
        """Whether there was a table when the state was kept."""
        ...

    def rows(self, folder: Path, sessions: Sessions) -> int:
        """The rows of the state that was kept."""
        ...

    def rows_now(self, sessions: Sessions) -> int:
        """The rows that it holds now."""
        ...

    def difference(self, folder: Path, question: Question, sessions: Sessions) -> Difference | None:
        """How its rows differ from those that were kept; None when they do not."""
        ...

    def time_column(
        self, before: Path, after: Path, named: str, window: Window, sessions: Sessions
    ) -> str:
        """The column that says which rows are a window's: the named one, or the likeliest.

        That is the one by which most rows that came between two kept states lie in the window,
        or, when none came, most of all rows. Empty when there is none.
        """
        ...


def name_of_commands() -> str:
    """The name under which commands of this prover reach a database, unless they have their own."""
    return f"setpoint-prove-{os.getpid()}"
