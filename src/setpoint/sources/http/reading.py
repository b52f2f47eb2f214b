"""Landed items as rows: the schema is applied to their JSON text, and nothing is lost silently.

A value that does not fit its type ends the job with an error that names the item; a null in a
row means that the item says null or nothing there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.spark.contents import quoted
from setpoint.spark.workers import OWN_END, OWN_START

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BROKEN = "__setpoint_broken"
# A number of milliseconds taken for seconds ends up beyond it.
_LAST_TIME = "TIMESTAMP'9999-12-31 23:59:59.999999+00:00'"


def typed_items(frame: DataFrame, schema: T.StructType, label: str) -> DataFrame:
    """The columns of a schema from the column `item`."""
    names = [field.name for field in schema.fields]
    texts = T.StructType([T.StructField(name, T.StringType()) for name in names])
    parsed = T.StructType([*schema.fields, T.StructField(_BROKEN, T.StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}
    read = frame.select(
        F.col("id").alias("__setpoint_id"),
        F.from_json("item", parsed, options).alias("__setpoint_row"),
        F.from_json("item", texts).alias("__setpoint_text"),
    )
    named = F.concat_ws(", ", *(_unfit(field) for field in schema.fields))
    message = F.concat(
        F.lit(f"{OWN_START}SP-H05|The item "),
        F.col("__setpoint_id"),
        F.lit(f" of {label} does not fit its schema: "),
        # What lies inside of a struct or a list has no name of its own here.
        F.when(named != F.lit(""), named).otherwise(F.lit("a value inside of a field")),
        F.lit(f".{OWN_END}"),
    )
    is_unfit = F.col(f"__setpoint_row.{_BROKEN}").isNotNull() | (named != F.lit(""))
    checked = read.select(
        F.when(is_unfit, F.raise_error(message).cast(parsed))
        .otherwise(F.col("__setpoint_row"))
        .alias("row")
    )
    return checked.select(*(F.col(f"row.{quoted(name)}").alias(name) for name in names))


def _unfit(field: T.StructField) -> Column:
    """The field's name and type where its value was lost or cut on the way, otherwise null."""
    value = f"`__setpoint_row`.{quoted(field.name)}"
    text = f"`__setpoint_text`.{quoted(field.name)}"
    lost = f"({value} IS NULL AND {text} IS NOT NULL)"
    if isinstance(field.dataType, (T.TimestampType, T.TimestampNTZType)):
        lost += f" OR CAST({value} AS TIMESTAMP) > {_LAST_TIME}"
    elif isinstance(field.dataType, T.DecimalType):
        # Digits behind the point would be rounded away.
        lost += f" OR {value} <> TRY_CAST({text} AS DECIMAL(38, 18))"
    shown = f"{field.name} ({field.dataType.simpleString()})"
    return F.when(F.expr(lost), F.lit(shown))
