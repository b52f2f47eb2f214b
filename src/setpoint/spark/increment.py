"""Reading from a high-water mark on: the bounds of a cursor, found before any row is read.

A read takes the rows from the mark on, the mark itself included: rows that share the last
timestamp and were committed later would be lost otherwise. They are read again for it, which
does no harm to a write that goes by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from setpoint.errors import RefusedError, UsageError, some_of
from setpoint.model.mark import KINDS, Mark, later_of
from setpoint.model.source import Source
from setpoint.spark.contents import quoted
from setpoint.spark.expressions import text_literal
from setpoint.spark.failures import explain, root_cause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DATES = "2026-01-01..2026-02-01"
_RANGES = {"string": "a..b", "date": _DATES, "timestamp": _DATES, "timestamp_ntz": _DATES}


def increment(
    frame: DataFrame,
    source: Source,
    after: Mark | None,
    again: tuple[str, str] | None,
    label: str,
) -> tuple[DataFrame, Mark | None]:
    """The rows from a mark on, and the mark that they lead to."""
    fields = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    kinds = cursor_kinds(fields, source, label)
    if again is not None:
        return _range(frame, source.cursor[0], kinds[0], again), None
    if after is not None and after.kinds != kinds:
        after = None  # the column's type changed: its old values cannot be compared with
    low = _from(source, after, kinds)
    upper = _upper(frame, source, low, kinds, label)
    if upper is None:
        return frame.where("false"), after
    bounds = f"{low} AND {_compare(source.cursor, upper, '<')}"
    return frame.where(bounds), later_of(upper, after)


def _from(source: Source, after: Mark | None, kinds: Sequence[str]) -> str:
    """The condition that a row lies at the mark or after it, or within the lookback before."""
    if after is None:
        return "true"
    first, back = quoted(source.cursor[0]), source.lookback
    if back is None:
        return _compare(source.cursor, after, ">")
    mark = _literal(after.values[0], kinds[0])
    if isinstance(back, timedelta):
        seconds, rest = divmod(back, timedelta(seconds=1))
        micros = rest // timedelta(microseconds=1)
        return f"{first} >= {mark} - INTERVAL '{seconds}.{micros:06d}' SECOND"
    return f"{first} >= {mark} - {back}"


def _upper(
    frame: DataFrame, source: Source, low: str, kinds: tuple[str, ...], label: str
) -> Mark | None:
    """The greatest cursor there is now: what comes later is for the next run."""
    columns = [F.col(quoted(name)) for name in source.cursor]
    missing = " OR ".join(f"{quoted(name)} IS NULL" for name in source.cursor)
    complete = F.struct(*(column.alias(f"c{n}") for n, column in enumerate(columns)))
    found = frame.where(f"{missing} OR {low}").agg(
        F.count_if(F.expr(missing)).alias("missing"),
        F.max(F.when(~F.expr(missing), complete)).alias("greatest"),
    )
    texts = [F.col(f"greatest.c{n}").cast("string").alias(f"t{n}") for n in range(len(columns))]
    try:
        row = found.select("missing", *texts).collect()[0]
    except Exception as error:
        raise explain(error, f"finding the newest {source.cursor[0]} of {label}") from error
    if row["missing"]:
        raise holds_nulls(source, label, int(row["missing"]))
    if row["t0"] is None:
        return None
    values = tuple(str(row[f"t{n}"]) for n in range(len(columns)))
    return Mark(source.cursor, kinds, values)


def _range(frame: DataFrame, column: str, kind: str, again: tuple[str, str]) -> DataFrame:
    start, end = (_literal(text, kind) for text in again)
    try:
        # Evaluated here, so that a bound that is no value of the column is told as such.
        found = frame.sparkSession.sql(f"SELECT {start}, {end}").collect()[0]
        if None in tuple(found):
            raise ValueError(f"it is no value of type {kind}")
        return frame.where(f"{quoted(column)} >= {start} AND {quoted(column)} < {end}")
    except Exception as error:
        raise no_range(column, kind, again, root_cause(error)) from error


def holds_nulls(source: Source, label: str, rows: int) -> RefusedError:
    """Rows without a cursor."""
    return RefusedError(
        "SP-R03",
        f"The cursor ({', '.join(source.cursor)}) of the source {label} is null in {rows:,} rows.",
        why="Such a row has no place before or after the mark, so it would never be read.",
        next="Fill the column, or leave the rows out of the source.",
    )


def no_range(column: str, kind: str, again: tuple[str, str], because: str) -> UsageError:
    """Bounds that are no values of the cursor."""
    return UsageError(
        "SP-C01",
        f"--range {again[0]!r:.60}..{again[1]!r:.60} is not a range of {column}, which is of "
        f"type {kind}: {because}",
        next=f"Write --range {_RANGES.get(kind, '1000..2000')}, the end not included.",
    )


def _compare(columns: Sequence[str], mark: Mark, operator: str) -> str:
    """Lexicographic `>=` or `<=` against a mark, from its most significant column on."""
    condition = "true"
    for name, kind, text in reversed(list(zip(columns, mark.kinds, mark.values, strict=True))):
        value, column = _literal(text, kind), quoted(name)
        condition = f"({column} {operator} {value} OR ({column} = {value} AND {condition}))"
    return condition


def _literal(text: str, kind: str) -> str:
    return f"CAST({text_literal(text)} AS {kind})"


def cursor_kinds(fields: Mapping[str, str], source: Source, label: str) -> tuple[str, ...]:
    """The types of the cursor's columns; refused if their values have no exact order."""
    for name in source.cursor:
        if name not in fields:
            raise RefusedError(
                "SP-R02",
                f"The source {label} has no column {name}; it has {some_of(fields, name)}.",
                why="Rows are read by that column from the high-water mark on.",
                next="Correct cursor= of the source.",
            )
        if fields[name] not in KINDS and not fields[name].startswith("decimal("):
            raise RefusedError(
                "SP-R02",
                f"{name} of the source {label} is of type {fields[name]}: not a cursor.",
                why="Its values have no exact order, so rows could be lost at the mark.",
                next="Use a timestamp, a date, a whole number, a decimal or a string.",
            )
    if isinstance(source.lookback, timedelta) and not fields[source.cursor[0]].startswith(
        "timestamp"
    ):
        raise RefusedError(
            "SP-R02",
            f"lookback={source.lookback} needs a timestamp, but {source.cursor[0]} of {label} is "
            f"of type {fields[source.cursor[0]]}.",
            next="Give the lookback as a number, or use a timestamp as the cursor.",
        )
    if isinstance(source.lookback, int) and not _counts_in_numbers(fields[source.cursor[0]]):
        raise RefusedError(
            "SP-R02",
            f"lookback={source.lookback} needs whole numbers or dates, but {source.cursor[0]} of "
            f"{label} is of type {fields[source.cursor[0]]}.",
            next="Give the lookback as a timedelta for a timestamp; a string has none.",
        )
    return tuple(fields[name] for name in source.cursor)


def _counts_in_numbers(kind: str) -> bool:
    return kind in ("date", "tinyint", "smallint", "int", "bigint") or kind.startswith("decimal")
