"""The search for keys: minimal sets of columns that are unique, by estimate first, then counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setpoint.spark.profile import ColumnProfile

Columns = tuple[str, ...]
Estimate = Callable[[Sequence[Columns]], Mapping[Columns, int]]
Count = Callable[[Sequence[Columns]], Mapping[Columns, int]]

# Five standard errors of the estimate: a set that is a key does not fall below it.
SURELY = 0.9
# A set of which so many values are different was meant to be a key.
ALMOST = 0.99
_LONGEST = 4
_TRIED_PER_SIZE = 60
_MOST_COLUMNS = 25
_COUNTED_PER_SIZE = 4
# Columns that tell when or by whom a row was loaded, not what it is about.
LOAD_STAMP = re.compile(
    r"(^|_)(load|ingest|insert|import|batch|etl|processed|run_?id|job_?id|attempt)", re.I
)
_IDENTIFIER = re.compile(r"(^|_)(id|key|no|nr|num|number|code|sku|email|isin|iban)$|.Id$", re.I)


@dataclass(frozen=True)
class Candidate:
    """A set of columns and how many distinct values it has, counted."""

    columns: Columns
    distinct: int
    unique: bool


@dataclass(frozen=True)
class Found:
    """The keys, the sets that came nearest, and whether every likely set was tried."""

    keys: tuple[Candidate, ...]
    near: tuple[Candidate, ...]
    tried_all: bool


def is_content(column: ColumnProfile) -> bool:
    """Whether a column is about the thing itself, so that a row loaded twice agrees in it."""
    return not column.generated and not LOAD_STAMP.search(column.name)


def is_good(columns: Columns, profiles: Mapping[str, ColumnProfile]) -> bool:
    """Whether a key says which thing a row is about: no made-up id, and more than a time."""
    parts = [profiles[name] for name in columns]
    return all(is_content(part) for part in parts) and not all(part.moment for part in parts)


def search(
    rows: int,
    different: int,
    columns: Sequence[ColumnProfile],
    estimate: Estimate,
    count: Count,
    *,
    time: str | None = None,
) -> Found:
    """Try single columns, then pairs and so on, until a good key is found.

    `different` is about how many rows differ in their content; where rows were loaded twice, no
    set is unique, and one that has as many values as there are different rows is the nearest.
    `time` is the column that tells a row's window, if it is known.
    """
    usable = [c for c in columns if c.distinct is not None and _usable(c, rows)]
    profiles = {column.name: column for column in usable}
    rank = {column.name: _rank(column, i, time) for i, column in enumerate(usable)}
    known: dict[Columns, int] = {(column.name,): column.distinct or 0 for column in usable}
    goal = min(rows, different)
    keys: list[Candidate] = []
    near: list[Candidate] = []
    tried_all = True
    for length in range(1, _LONGEST + 1):
        tried = _possible(length, known, rank, goal, keys)
        tried_all &= len(tried) <= _TRIED_PER_SIZE
        tried_all &= length <= 2 or len(rank) <= _MOST_COLUMNS
        tried = tried[:_TRIED_PER_SIZE]
        if length > 1 and tried:
            known.update(estimate(tried))
        likely = [columns for columns in tried if known[columns] >= goal * SURELY]
        counted = count(likely[:_COUNTED_PER_SIZE]) if likely else {}
        tried_all &= len(likely) <= _COUNTED_PER_SIZE
        for names, distinct in counted.items():
            found = keys if distinct == rows else near
            found.append(Candidate(names, distinct, distinct == rows))
        if any(is_good(key.columns, profiles) for key in keys):
            break
        # Rows that are there twice cannot be told apart by any set of columns.
        if near and goal < rows * SURELY:
            break

    def order(item: Candidate) -> tuple[object, ...]:
        likely = sum(rank[name] for name in item.columns)
        values = -round(item.distinct / rows, 3)
        return not is_good(item.columns, profiles), values, len(item.columns), likely

    keys.sort(key=order)
    near.sort(key=order)
    return Found(tuple(keys), tuple(near), tried_all)


def _usable(column: ColumnProfile, rows: int) -> bool:
    varies = column.distinct != 1 or rows == 1
    return varies and not (column.nulls or column.floating or column.nested)


def _rank(column: ColumnProfile, position: int, time: str | None) -> float:
    """How unlikely a column is in a key: ids first, then the time, what was generated last."""
    kind = column.kind
    if _IDENTIFIER.search(column.name) and is_content(column):
        level = 0
    elif column.name == time:
        level = 5
    elif column.moment or not is_content(column):
        level = 30
    elif kind.startswith("decimal") or kind == "boolean":
        level = 20
    else:
        level = 8 if kind == "date" else 10
    return level + position / 1000


def _possible(
    length: int,
    known: Mapping[Columns, int],
    rank: Mapping[str, float],
    goal: int,
    keys: Sequence[Candidate],
) -> list[Columns]:
    """The sets of so many columns that may be unique and hold no key that is known, likely first.

    A set has at most as many values as its parts' values multiplied.
    """
    names = sorted(rank, key=lambda name: rank[name])
    names = names[:_MOST_COLUMNS] if length > 2 else names
    place = list(rank)
    found = []
    for chosen in combinations(names, length):
        if any(set(key.columns) <= set(chosen) for key in keys):
            continue
        columns = tuple(sorted(chosen, key=place.index))
        most = prod(known[(name,)] for name in columns)
        for part in combinations(columns, length - 1):
            (rest,) = set(columns) - set(part)
            most = min(most, known.get(part, most) * known[(rest,)])
        if most >= goal * SURELY:
            found.append(columns)
    return sorted(found, key=lambda columns: sum(rank[name] for name in columns))
