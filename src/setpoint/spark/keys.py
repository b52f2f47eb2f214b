"""Surrogate keys and row hashes in Spark: the encoding of model/keys.py as SQL, without a UDF.

One generator makes the text of an expression; the Column is that text parsed. So the DataFrame
API and Spark SQL cannot differ. A column knows its type only through a schema, hence the first
argument; a frame's schema is known without a Spark job.

`row_hash` here is a value to store beside a row. The `row_hash` of contents.py is 64 bits of a
step towards a receipt's fingerprint; the two have nothing in common.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.model.keys import (
    KEY_LENGTH,
    KEY_VERSION,
    NULL,
    ROW_VERSION,
    name_text,
    no_columns,
    no_encoding,
    no_such_column,
    struct_head,
)
from setpoint.spark.contents import quoted
from setpoint.spark.expressions import text_literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MICROS = "cast(cast({} as decimal(19,6)) * 1000000 as bigint)"


def surrogate_key(schema: DataFrame | T.StructType, *columns: str) -> Column:
    """A deterministic key made of the business key: the same in every run, and in plain Python.

    `schema` is the frame, or its schema, that the columns belong to.
    """
    return F.expr(surrogate_key_sql(schema, *columns))


def row_hash(schema: DataFrame | T.StructType, *, exclude: Iterable[str] = ()) -> Column:
    """A hash of all columns by name, to see whether a row has changed; the order does not count."""
    return F.expr(row_hash_sql(schema, exclude=exclude))


def surrogate_key_sql(schema: DataFrame | T.StructType, *columns: str) -> str:
    """`surrogate_key` as the text of a Spark SQL expression."""
    if not columns:
        raise no_columns("surrogate_key", 'surrogate_key(frame, "country", "customer_no")')
    known = _fields(schema)
    for name in columns:
        if not isinstance(name, str) or name not in known:
            raise no_such_column(name, known)
    return _hashed(KEY_VERSION, [_value(quoted(name), known[name], 0) for name in columns])


def row_hash_sql(schema: DataFrame | T.StructType, *, exclude: Iterable[str] = ()) -> str:
    """`row_hash` as the text of a Spark SQL expression."""
    known = _fields(schema)
    left_out = {exclude} if isinstance(exclude, str) else set(exclude)
    for name in sorted(left_out):
        if name not in known:
            raise no_such_column(name, known)
    kept = {name: kind for name, kind in known.items() if name not in left_out}
    if not kept:
        raise no_columns("row_hash", "row_hash(frame)")
    members = [(name, quoted(name), kind) for name, kind in kept.items()]
    return _hashed(ROW_VERSION, _struct_parts(members, 0))


def _fields(schema: DataFrame | T.StructType) -> dict[str, T.DataType]:
    found = schema if isinstance(schema, T.StructType) else schema.schema
    names = [field.name for field in found.fields]
    twice = sorted(name for name in set(names) if names.count(name) > 1)
    if twice:
        raise no_encoding(f"The column {twice[0]!r:.80}, which exists twice,", "Rename one.")
    return {field.name: field.dataType for field in found.fields}


def _hashed(version: str, parts: list[str]) -> str:
    return f"left(sha2({_concat([text_literal(version), *parts])}, 256), {KEY_LENGTH})"


def _value(x: str, kind: T.DataType, depth: int) -> str:
    """The SQL text that encodes the expression `x`; never null."""
    match kind:
        case T.StructType():
            # Around a column, so that `s`.`f` cannot mean the column f of a table called s.
            base = f"coalesce({x})" if x.startswith("`") else x
            members = [(f.name, f"{base}.{quoted(f.name)}", f.dataType) for f in kind.fields]
            return f"if({x} is null, '{NULL}', {_concat(_struct_parts(members, depth))})"
        case T.NullType():
            return f"'{NULL}'"
        case _:
            return f"coalesce({_concat(_parts(x, kind, depth))}, '{NULL}')"


def _parts(x: str, kind: T.DataType, depth: int) -> list[str]:
    """The pieces of a value that is not null; one of them is null when the value is."""
    match kind:
        case T.BooleanType():
            return [f"if({x} is null, null, if({x}, 'b1', 'b0'))"]
        case T.StringType() | T.CharType() | T.VarcharType():
            text = x
            if getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY":
                text = f"collate({x}, 'UTF8_BINARY')"
            return ["'s'", f"cast(octet_length({text}) as string)", "':'", text]
        case T.BinaryType():
            return _tagged("x", f"hex({x})")
        case T.DecimalType() if kind.scale > 0:
            # A cast would give 1.50, and 1E-8 for small numbers, depending on the session.
            return _tagged("n", f"format_number({x}, '0.{'#' * kind.scale}')")
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType() | T.DecimalType():
            return _tagged("n", f"cast({x} as string)")
        case T.FloatType() | T.DoubleType():
            # xxhash64 of null is its seed, so the null is put back.
            bits = f"hex(xxhash64(cast({x} as double)))"
            return _tagged("f", f"if({x} is null, null, {bits})")
        case T.ArrayType():
            item = f"e{depth}"
            items = f"transform({x}, {item} -> {_value(item, kind.elementType, depth + 1)})"
            return [*_counted("a", x), f"array_join({items}, '')"]
        case T.MapType():
            item = f"e{depth}"
            key = _value(f"{item}.key", kind.keyType, depth + 1)
            value = _value(f"{item}.value", kind.valueType, depth + 1)
            entries = f"transform(map_entries({x}), {item} -> {_concat([key, value])})"
            return [*_counted("m", x), f"array_join(array_sort({entries}), '')"]
        case _:
            return _tagged(*_moment(x, kind))


def _moment(x: str, kind: T.DataType) -> tuple[str, str]:
    """Tag and payload of dates, times and intervals."""
    match kind:
        case T.DateType():
            number, tag = f"unix_date({x})", "d"
        case T.TimestampType():
            number, tag = f"unix_micros({x})", "t"
        case T.TimestampNTZType():
            # A cast to timestamp would depend on the session's time zone.
            since = f"{x} - timestamp_ntz'1970-01-01 00:00:00'"
            number, tag = _MICROS.format(since), "l"
        case T.DayTimeIntervalType():
            number, tag = _MICROS.format(f"cast({x} as interval day to second)"), "i"
        case T.YearMonthIntervalType():
            number, tag = f"cast(cast({x} as interval year to month) as int)", "y"
        case _ if kind.simpleString().startswith("time("):
            number, tag = _MICROS.format(x), "c"
        case _:
            raise no_encoding(
                f"A column of type {kind.simpleString():.80}",
                "Leave it out, or make a column of a plain type from it first, for example with "
                "variant_get or a cast.",
            )
    return tag, f"cast({number} as string)"


def _struct_parts(members: list[tuple[str, str, T.DataType]], depth: int) -> list[str]:
    names = [name for name, _, _ in members]
    if len(set(names)) < len(names):
        raise no_encoding("A struct with two fields of one name", "Rename one of them.")
    parts = [text_literal(struct_head(len(members)))]
    for name, x, kind in sorted(members, key=lambda member: member[0]):
        parts += [text_literal(name_text(name)), _value(x, kind, depth)]
    return parts


def _tagged(tag: str, payload: str) -> list[str]:
    return [f"'{tag}'", payload, "';'"]


def _counted(tag: str, x: str) -> list[str]:
    return [f"'{tag}'", f"cast(size({x}) as string)", "':'"]


def _concat(parts: list[str]) -> str:
    return f"concat({', '.join(parts)})"
