"""Columns of any type as values that can be compared, hashed and read.

Two values are the same when a reader of the table cannot tell them apart: maps whatever the order
of their entries, structs whatever the order of their fields, NaN as equal to itself, -0.0 as equal
to 0.0 (Spark's own `=`, `GROUP BY` and joins treat it so), strings by their bytes, also under a
collation, variants by their types and their JSON. A null is equal to a null and to nothing else.
Everything is SQL text, as in contents.py.
"""

from __future__ import annotations

from pyspark.sql import types as T

from setpoint.spark.contents import quoted

_OPTIONS = "map('ignoreNullFields', 'false', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
_NESTED = (T.StructType, T.ArrayType, T.MapType)
_FLOATING = (T.FloatType, T.DoubleType)
# What has no order in Spark, or none in JSON: its text says all of it.
_BY_TEXT = (T.CalendarIntervalType, T.DayTimeIntervalType, T.YearMonthIntervalType, T.TimeType)


def comparable(value: str, kind: T.DataType) -> str:
    """A value of a plain type that is equal exactly where `value` is the same; null for null."""
    if isinstance(kind, _NESTED):
        spelled = f"to_json(named_struct('v', {_spelled(value, kind, 0)}), {_OPTIONS})"
        return f"IF({value} IS NULL, NULL, {spelled})"
    if isinstance(kind, T.VariantType):
        return f"concat(schema_of_variant({value}), ' ', to_json({value}))"
    if isinstance(kind, T.StringType) and kind.collation != "UTF8_BINARY":
        return f"collate({value}, 'UTF8_BINARY')"
    if isinstance(kind, T.NullType):
        return "CAST(NULL AS BOOLEAN)"
    return f"CAST({value} AS STRING)" if isinstance(kind, T.CalendarIntervalType) else value


def readable(value: str, kind: T.DataType, longest: int) -> str:
    """The beginning of a value as text for people; null for null."""
    match kind:
        case T.StructType() | T.ArrayType() | T.MapType() | T.VariantType():
            text = f"to_json({value})"
        case T.BinaryType():
            text = f"concat('0x', hex(substring({value}, 1, {longest})))"
        case T.StringType():
            text = f"collate({value}, 'UTF8_BINARY')"
        case _:
            text = f"CAST({value} AS STRING)"
    return f"left({text}, {longest})"


def type_text(kind: T.DataType) -> str:
    """The type in words, the fields of a struct in the order of their names.

    Whether a column may hold nulls is left out: that is what a schema says, not what rows are.
    """
    match kind:
        case T.StructType():
            fields = sorted(kind.fields, key=lambda field: field.name)
            return f"struct<{','.join(f'{f.name}:{type_text(f.dataType)}' for f in fields)}>"
        case T.ArrayType():
            return f"array<{type_text(kind.elementType)}>"
        case T.MapType():
            return f"map<{type_text(kind.keyType)},{type_text(kind.valueType)}>"
        case _:
            return kind.simpleString()


def _spelled(value: str, kind: T.DataType, depth: int) -> str:
    """A part of a nested value, so that its JSON is the same exactly where the part is."""
    item = f"x{depth}"
    match kind:
        case T.StructType():
            fields = enumerate(sorted(kind.fields, key=lambda field: field.name))
            members = ", ".join(
                f"'m{place}', {_spelled(f'{value}.{quoted(field.name)}', field.dataType, depth)}"
                for place, field in fields
            )
            return f"IF({value} IS NULL, NULL, named_struct({members}))" if members else value
        case T.ArrayType():
            return f"transform({value}, {item} -> {_spelled(item, kind.elementType, depth + 1)})"
        case T.MapType():
            # Entries as text: values of every type can be sorted so.
            key = _spelled(f"{item}.key", kind.keyType, depth + 1)
            entry = _spelled(f"{item}.value", kind.valueType, depth + 1)
            text = f"to_json(named_struct('k', {key}, 'v', {entry}), {_OPTIONS})"
            return f"array_sort(transform(map_entries({value}), {item} -> {text}))"
        case T.VariantType():
            return comparable(value, kind)
        case T.StringType():
            # JSON has no bytes that are not UTF-8: all of them would become one and the same mark.
            text = f"collate({value}, 'UTF8_BINARY')"
            return f"IF(is_valid_utf8({value}), {text}, concat('not UTF-8: ', hex({value})))"
        case T.TimestampType():
            return f"unix_micros({value})"
        case T.NullType():
            return "CAST(NULL AS BOOLEAN)"
        case _ if isinstance(kind, _FLOATING):
            return f"IF({value} = 0, CAST(0 AS {kind.simpleString()}), {value})"
        case _ if isinstance(kind, _BY_TEXT):
            return f"CAST({value} AS STRING)"
        case _:
            return value
