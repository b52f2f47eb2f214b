"""Rows as lines of PostgreSQL's COPY text format, made on the JVM.

One text per row costs less than one Arrow vector per column: a worker hands the bytes of a whole
batch on to COPY without looking at them. Measured against ADBC's binary COPY, which takes
typed vectors, it needs two thirds of the processor time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.spark.contents import quoted
from setpoint.spark.expressions import Expression
from setpoint.targets.postgres.schema import Field

TEXT_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_MASK_WIDTH = 60
# As SQL a line crosses to the JVM in one call, where columns take a call for every part. The
# characters are spelled by number: how a session reads a backslash in SQL must not count.
_BACKSLASH, _TAB, _END = "char(92)", "char(9)", "char(10)"
_NULL = f"concat({_BACKSLASH}, 'N')"
_ESCAPES = (
    (_BACKSLASH, f"concat({_BACKSLASH}, {_BACKSLASH})"),
    (_END, f"concat({_BACKSLASH}, 'n')"),
    (_TAB, f"concat({_BACKSLASH}, 't')"),
    ("char(13)", f"concat({_BACKSLASH}, 'r')"),
)
_QUOTES = (
    (_BACKSLASH, f"concat({_BACKSLASH}, {_BACKSLASH})"),
    ("char(34)", "concat(char(92), char(34))"),
)


def line(fields: Sequence[Field], schema: T.StructType, flags: Sequence[str] = ()) -> Expression:
    """A row as one line; `flags` are boolean columns behind the fields."""
    values = [_value(item, schema[item.name].dataType) for item in fields]
    values += [_text(quoted(name), T.BooleanType()) for name in flags]
    parts: list[Expression] = []
    for value in values:
        known = isinstance(value, str)
        parts += [
            f"coalesce({value}, {_NULL})" if known else F.coalesce(value, F.expr(_NULL)),
            _TAB,
        ]
    parts[-1] = _END
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) == len(parts):
        return f"concat({', '.join(texts)})"
    return F.concat(*(F.expr(part) if isinstance(part, str) else part for part in parts))


def masks(conditions: Sequence[Expression]) -> list[Expression]:
    """The conditions as bits of as few numbers as possible."""
    found: list[Expression] = []
    for start in range(0, len(conditions), _MASK_WIDTH):
        texts, columns = ["0L"], []
        for position, condition in enumerate(conditions[start : start + _MASK_WIDTH]):
            if isinstance(condition, str):
                texts.append(f"IF({condition}, {1 << position}L, 0L)")
            else:
                columns.append(F.when(condition, F.lit(1 << position).cast("long")).otherwise(0))
        text = " + ".join(texts)
        found.append(reduce(add, columns, F.expr(text)) if columns else text)
    return found


def place_of(condition: int) -> tuple[int, int]:
    """The mask and the bit of a condition."""
    return divmod(condition, _MASK_WIDTH)


def _value(item: Field, kind: T.DataType) -> Expression:
    column = quoted(item.name)
    if item.mapped.as_json:
        json = F.to_json(F.col(column), TEXT_OPTIONS)
        for found, written in _ESCAPES:
            json = F.replace(json, F.expr(found), F.expr(written))
        return json
    if isinstance(kind, T.ArrayType):
        element = _escaped(_text("x", kind.elementType), _QUOTES)
        quoted_element = f"concat(char(34), {element}, char(34))"
        joined = f"array_join(transform({column}, x -> {quoted_element}), ',', 'NULL')"
        # Braces by number: no text of SQL has one to substitute.
        return _escaped(f"concat(char(123), {joined}, char(125))", _ESCAPES)
    if isinstance(kind, T.StringType):
        # Most texts need no escapes, and to look is cheaper than to replace.
        text = _text(column, kind)
        special = " OR ".join(f"contains({text}, {found})" for found, _ in _ESCAPES)
        return f"IF({special}, {_escaped(text, _ESCAPES)}, {text})"
    if isinstance(kind, T.BinaryType):
        return _escaped(_text(column, kind), _ESCAPES)
    return _text(column, kind)


def _text(column: str, kind: T.DataType) -> str:
    """A plain value as PostgreSQL reads it; the session's time zone is UTC."""
    match kind:
        case T.BinaryType():
            return f"concat({_BACKSLASH}, 'x', hex({column}))"
        case T.TimestampType():
            return f"concat(CAST({column} AS STRING), '+00')"
        case T.StringType() if kind.collation != "UTF8_BINARY":
            return f"collate({column}, 'UTF8_BINARY')"
        case T.StringType():
            return column
        case _:
            return f"CAST({column} AS STRING)"


def _escaped(text: str, escapes: Sequence[tuple[str, str]]) -> str:
    for found, written in escapes:
        text = f"replace({text}, {found}, {written})"
    return text
