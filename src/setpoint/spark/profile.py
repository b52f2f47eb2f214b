"""The passes of key advice: columns, sets of columns, and keys that come back.

An estimate (HyperLogLog) only says what is worth counting; whether a set of columns is unique is
always counted. Names of our own keep the table's names from clashing, as in check.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.spark.check import Clock, shown
from setpoint.spark.contents import quoted, row_hash

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# The standard error of the estimates.
ERROR = 0.02
_UUID = re.compile(r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}", re.I)
_FLOATING = (T.FloatType, T.DoubleType)
_MOMENTS = (T.TimestampType, T.TimestampNTZType)
_NESTED = (T.ArrayType, T.MapType, T.StructType)
# Beyond so many attributes, whether they change is told of the first ones only.
_MOST_ATTRIBUTES = 40


@dataclass(frozen=True)
class ColumnProfile:
    """What one pass tells about a column; `distinct` is an estimate, None when it has none."""

    name: str
    kind: str
    nulls: int
    distinct: int | None
    floating: bool = False
    moment: bool = False
    nested: bool = False
    generated: bool = False


@dataclass(frozen=True)
class Return:
    """Keys that have rows in several windows, and what their rows differ in."""

    keys: int
    several_per_window: int
    changed_keys: int
    changed: tuple[tuple[str, int], ...]
    constant: tuple[str, ...]
    after_a_gap: int
    recycled: int
    examples: tuple[dict[str, Any], ...]
    recycled_examples: tuple[dict[str, Any], ...]


def profile(
    frame: DataFrame, content: Collection[str]
) -> tuple[int, int, tuple[ColumnProfile, ...]]:
    """Rows, about how many differ in their `content`, and every column, in one pass."""
    fields = frame.schema.fields
    wanted: list[Column] = [F.count(F.lit(1)).alias("rows"), _different(frame, content)]
    for i, field in enumerate(fields):
        column = F.col(quoted(field.name))
        wanted.append(F.count(column).alias(f"n{i}"))
        if _comparable(field.dataType):
            wanted.append(F.approx_count_distinct(column, ERROR).alias(f"d{i}"))
        if isinstance(field.dataType, T.StringType):
            wanted += [F.min(column).alias(f"a{i}"), F.max(column).alias(f"z{i}")]
    found = frame.agg(*wanted).collect()[0].asDict()
    rows = int(found["rows"])
    columns = tuple(
        ColumnProfile(
            name=field.name,
            kind=field.dataType.simpleString(),
            nulls=rows - int(found[f"n{i}"]),
            distinct=found.get(f"d{i}"),
            floating=isinstance(field.dataType, _FLOATING),
            moment=isinstance(field.dataType, _MOMENTS),
            nested=isinstance(field.dataType, _NESTED),
            # If the least and the greatest value are UUIDs, hardly anything between is not.
            generated=_is_uuid(found.get(f"a{i}")) and _is_uuid(found.get(f"z{i}")),
        )
        for i, field in enumerate(fields)
    )
    return rows, int(found["different"]), columns


def different_rows(frame: DataFrame, content: Collection[str]) -> int:
    """About how many rows differ in these columns."""
    return int(frame.agg(_different(frame, content)).collect()[0][0])


def estimates(frame: DataFrame, sets: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
    """About how many distinct values each set of columns has, in one job."""
    hashes = [F.xxhash64(*(F.col(quoted(name)) for name in names)) for names in sets]
    found = frame.agg(*(F.approx_count_distinct(item, ERROR) for item in hashes)).collect()[0]
    return dict(zip(sets, map(int, found), strict=True))


def distinct_counts(
    frame: DataFrame, sets: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], int]:
    """How many distinct values each set of columns has, counted, in one job."""
    structs = [
        F.struct(*(F.col(quoted(name)).alias(f"k{i}") for i, name in enumerate(names)))
        for names in sets
    ]
    found = frame.agg(*(F.count_distinct(item) for item in structs)).collect()[0]
    return dict(zip(sets, map(int, found), strict=True))


def returning(
    frame: DataFrame, key: Sequence[str], clock: Clock, ignored: Collection[str], examples: int
) -> Return:
    """What the keys that have rows in several windows differ in; whole rows are read once."""
    names = [f"k{i}" for i in range(len(key))]
    columns = [F.col(quoted(name)) for name in key]
    others = [f for f in frame.schema.fields if f.name not in key and f.name not in ignored]
    others = others[:_MOST_ATTRIBUTES]
    hashes = [row_hash(T.StructType([f])).alias(f"h{i}") for i, f in enumerate(others)]
    flags = [f"d{i}" for i in range(len(others))]
    starts = F.array_sort(F.collect_set("start"))
    groups = (
        frame.select(
            *(c.alias(n) for c, n in zip(columns, names, strict=True)),
            clock.column.alias("start"),
            *hashes,
        )
        .dropna(subset=[*names, "start"])
        .groupBy(*names)
        .agg(
            F.count(F.lit(1)).alias("n"),
            starts.alias("starts"),
            *((F.min(f"h{i}") != F.max(f"h{i}")).alias(flag) for i, flag in enumerate(flags)),
        )
        .where("size(starts) > 1")
        .withColumn("gap", _longest_gap())
        .persist()
    )
    try:
        return _summary(groups, key, [f.name for f in others], clock, examples)
    finally:
        groups.unpersist()


def versions(
    frame: DataFrame, key: dict[str, Any], time: str, columns: Sequence[str], most: int
) -> tuple[dict[str, Any], ...]:
    """The rows of one key, in the order of time: the column of time and what changes."""
    shown_columns = list(dict.fromkeys([*key, time, *columns]))
    rows = frame.select(*map(quoted, shown_columns))
    for name, value in key.items():
        rows = rows.where(F.col(quoted(name)).eqNullSafe(F.lit(value)))
    found = rows.orderBy(*(F.col(quoted(name)) for name in (time, *columns))).limit(most).collect()
    return tuple(
        {name: shown(row[i]) for i, name in enumerate(shown_columns)}  # no asDict: names may repeat
        for row in found
    )


def _summary(
    groups: DataFrame, key: Sequence[str], attributes: list[str], clock: Clock, examples: int
) -> Return:
    flags = [f"d{i}" for i in range(len(attributes))]
    changed = _count([F.col(flag) for flag in flags])
    total = groups.agg(
        F.count(F.lit(1)),
        F.coalesce(F.sum((F.col("n") > F.size("starts")).cast("long")), F.lit(0)),
        F.coalesce(F.sum((changed > 0).cast("long")), F.lit(0)),
        F.coalesce(F.sum((F.col("gap") > _step(clock)).cast("long")), F.lit(0)),
        *(F.coalesce(F.sum(F.col(flag).cast("long")), F.lit(0)) for flag in flags),
    ).collect()[0]
    keys, several, changed_keys, gaps, *counts = (int(number) for number in total)
    # An attribute that hardly ever changes is meant to be fixed: who changes all of those, after
    # a pause, is somebody else under the same id.
    fixed = [flag for flag, number in zip(flags, counts, strict=True) if 0 < number <= keys * 0.2]
    recycled, recycled_examples = 0, []
    if len(fixed) >= 2 and not several:
        others = groups.where(_count([F.col(flag) for flag in fixed]) == len(fixed))
        others = others.where(F.col("gap") > _step(clock))
        recycled = others.count()
        recycled_examples = others.orderBy(*groups.columns[: len(key)]).limit(examples).collect()
    worst = (
        groups.where(changed > 0)
        .orderBy(F.desc(F.size("starts")), *groups.columns[: len(key)])
        .limit(examples)
        .collect()
    )
    pairs = list(zip(attributes, counts, strict=True))
    return Return(
        keys=keys,
        several_per_window=several,
        changed_keys=changed_keys,
        changed=tuple(sorted((p for p in pairs if p[1]), key=lambda pair: -pair[1])),
        constant=tuple(name for name, number in pairs if not number),
        after_a_gap=gaps,
        recycled=recycled,
        examples=tuple(_key_of(row, key) for row in worst),
        recycled_examples=tuple(_key_of(row, key) for row in recycled_examples),
    )


def _key_of(row: Any, key: Sequence[str]) -> dict[str, Any]:
    return {name: row[i] for i, name in enumerate(key)}


def _count(flags: Sequence[Column]) -> Column:
    return sum((flag.cast("int") for flag in flags), F.lit(0))


def _longest_gap() -> Column:
    later = F.slice("starts", 2, F.size("starts") - 1)
    pairs = F.zip_with(later, F.slice("starts", 1, F.size("starts") - 1), lambda b, a: b - a)
    return F.array_max(pairs)


def _step(clock: Clock) -> int:
    """The longest time between two windows that follow each other, in seconds."""
    days = {"month": 31, "week": 7}.get(clock.grain.unit)
    return days * 86_400 if days else 60 * clock.grain.nominal_minutes


def _different(frame: DataFrame, content: Collection[str]) -> Column:
    kept = T.StructType([field for field in frame.schema.fields if field.name in content])
    return F.approx_count_distinct(row_hash(kept), ERROR).alias("different")


def _comparable(kind: T.DataType) -> bool:
    text = kind.simpleString()
    return not any(word in text for word in ("map<", "variant", "void", "geography", "geometry"))


def _is_uuid(value: Any) -> bool:
    return isinstance(value, str) and _UUID.fullmatch(value) is not None
