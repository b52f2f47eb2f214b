"""What a history does to a table without setpoint, whatever the destination."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from histories.model import State
from histories.rows import Row


class Place(ABC):
    """A table of one history; what only some destinations can do is named in `able`."""

    kind: ClassVar[str]
    able: ClassVar[frozenset[str]]
    table: str
    connections: dict[str, str]

    def __init__(self) -> None:
        self.connections = {}

    @abstractmethod
    def exists(self) -> bool: ...

    @abstractmethod
    def rows(self) -> tuple[Row, ...]:
        """All rows, as a reader sees them."""

    @abstractmethod
    def append(self, rows: Iterable[Row]) -> None: ...

    @abstractmethod
    def delete(self, key: int) -> None:
        """Remove the rows of a key."""

    @abstractmethod
    def update(self, key: int, text: str, shift: int) -> None:
        """Set `v` of a key's rows and move their sequence."""

    @abstractmethod
    def overwrite(self, rows: Iterable[Row]) -> None:
        """Replace all rows, as a restored backup does."""

    def after_overwrite(self, state: State) -> list[State]:
        """What may be known of a state's windows after `overwrite`."""
        return [state]

    def after_lost_ledger(self, state: State) -> list[State]:
        """What may be known of a state's windows once the ledger is gone."""
        return [state]

    @abstractmethod
    def compact(self) -> None:
        """Rewrite the files; no row changes."""

    def version(self) -> Any:
        """The version that `roll_back` goes back to; None where there is none."""
        return None

    def roll_back(self, version: Any) -> None:
        raise NotImplementedError

    def after_roll_back(self, now: State, then: State) -> list[State]:
        """What may be known once the table went back from one state to another."""
        return [then]

    def forget(self) -> None:
        """Remove the history of the table: expire snapshots, clean up the log."""
        raise NotImplementedError

    def swap_columns(self) -> None:
        """Rename v to w and w to v."""
        raise NotImplementedError

    def renew_column(self) -> None:
        """Drop the column w and add one of the same name, which is null."""
        raise NotImplementedError

    def close(self) -> None:
        """Remove what does not lie in the history's folder."""
        return


def updated(rows: Iterable[Row], key: int, text: str, shift: int) -> list[Row]:
    """What `update` makes of rows."""
    return [r._replace(v=text, seq=r.seq + shift) if r.id == key else r for r in rows]


def mapped(state: State, change: Callable[[Row], Row]) -> State:
    return state.having(change(row) for row in state.rows)
