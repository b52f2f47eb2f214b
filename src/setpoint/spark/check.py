"""The passes of a check over the rows: counts per key, what duplicates differ in, rows per window.

Columns get names of our own before anything is grouped, so that no name of the table's can
clash with them. Only the columns that a pass needs are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.errors import UsageError
from setpoint.model.grain import Grain
from setpoint.sources.existing import READ_ONLY, ExistingTable, unreadable
from setpoint.spark.contents import quoted, row_hash
from setpoint.spark.files import literal_path, read_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Two hashes are kept per column and key to say which columns differ; beyond this, only whether.
_MOST_COLUMNS = 40
_NUMBERS = ((6, "yyyyMM"), (8, "yyyyMMdd"), (10, "yyyyMMddHH"))
_DAY = 86_400


@dataclass(frozen=True)
class Clock:
    """The window of a row as a number: its start in seconds since 1970.

    `naive` starts are times on the clock of the zone, the others are instants.
    """

    column: Column
    grain: Grain
    naive: bool


@dataclass(frozen=True)
class KeyCount:
    """What the keys whose earliest row lies in one window add up to.

    `spread` keys have rows in other windows too; their surplus rows belong to no one window.
    """

    start: int | None
    rows: int
    keys: int
    duplicated: int
    surplus: int
    null_rows: int
    spread: int
    spread_surplus: int


@dataclass(frozen=True)
class Difference:
    """How the rows that share a key compare in the other columns."""

    identical_surplus: int
    columns: tuple[tuple[str, int], ...]
    worst: tuple[dict[str, Any], ...]


def frame_of(session: SparkSession, table: ExistingTable, columns: Iterable[str]) -> DataFrame:
    """The rows of the live files; `columns` are the ones that will be used."""
    try:
        if table.read is not None:
            return table.read(session)
        if table.storage is None:
            raise TypeError("a table without files is read by its name")
        if table.connectors:
            reader = session.read.format("delta").option("versionAsOf", str(table.version))
            return reader.load(table.storage.spark_path())
        if table.kind == "parquet":
            path = table.storage.spark_path(table.single_file or "")
            reader = session.read
            if all(file.path.endswith(".parquet") for file in table.files):
                reader = reader.option("pathGlobFilter", "*.parquet")
            return reader.parquet(literal_path(path))
        return _live_files(session, table, set(columns) & set(table.partition_columns))
    except Exception as error:
        raise unreadable(table.label, error) from error


def clock_of(frame: DataFrame, time: str, grain: Grain, timezone: str) -> Clock:
    """How a column tells the window of a row; a date tells no window that is finer than a day."""
    kind = frame.schema[time].dataType
    column = F.col(quoted(time))
    match kind:
        case T.TimestampType():
            seconds = F.unix_seconds(column)
            wall = seconds
            if timezone != "UTC":
                wall = F.unix_seconds(F.from_utc_timestamp(column, timezone))
            if grain.within_day:
                # Back to the instant: an hour that the clock shows twice is two windows.
                start = _label(wall, grain) - (wall - seconds)
                return Clock(start, grain, naive=False)
            return Clock(_label(wall, grain), grain, naive=True)
        case T.DateType():
            coarse = Grain("day") if grain.within_day else grain
            return Clock(_label(F.unix_date(column) * _DAY, coarse), coarse, naive=True)
        case T.TimestampNTZType() | T.StringType():
            wall = F.unix_seconds(column.try_cast("timestamp_ntz").cast("timestamp"))
            return Clock(_label(wall, grain), grain, naive=True)
        case T.IntegerType() | T.LongType():
            wall = F.unix_seconds(_from_number(column.cast("string")))
            return Clock(_label(wall, grain), grain, naive=True)
        case _:
            raise UsageError(
                "SP-R02",
                f"The column {time} is of type {kind.simpleString():.80}, which does not tell the "
                f"{grain} window of a row.",
                state=READ_ONLY,
                next="Give a date or timestamp column as --time.",
            )


def key_counts(frame: DataFrame, key: Sequence[str], clock: Clock | None) -> list[KeyCount]:
    """Rows, distinct keys and surplus rows, per window, in one pass over the key."""
    names = [f"k{i}" for i in range(len(key))]
    start = clock.column if clock else F.lit(None).cast("long")
    rows = frame.select(*_renamed(key, names), start.alias("start"))
    groups = rows.groupBy(*names).agg(
        F.count(F.lit(1)).alias("n"), F.min("start").alias("low"), F.max("start").alias("high")
    )
    incomplete = _any([F.col(name).isNull() for name in names])
    duplicated = ~incomplete & (F.col("n") > 1)
    spread = duplicated & (F.col("low") != F.col("high"))
    found = groups.groupBy("low").agg(
        F.sum("n"),
        _sum(~incomplete, F.lit(1)),
        _sum(duplicated, F.lit(1)),
        _sum(duplicated, F.col("n") - 1),
        _sum(incomplete, F.col("n")),
        _sum(spread, F.lit(1)),
        _sum(spread, F.col("n") - 1),
    )
    return [KeyCount(*row) for row in found.collect()]


def difference(frame: DataFrame, key: Sequence[str], examples: int) -> Difference:
    """Whether duplicates are identical in all columns; reads the whole rows, once."""
    names = [f"k{i}" for i in range(len(key))]
    others = [item for item in frame.schema.fields if item.name not in key]
    parts = [[item] for item in others] if len(others) <= _MOST_COLUMNS else [others]
    hashes = [row_hash(T.StructType(part)).alias(f"h{i}") for i, part in enumerate(parts)]
    flags = [f"d{i}" for i in range(len(parts))]
    groups = (
        frame.select(*_renamed(key, names), *hashes)
        .where(~_any([F.col(name).isNull() for name in names]))
        .groupBy(*names)
        .agg(
            F.count(F.lit(1)).alias("n"),
            *((F.min(f"h{i}") != F.max(f"h{i}")).alias(flag) for i, flag in enumerate(flags)),
        )
        .where("n > 1")
        .persist()
    )
    same = ~_any([F.col(flag) for flag in flags])
    try:
        total = groups.agg(
            _sum(same, F.col("n") - 1),
            *(_sum(F.col(flag), F.lit(1)) for flag in flags),
        ).collect()[0]
        worst = groups.orderBy(F.desc("n"), *names).limit(examples).collect()
    finally:
        groups.unpersist()
    named = len(parts) == len(others)
    counted = [
        (part[0].name, int(total[1 + i])) for i, part in enumerate(parts) if named and total[1 + i]
    ]
    return Difference(
        identical_surplus=int(total[0]),
        columns=tuple(sorted(counted, key=lambda pair: -pair[1])),
        worst=tuple(
            {
                "key": {name: shown(row[i]) for i, name in enumerate(key)},
                "rows": int(row["n"]),
                "identical": not any(row[flag] for flag in flags),
            }
            for row in worst
        ),
    )


def null_keys(frame: DataFrame, key: Sequence[str], examples: int) -> tuple[dict[str, Any], ...]:
    """A few keys that hold a null."""
    columns = [F.col(quoted(name)) for name in key]
    rows = frame.select(*columns).where(_any([column.isNull() for column in columns]))
    return tuple(
        {"key": {name: shown(row[i]) for i, name in enumerate(key)}}
        for row in rows.limit(examples).collect()
    )


def time_counts(
    frame: DataFrame, clock: Clock, partition: Sequence[str]
) -> list[tuple[int | None, tuple[Any, ...], int]]:
    """Rows per window and partition: (start, partition values, rows)."""
    names = [f"p{i}" for i in range(len(partition))]
    rows = frame.select(clock.column.alias("start"), *_renamed(partition, names))
    found = rows.groupBy("start", *names).agg(F.count(F.lit(1)).alias("n")).collect()
    return [(row["start"], tuple(row[name] for name in names), row["n"]) for row in found]


def refuse_unfit_key(frame: DataFrame, key: Sequence[str]) -> None:
    """Maps and variants have no equality in Spark, so they cannot be part of a key."""
    for name in key:
        kind = frame.schema[name].dataType.simpleString()
        if "map<" in kind or "variant" in kind:
            raise UsageError(
                "SP-T02",
                f"The column {name} is of type {kind:.80}, which cannot be part of a key.",
                why="Spark cannot tell whether two such values are equal.",
                state=READ_ONLY,
                next="Leave it out of --key.",
            )


def shown(value: Any) -> Any:
    """A value as it stands in an example."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _live_files(session: SparkSession, table: ExistingTable, partition: set[str]) -> DataFrame:
    """The live files of a Delta table; its partition columns only when they are needed."""
    if table.snapshot is None or table.storage is None:
        raise TypeError("a Delta table has a snapshot")
    return read_files(
        session,
        table.storage.spark_path(),
        table.snapshot.table.schema().to_json(),
        table.partition_columns,
        table.files,
        partition_values=bool(partition),
    )


