"""Expressions over rows, as SQL text wherever they can be.

A text crosses to the JVM in one call, where a tree of columns takes dozens. What a user wrote
stays a column: inside of another text `a) OR (b` would be a condition too, and mean other rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from pyspark.sql import functions as F

from setpoint.spark.contents import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

Expression: TypeAlias = Union[str, "Column"]

_PLAIN = re.compile(r"[A-Za-z0-9_.:;~ -]*")


def any_null(columns: Sequence[str]) -> str:
    """Whether one of the columns is null."""
    return " OR ".join(f"{quoted(name)} IS NULL" for name in columns)


def is_not_true(condition: str) -> str:
    """Rows for which the condition, which stands by itself, is false or null."""
    return f"NOT coalesce(({condition}\n), false)"


def unless(condition: Expression, flag: str) -> Expression:
    """The condition, but for rows that have a flag."""
    if isinstance(condition, str):
        return f"({condition}) AND NOT {quoted(flag)}"
    return condition & ~F.col(flag)


def counted(condition: Expression, name: str) -> Column:
    """How many rows satisfy a condition, as an aggregate with a name."""
    return named(
        f"count_if({condition})" if isinstance(condition, str) else F.count_if(condition), name
    )


def named(expression: Expression, name: str) -> Column:
    """The expression as a column with a name."""
    if isinstance(expression, str):
        return F.expr(f"{expression} AS {quoted(name)}")
    return expression.alias(name)


def text_literal(text: str) -> str:
    """A text that means the same whatever the session says about escapes in literals."""
    if _PLAIN.fullmatch(text):
        return f"'{text}'"
    return f"CAST(X'{text.encode().hex().upper()}' AS STRING)"


def literal(value: Any) -> str:
    """A Python value as SQL: what `lit` makes of it, in the same type."""
    if hasattr(value, "item"):
        value = value.item()  # of numpy
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int():
            return f"({value})"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case Decimal():
            return f"({value:f}BD)"
        case str():
            return text_literal(value)
        case bytes() | bytearray():
            return f"X'{value.hex().upper()}'"
        case datetime():
            return f"TIMESTAMP'{value.astimezone(timezone.utc).isoformat(sep=' ')}'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case timedelta():
            seconds = Decimal(value.seconds) + Decimal(value.microseconds).scaleb(-6)
            return f"make_dt_interval({value.days}, 0, 0, {seconds:f}BD)"
        case _:
            raise TypeError(f"a {type(value).__name__} cannot be compared with a column")
