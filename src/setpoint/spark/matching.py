"""Which columns tell the rows of two sides that belong together, and what those rows differ in.

A key that was given goes first; otherwise a column, then a pair, that is unique on both sides. An
estimate only says what is worth counting, as in profile.py. Among those that are unique the first
by which rows meet that differ is taken: an id that is made anew by every run is unique, and
matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ERROR = 0.02
# Five standard errors: a set of columns that is unique does not fall below it.
_SURELY = 0.9
_MOST_COLUMNS = 60
_MOST_PAIRS = 30
_COUNTED = 3
# When more than this share of the rows differs, it is cheaper to match all of them.
_MANY = 0.2
_IDENTIFIER = re.compile(r"(^|_)(id|key|no|nr|num|number|code|sku|email)$|.Id$", re.I)
_NO_KEYS = (
    T.FloatType,
    T.DoubleType,
    T.BooleanType,
    T.StructType,
    T.ArrayType,
    T.MapType,
    T.VariantType,
    T.NullType,
)


@dataclass(frozen=True)
class Side:
    """One of the two sides: all rows, how many, and those that the other side lacks."""

    frame: DataFrame
    rows: int
    residue: DataFrame
    lacking: int


@dataclass(frozen=True)
class Candidate:
    """Columns that are unique on both sides, and what the rows that they match differ in.

    `drawn` are hashes of the keys of a few rows that differ in a column, for the examples.
    """

    columns: tuple[str, ...]
    matched: int
    changed: Mapping[str, int]
    drawn: Mapping[str, tuple[int, ...]]


def key_hash(names: Sequence[str], columns: Sequence[str]) -> str:
    """One number for a key; enough to find a few rows again."""
    return f"xxhash64({', '.join(f'v{names.index(name)}' for name in columns)})"


def matching_columns(
    sides: tuple[Side, Side],
    shared: Sequence[T.StructField],
    given: Sequence[str],
    moved: Sequence[str],
) -> Candidate | None:
    """The columns to match by; None when none are unique on both sides.

    `moved` are columns whose values are known to differ, so that they say nothing about what
    belongs together.
    """
    names = [field.name for field in shared]
    idle = None
    for columns in _unique(sides, shared, given, moved):
        candidate = _compared(sides, names, columns)
        if candidate.changed:
            return candidate
        # What was asked for is shown, unless something else brings rows together.
        idle = idle or candidate
    return idle if idle and set(idle.columns) == set(given) else None


def _unique(
    sides: tuple[Side, Side],
    shared: Sequence[T.StructField],
    given: Sequence[str],
    moved: Sequence[str],
) -> Iterator[tuple[str, ...]]:
    names = [field.name for field in shared]
    if given and set(given) <= set(names) and _is_unique(sides, names, tuple(given)):
        yield tuple(given)
    usable = [
        field.name
        for field in shared
        if field.name not in moved and not isinstance(field.dataType, _NO_KEYS)
    ]
    usable = sorted(usable, key=lambda name: not _IDENTIFIER.search(name))[:_MOST_COLUMNS]
    if not usable:
        return
    singles = _estimated(sides, names, [(name,) for name in usable])
    likely = [item for item in _likely(sides, singles) if item != tuple(given)]
    yield from (item for item in likely if _is_unique(sides, names, item))
    pairs = [
        pair if names.index(pair[0]) < names.index(pair[1]) else pair[::-1]
        for pair in combinations(usable, 2)
        if all(
            side.rows * _SURELY <= singles[pair[:1]][i] * singles[pair[1:]][i]
            and max(singles[pair[:1]][i], singles[pair[1:]][i]) < side.rows * _SURELY
            for i, side in enumerate(sides)
        )
    ][:_MOST_PAIRS]
    if pairs:
        likely = _likely(sides, _estimated(sides, names, pairs))
        yield from (item for item in likely if _is_unique(sides, names, item))


_Estimates = Mapping[tuple[str, ...], tuple[int, int]]


def _estimated(
    sides: tuple[Side, Side], names: Sequence[str], sets: Sequence[tuple[str, ...]]
) -> _Estimates:
    wanted = [F.approx_count_distinct(F.expr(key_hash(names, item)), _ERROR) for item in sets]
    one, two = _of_both(sides, wanted)
    return {columns: (one[i], two[i]) for i, columns in enumerate(sets)}


def _likely(sides: tuple[Side, Side], estimates: _Estimates) -> list[tuple[str, ...]]:
    return [
        columns
        for columns, about in estimates.items()
        if all(about[i] >= side.rows * _SURELY for i, side in enumerate(sides))
    ][:_COUNTED]


def _is_unique(sides: tuple[Side, Side], names: Sequence[str], columns: tuple[str, ...]) -> bool:
    """Whether columns are unique on both sides, by counting hashes.

    Two keys with one hash make a unique key look as if it were not; never the other way round.
    """
    one, two = _of_both(sides, [F.count_distinct(F.expr(key_hash(names, columns)))])
    return (one[0], two[0]) == (sides[0].rows, sides[1].rows)


def _of_both(sides: tuple[Side, Side], wanted: Sequence[Column]) -> tuple[list[int], list[int]]:
    """Counts of both sides, in one job; a side without rows has zeros."""
    one, two = (side.frame.withColumn("side", F.lit(i)) for i, side in enumerate(sides))
    found = {row[0]: row[1:] for row in one.unionAll(two).groupBy("side").agg(*wanted).collect()}
    none = [0] * len(wanted)
    return list(map(int, found.get(0, none))), list(map(int, found.get(1, none)))


def _compared(
    sides: tuple[Side, Side], names: Sequence[str], columns: tuple[str, ...]
) -> Candidate:
    """How many rows meet by these columns, and how many of them differ in which others.

    Of the keys of rows that differ, those with the least, the greatest and a middle hash are drawn.
    """
    many = any(side.lacking > side.rows * _MANY for side in sides)
    one, two = (side.frame if many else side.residue for side in sides)
    values = [f"v{i}" for i in range(len(names))]
    one, two = one.select(*values), two.select(*values).toDF(*(f"f{name}" for name in values))
    meet = " AND ".join(f"v{names.index(name)} <=> fv{names.index(name)}" for name in columns)
    others = [i for i, name in enumerate(names) if name not in columns]
    hashed = key_hash(names, columns)
    wanted = ["count(1)"]
    for i in others:
        differs = f"NOT v{i} <=> fv{i}"
        wanted += [
            f"count_if({differs})",
            f"min(IF({differs}, {hashed}, NULL))",
            f"max(IF({differs}, {hashed}, NULL))",
            f"min(IF({differs} AND {hashed} >= 0, {hashed}, NULL))",
        ]
    row = one.join(two, F.expr(meet)).selectExpr(*wanted).collect()[0]
    matched, changed, drawn = int(row[0]), {}, {}
    for place, i in enumerate(others):
        count, *hashes = row[1 + 4 * place : 5 + 4 * place]
        if count:
            changed[names[i]] = int(count)
            drawn[names[i]] = tuple(dict.fromkeys(item for item in hashes if item is not None))
    # Rows that are the same have the same key, which is unique: they match too.
    same = 0 if many else sides[0].rows - sides[0].lacking
    return Candidate(columns, same + matched, changed, drawn)
