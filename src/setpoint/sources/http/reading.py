"""Landed items as rows: the schema is applied to their JSON text, and nothing is lost silently.

A value that does not fit its type ends the job with an error that names the item; a null in a
row means that the item says null or nothing there. So the item is read twice, as the schema says
and with texts at its leaves, and the two are compared, however deep they lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.spark.contents import quoted
from setpoint.spark.workers import OWN_END, OWN_START

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BROKEN = "__setpoint_broken"
# A number of milliseconds taken for seconds ends up beyond it.
_LAST_TIME = "TIMESTAMP'9999-12-31 23:59:59.999999+00:00'"
_WITH_OFFSET = "[T ].*([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)$"


def typed_items(frame: DataFrame, schema: T.StructType, label: str, timezone: str) -> DataFrame:
    """The columns of a schema from the column `item`; days are those of the time zone."""
    texts = T.StructType([T.StructField(f.name, _as_text(f.dataType)) for f in schema.fields])
    parsed = T.StructType([*schema.fields, T.StructField(_BROKEN, T.StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}
    read = frame.select(
        F.col("id").alias("__setpoint_id"),
        F.from_json("item", parsed, options).alias("__setpoint_row"),
        F.from_json("item", texts).alias("__setpoint_text"),
    )
    losses = [
        F.when(F.expr(lost), F.lit(shown))
        for field in schema.fields
        for lost, shown in _losses(*_places(field), field.dataType, field.name, timezone)
    ]
    named = F.concat_ws(", ", *losses)
    message = F.concat(
        F.lit(f"{OWN_START}SP-H05|The item "),
        F.col("__setpoint_id"),
        F.lit(f" of {label} does not fit its schema: "),
        # Where the JSON itself has another shape, it is not known which part is meant.
        F.when(named != F.lit(""), named).otherwise(F.lit("a value inside of a field")),
        F.lit(f".{OWN_END}"),
    )
    is_unfit = F.col(f"__setpoint_row.{_BROKEN}").isNotNull() | (named != F.lit(""))
    fields = (F.expr(_value(field, timezone)).alias(field.name) for field in schema.fields)
    checked = read.select(
        F.when(is_unfit, F.raise_error(message).cast(schema))
        .otherwise(F.struct(*fields))
        .alias("row")
    )
    return checked.select(*(F.col(f"row.{quoted(f.name)}").alias(f.name) for f in schema.fields))


def _places(field: T.StructField) -> tuple[str, str]:
    """A field as the schema reads it, and as text."""
    name = quoted(field.name)
    return f"`__setpoint_row`.{name}", f"`__setpoint_text`.{name}"


def _as_text(kind: T.DataType) -> T.DataType:
    """The same shape with texts at its leaves."""
    match kind:
        case T.StructType():
            return T.StructType([T.StructField(f.name, _as_text(f.dataType)) for f in kind.fields])
        case T.ArrayType():
            return T.ArrayType(_as_text(kind.elementType))
        case T.MapType():
            return T.MapType(kind.keyType, _as_text(kind.valueType))
        case _:
            return T.StringType()


def _value(field: T.StructField, timezone: str) -> str:
    """A field's value: Spark's, but of a moment the day that it falls on in the time zone."""
    value, text = _places(field)
    if not isinstance(field.dataType, T.DateType):
        return value
    return f"IF({text} RLIKE '{_WITH_OFFSET}', {_local_day(text, timezone)}, {value})"


def _local_day(text: str, timezone: str) -> str:
    # The session is in UTC, so the shifted time shows the local clock.
    return f"CAST(from_utc_timestamp(TRY_CAST({text} AS TIMESTAMP), '{timezone}') AS DATE)"


def _losses(
    value: str, text: str, kind: T.DataType, path: str, timezone: str, depth: int = 0
) -> Iterator[tuple[str, str]]:
    """Conditions under which a value was lost or bent on the way, each with what to call it."""
    lost, bent = f"({value} IS NULL AND {text} IS NOT NULL)", ""
    match kind:
        case T.TimestampType() | T.TimestampNTZType():
            bent = f"CAST({value} AS TIMESTAMP) > {_LAST_TIME}"
        case T.DecimalType():
            # Digits behind the point would be rounded away.
            bent = f"{value} <> TRY_CAST({text} AS DECIMAL(38, 18))"
        case T.DateType():
            # At the top the day of a moment is worked out; further down it is cut from the text.
            day = _local_day(text, timezone)
            wrong = f"NOT ({value} <=> {day})" if depth else f"{day} IS NULL"
            bent = f"({text} RLIKE '{_WITH_OFFSET}' AND {wrong})"
        case T.StructType():
            for field in kind.fields:
                one, said = (f"{place}.{quoted(field.name)}" for place in (value, text))
                named = f"{path}.{field.name}"
                yield from _losses(one, said, field.dataType, named, timezone, depth + 1)
        case T.ArrayType():
            yield from _losses_within(value, text, kind.elementType, path, timezone, depth)
        case T.MapType():
            values, texts = f"map_values({value})", f"map_values({text})"
            yield from _losses_within(values, texts, kind.valueType, path, timezone, depth)
    # Inside of a field, what is of another kind makes Spark call the whole item broken.
    if bent or not depth:
        yield " OR ".join(filter(None, (lost, bent))), f"{path} ({kind.simpleString()})"


def _losses_within(
    values: str, texts: str, kind: T.DataType, path: str, timezone: str, depth: int
) -> Iterator[tuple[str, str]]:
    """The same for the elements of a list; `path` is what the list is called."""
    one, said = f"v{depth}", f"t{depth}"
    for lost, shown in _losses(one, said, kind, f"{path}[]", timezone, depth + 1):
        yield f"exists(zip_with({values}, {texts}, ({one}, {said}) -> {lost}), x -> x)", shown
