"""Python values as SQL text are what `lit` makes of them, whatever the session says of escapes."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from setpoint.spark.expressions import literal, text_literal

VALUES = (
    *(True, 0, -7, -(2**31), 2**31, -(2**63), 1.5, -0.0, float("inf")),
    *(Decimal("1.50"), Decimal("-1E+3"), b"\x00'", "", "plain", "it's", 'a"b', "back\\slash\\'"),
    *("-- no comment", "Größe \U0001f600", "${spark.master}", "\n\t"),
    *(date(2026, 4, 25), date(1000, 1, 1), datetime(2026, 4, 25, 1, 2, 3, 4, tzinfo=timezone.utc)),
    *(datetime(2026, 4, 25, tzinfo=timezone(timedelta(hours=-3))), datetime(2026, 4, 25, 12)),  # noqa: DTZ001
    *(timedelta(days=-1, microseconds=1), np.float64(0.1)),
)


def test_a_literal_is_the_value_in_its_type(spark: SparkSession) -> None:
    row = spark.range(1)
    wanted = row.select(*(F.lit(value).alias(f"c{n}") for n, value in enumerate(VALUES)))
    found = row.select(*(F.expr(literal(v)).alias(f"c{n}") for n, v in enumerate(VALUES)))
    kinds = [field.dataType.simpleString() for field in wanted.schema]
    assert [field.dataType.simpleString() for field in found.schema] == kinds
    assert found.collect() == wanted.collect()


def test_a_text_is_the_same_where_backslashes_stand_for_themselves(spark: SparkSession) -> None:
    texts = [value for value in VALUES if isinstance(value, str)]
    name = "spark.sql.parser.escapedStringLiterals"
    spark.conf.set(name, "true")
    try:
        found = spark.range(1).select(*(F.expr(text_literal(text)) for text in texts)).first()
    finally:
        spark.conf.unset(name)
    assert list(found or ()) == texts
