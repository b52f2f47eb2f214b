"""The rows of a history and where they come from: a few facts, each of one window."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

DAYS = tuple(dt.date(2026, 4, number) for number in (1, 2, 3))
SCHEMA = "id int, v string, w string, seq long, d date, e date"
ARROW = pa.schema(
    [
        ("id", pa.int32()),
        ("v", pa.string()),
        ("w", pa.string()),
        ("seq", pa.int64()),
        ("d", pa.date32()),
        ("e", pa.date32()),
    ]
)
EVENT_KEYS = (1, 2, 3, 4)
GONE = "gone"  # in `v`: the row removes its key


class Row(NamedTuple):
    """One row; `d` says which window it belongs to, and so does `e` when a definition says so."""

    id: int
    v: str | None
    w: str | None
    seq: int
    d: dt.date
    e: dt.date


def ordered(rows: Iterable[Sequence[object]]) -> tuple[Row, ...]:
    """Rows as a bag: in one order, each as often as it is there."""
    return tuple(sorted((Row(*row) for row in rows), key=repr))  # type: ignore[arg-type]


def table_of(rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist([row._asdict() for row in rows], ARROW)


@dataclass
class Facts:
    """What the pipelines of a history read: a Parquet file for each window and each column.

    Events (`by_event`) share few keys among the windows, each at most once in a window, and each
    has a sequence of its own. Other facts have a key of their own and stay in their window.
    """

    folder: Path
    by_event: bool
    rows: dict[int, Row] = field(default_factory=dict)
    _last: int = 0

    def begin(self, random: Random) -> None:
        for day in DAYS:
            for _ in range(random.randint(1, 2)):
                self.add(random, day)
        self.write()

    def add(self, random: Random, day: dt.date, *, gone: bool = False) -> None:
        """One more fact of a day, or a corrected one where its keys are used up."""
        used = {row.id for row in self.rows.values() if row.d == day}
        self._last += 1
        keys = [key for key in EVENT_KEYS if key not in used] if self.by_event else [self._last]
        if not keys:
            self.correct(random, day)
            return
        key, number = random.choice(keys), self._last
        sequence = 1000 * random.randint(1, 9) + number if self.by_event else number
        text, other = GONE if gone else f"v{number}", random.choice(DAYS)
        away = not self.by_event and random.random() < 0.3
        self.rows[number] = Row(key, text, f"w{number}", sequence, day, other if away else day)

    def correct(self, random: Random, day: dt.date | None = None) -> None:
        """A fact, of this day or any, says something else under its key and its sequence."""
        self._last += 1
        known = [n for n, row in sorted(self.rows.items()) if day is None or row.d == day]
        if known:
            number = random.choice(known)
            self.rows[number] = self.rows[number]._replace(v=f"v{self._last}", w=f"w{self._last}")

    def drop(self, random: Random) -> None:
        if self.rows:
            del self.rows[random.choice(sorted(self.rows))]

    def batch(self, day: dt.date, column: str) -> tuple[Row, ...]:
        """What a run of the day reads, if this column says which window a row belongs to."""
        return ordered(row for row in self.rows.values() if getattr(row, column) == day)

    def write(self) -> None:
        """Bring the files up to date; one that says the same stays as it is."""
        for column in ("d", "e"):
            (self.folder / column).mkdir(parents=True, exist_ok=True)
            for day in DAYS:
                file = self.folder / column / f"{day}.parquet"
                new = table_of(self.batch(day, column))
                if not file.exists() or not pq.read_table(file).equals(new):
                    pq.write_table(new, file)