def _label(wall: Column, grain: Grain) -> Column:
    """The time on the clock at which the window of a time on the clock begins."""
    if grain.within_day or str(grain) == "day":
        step = 60 * grain.nominal_minutes
        return (F.floor(wall / F.lit(step)) * step).cast("long")
    days = F.floor(wall / F.lit(_DAY)).cast("int")
    if str(grain) == "week":
        # 1970-01-01 was a Thursday.
        return ((days - F.pmod(days + 3, F.lit(7))) * _DAY).cast("long")
    return F.unix_date(F.trunc(F.date_from_unix_date(days), "MM")).cast("long") * _DAY


def _from_number(text: Column) -> Column:
    """202604, 20260425 or 2026042513 as a time; null for any other number."""
    read = [F.when(F.length(text) == n, F.try_to_timestamp(text, F.lit(f))) for n, f in _NUMBERS]
    return F.coalesce(*read)


def _renamed(columns: Sequence[str], names: Sequence[str]) -> list[Column]:
    return [F.col(quoted(c)).alias(name) for c, name in zip(columns, names, strict=True)]


def _any(conditions: Sequence[Column]) -> Column:
    return reduce(lambda a, b: a | b, conditions, F.lit(False))


def _sum(condition: Column, value: Column) -> Column:
    return F.coalesce(F.sum(F.when(condition, value).otherwise(F.lit(0))), F.lit(0))
