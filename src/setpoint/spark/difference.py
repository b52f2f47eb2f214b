"""How two sets of rows differ: exact, whatever their order, in Spark, at any size.

Equal sets cost one pass over each side. A pass sums two independent 64-bit hashes of every row
(sums, so that duplicates count and order does not) and one of every column. Two different sets of
the same size look equal with a chance of about 1 in 2^128. Only sets that are not equal cost more:
rows are counted by those hashes, and what is left over is matched by key and compared column by
column, value by value. Nothing is brought to the driver but totals and a few example rows.

Both sides are read several times, so they have to be fixed: a table at a version, not a plan with
a clock in it. What makes two values the same is told in comparable.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.model.proof import ColumnChange, Difference, schema_changes
from setpoint.spark.comparable import comparable, readable, type_text
from setpoint.spark.examples import examples_of, loose_rows
from setpoint.spark.matching import Side, matching_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Sums of pieces of 22 bits do not wrap below 2^41 rows.
_PIECE = 22
_MASK_WIDTH = 60
# How much of a value is brought along for the examples; what is shown of it is less.
_LONGEST = 2000


@dataclass(frozen=True)
class Contents:
    """What one pass tells about a set of rows: enough to say whether another one is the same."""

    rows: int
    whole: tuple[int, ...]
    columns: Mapping[str, tuple[int, ...]]
    kinds: Mapping[str, str]

    def is_same(self, other: Contents) -> bool:
        return (self.rows, self.whole) == (other.rows, other.whole)


def contents(frame: DataFrame) -> Contents:
    """One pass over a frame; keep the answer when it is compared more than once."""
    return _contents(frame, frame.schema.fields)


def difference(
    expected: DataFrame,
    found: DataFrame,
    *,
    key: Sequence[str] = (),
    examples: int = 5,
    known: Contents | None = None,
) -> Difference:
    """How `found` differs from `expected`; empty when they hold the same rows.

    `key` are the columns by which rows of both sides belong together. They are used if they are
    unique on both sides; otherwise, or without any, a column or a pair that is unique is searched.
    `known` are the `contents` of `expected` from an earlier comparison.
    """
    shared, schema = _shared(expected, found)
    kinds = {field.name: type_text(field.dataType) for field in shared}
    if known is None or known.kinds != kinds:
        known = _contents(expected, shared)
    other = _contents(found, shared)
    if known.is_same(other) and (shared or not schema):
        return Difference(known.rows, other.rows, 0, 0, schema=schema)
    if not shared:
        return Difference(known.rows, other.rows, known.rows, other.rows, schema=schema)
    return _told(expected, found, shared, (known, other), schema, key, examples)


def _told(
    expected: DataFrame,
    found: DataFrame,
    shared: Sequence[T.StructField],
    sums: tuple[Contents, Contents],
    schema: tuple[str, ...],
    key: Sequence[str],
    examples: int,
) -> Difference:
    one, two = (_hashed(frame, shared) for frame in (expected, found))
    marks = one.selectExpr("h", "g", "1L AS e", "0L AS f").unionAll(
        two.selectExpr("h", "g", "0L AS e", "1L AS f")
    )
    groups = marks.groupBy("h", "g").agg(F.sum("e").alias("e"), F.sum("f").alias("f"))
    groups = groups.where("e <> f").persist()
    try:
        missing, added, repeated = _totals(groups)
        names = tuple(field.name for field in shared)
        sides = (
            Side(one, sums[0].rows, _only_in(one, groups.where("e > f")), missing),
            Side(two, sums[1].rows, _only_in(two, groups.where("f > e")), added),
        )
        # With other numbers of rows every column has another sum, and that tells nothing.
        moved = [name for name in names if sums[0].columns[name] != sums[1].columns[name]]
        moved = moved if sums[0].rows == sums[1].rows else []
        chosen = matching_columns(sides, shared, key, moved) if missing and added else None
        if chosen is None:
            changes = tuple(_change(field) for field in shared if field.name in moved)
            rows = loose_rows(sides, names, moved, examples)
        else:
            shown = examples_of(sides, names, chosen, examples)
            changes = tuple(
                _change(field, chosen.changed[field.name], shown.pairs.get(field.name, ()))
                for field in shared
                if field.name in chosen.changed
            )
            rows = shown.rows
        return Difference(
            rows_expected=sums[0].rows,
            rows_found=sums[1].rows,
            missing=missing,
            added=added,
            key=chosen.columns if chosen else (),
            matched=chosen.matched if chosen else 0,
            columns=tuple(sorted(changes, key=lambda change: -(change.rows or 0))),
            examples=rows,
            schema=schema,
            repeated=repeated,
        )
    finally:
        groups.unpersist()


def _only_in(frame: DataFrame, groups: DataFrame) -> DataFrame:
    return frame.join(groups.select("h", "g"), ["h", "g"], "left_semi")


def _change(
    field: T.StructField, rows: int | None = None, pairs: tuple[tuple[str, str], ...] = ()
) -> ColumnChange:
    return ColumnChange(field.name, type_text(field.dataType), rows, pairs)


def _shared(expected: DataFrame, found: DataFrame) -> tuple[list[T.StructField], tuple[str, ...]]:
    """The columns that both sides have with the same type, and what is different, in words."""
    one, two = (
        {field.name: type_text(field.dataType) for field in frame.schema.fields}
        for frame in (expected, found)
    )
    shared = [field for field in expected.schema.fields if two.get(field.name) == one[field.name]]
    return shared, schema_changes(one, two)


def _hashed(frame: DataFrame, shared: Sequence[T.StructField]) -> DataFrame:
    """The shared columns: `v0`… to compare, `t0`… to read, and the row's hashes `h` and `g`.

    Names of our own and columns by place: whatever a table calls its columns is no matter.
    """
    place = {name: i for i, name in enumerate(frame.columns)}
    raw = frame.toDF(*(f"r{i}" for i in range(len(frame.columns))))
    values = [
        f"{comparable(f'r{place[field.name]}', field.dataType)} AS v{i}"
        for i, field in enumerate(shared)
    ]
    texts = [
        f"{readable(f'r{place[field.name]}', field.dataType, _LONGEST)} AS t{i}"
        for i, field in enumerate(shared)
    ]
    names = [f"v{i}" for i in range(len(shared))]
    # Spark's hash skips nulls, so that (1, null) and (null, 1) would be the same: the nulls are
    # hashed along. The second hash starts elsewhere and takes the columns from behind.
    masks = [
        " + ".join(
            f"IF({name} IS NULL, {1 << i}L, 0L)"
            for i, name in enumerate(names[start : start + _MASK_WIDTH])
        )
        for start in range(0, len(names), _MASK_WIDTH)
    ]
    forwards = f"xxhash64({', '.join([*names, *masks, '0L'])})"
    backwards = f"xxhash64({', '.join(['-7046029254386353131L', *masks, *reversed(names)])})"
    return raw.selectExpr(*values, *texts).selectExpr("*", f"{forwards} AS h", f"{backwards} AS g")


def _contents(frame: DataFrame, shared: Sequence[T.StructField]) -> Contents:
    hashed = _hashed(frame, shared)
    wanted = ["count(1)", *_sums("h", 3), *_sums("g", 3)]
    for i in range(len(shared)):
        # Half as many bits are plenty for a hint.
        wanted += _sums(f"xxhash64(v{i}, v{i} IS NULL)", 2)
    found = hashed.selectExpr(*wanted).collect()[0]
    numbers = [int(number or 0) for number in found]
    columns = {field.name: tuple(numbers[7 + 2 * i : 9 + 2 * i]) for i, field in enumerate(shared)}
    kinds = {field.name: type_text(field.dataType) for field in shared}
    return Contents(numbers[0], tuple(numbers[1:7]), columns, kinds)


def _sums(value: str, pieces: int) -> list[str]:
    mask = (1 << _PIECE) - 1
    return [
        f"sum(shiftrightunsigned({value}, {_PIECE * piece}) & {mask}L)" for piece in range(pieces)
    ]


def _totals(groups: DataFrame) -> tuple[int, int, int]:
    row = groups.selectExpr(
        "sum(greatest(e - f, 0L))",
        "sum(greatest(f - e, 0L))",
        "sum(IF(e > 0, greatest(f - e, 0L), 0L))",
    ).collect()[0]
    missing, added, repeated = (int(number or 0) for number in row)
    return missing, added, repeated
