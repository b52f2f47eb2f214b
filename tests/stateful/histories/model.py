"""What a table must hold: the documented meaning of each write pattern, in plain Python.

A state is everything that decides what later runs do: the rows, which windows were published,
and which keys were removed. Where the documentation leaves it open what happens, or nobody can
know (a process was killed), there are several possible states; what is read from the real table
says which of them are left.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from histories.rows import GONE, Row, ordered

PATTERNS = ("overwrite", "merge", "delete_insert", "insert_new", "replace")
KEYED = ("merge", "insert_new")
CONTRADICTION = "SP-O07"
# DeleteInsert(where="w <> 'other'"): rows for which it does not hold are nobody's.
OTHER = "other"


@dataclass(frozen=True)
class Meaning:
    """What a definition says about rows: the pattern, and the column that owns them.

    A merge that `removes` has delete_when, one that is `complete` has when_missing="delete".
    """

    pattern: str
    column: str | None = "d"
    removes: bool = False
    complete: bool = False

    @property
    def newest_counts(self) -> bool:
        """Whether all windows state the same rows."""
        if self.pattern == "delete_insert":
            return not self.column
        return self.pattern == "replace" or (self.pattern == "merge" and self.complete)

    @property
    def reads(self) -> str:
        """The column by which a run chooses its facts."""
        return self.column or "d"


@dataclass(frozen=True)
class State:
    """A table, as far as later runs depend on it."""

    rows: tuple[Row, ...] = ()
    published: frozenset[tuple[dt.date, Meaning]] = frozenset()
    removed: frozenset[tuple[dt.date, int, int]] = frozenset()

    def having(self, rows: Iterable[Row]) -> State:
        return replace(self, rows=ordered(rows))


@dataclass(frozen=True)
class Ending:
    """A way in which a run may end: the state it leaves, and how the run says it."""

    state: State
    says: str = "done"  # or "superseded", or "refused"


def run(
    meaning: Meaning,
    state: State,
    day: dt.date,
    batch: Sequence[Row],
    *,
    force: bool = False,
) -> list[Ending]:
    """Every way in which a run of a window may end."""
    if meaning.pattern == "insert_new" and _contradicts(state, batch):
        return [Ending(state, "refused")]
    published = state.published | {(day, meaning)}
    done = [
        Ending(replace(after, published=published)) for after in _after(meaning, state, day, batch)
    ]
    if not meaning.newest_counts or force:
        return done
    newer = [item for item in state.published if item[0] > day]
    if not newer:
        return done
    others = any(stated != meaning for _, stated in state.published)
    return [Ending(state, "superseded"), *(done if others else [])]


def has_unique_keys(state: State) -> bool:
    return len({row.id for row in state.rows}) == len(state.rows)


def _after(meaning: Meaning, state: State, day: dt.date, batch: Sequence[Row]) -> list[State]:
    match meaning.pattern:
        case "overwrite" | "delete_insert" | "replace":
            owned = _owned(meaning, day)
            return [state.having([*(row for row in state.rows if not owned(row)), *batch])]
        case "insert_new":
            known = {row.id for row in state.rows}
            return [state.having([*state.rows, *(row for row in batch if row.id not in known)])]
        case _:
            return _merged(meaning, state, day, batch)


def _owned(meaning: Meaning, day: dt.date) -> Callable[[Row], bool]:
    """Which rows a publish of the window replaces."""

    def owned(row: Row) -> bool:
        if meaning.pattern == "replace":
            return True
        if meaning.column and getattr(row, meaning.column) != day:
            return False
        return meaning.pattern == "overwrite" or (row.w is not None and row.w != OTHER)

    return owned


def _merged(meaning: Meaning, state: State, day: dt.date, batch: Sequence[Row]) -> list[State]:
    """The greatest row of each key; a sequence belongs to one window, which corrects its own."""
    others = frozenset(item for item in state.removed if item[0] != day)
    keys = {row.id for row in batch}
    kept = [row for row in state.rows if row.id in keys or not meaning.complete]
    stored = [{row.id: row for row in kept}]
    for row in batch:
        removal = max((seq for _, key, seq in others if key == row.id), default=-1)
        gone = meaning.removes and row.v == GONE
        for rows in list(stored):
            old = rows.get(row.id)
            if removal >= row.seq:
                # It stays out. Whether a row that somebody put there meanwhile stays is open.
                if old is not None and old.seq <= removal:
                    stored.append({key: item for key, item in rows.items() if key != row.id})
            elif old is None or row.seq >= old.seq:
                rows.pop(row.id, None)
                if not gone:
                    rows[row.id] = row
    gone_now = {(day, row.id, row.seq) for row in batch if meaning.removes and row.v == GONE}
    removed = others | gone_now
    return [replace(state, rows=ordered(rows.values()), removed=removed) for rows in stored]


def _contradicts(state: State, batch: Sequence[Row]) -> bool:
    stored = {row.id: row for row in state.rows}
    return any(row.id in stored and stored[row.id] != row for row in batch)
