"""A total order over rows, as SQL text: what decides between rows that tie on their sequence.

It is text because MERGE takes no columns. The order has no meaning beyond being the same on
every run; it is not the fingerprint of a receipt, and not a key.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import types as T

from setpoint.spark.contents import TEXT_OPTIONS, quoted


def order_sql(schema: T.StructType, alias: str = "", absent: Collection[str] = ()) -> str:
    """A 64-bit number for a whole row, nulls and nested values included.

    `absent` are columns that the row does not have yet: they count as nulls.
    """
    fields = sorted(schema.fields, key=lambda field: field.name)
    parts = []
    for field in fields:
        name = f"{alias}.{quoted(field.name)}" if alias else quoted(field.name)
        if field.name in absent:
            name = f"CAST(NULL AS {field.dataType.simpleString()})"
        # Spark's hash skips nulls: without the flag (1, null) and (null, 1) would be one row.
        parts += [_hashable(name, field.dataType), f"{name} IS NULL"]
    return f"xxhash64({', '.join(parts)})"


def wins_sql(
    sequence: Sequence[str],
    schema: T.StructType,
    new: str,
    old: str,
    deleted: str = "",
    absent: Collection[str] = (),
    *,
    corrects: bool,
) -> str:
    """The condition that a new row replaces the stored one under the same key.

    It does if its sequence is greater. If that is equal, the order of the whole row decides;
    but where a window `corrects` what it said when it was published before, any difference will
    do. `deleted` is the condition that the new row removes the key, or
    an empty text; `absent` are columns that stored rows do not have yet.
    """
    decides = "<>" if corrects else ">"
    tie = f"{order_sql(schema, new)} {decides} {order_sql(schema, old, absent)}"
    return _greater(sequence, new, old, f"({deleted} OR {tie})" if deleted else tie)


def later_sql(sequence: Sequence[str], new: str, old: str) -> str:
    """The condition that a row has a greater sequence than another."""
    return _greater(sequence, new, old, "false")


def same_key_sql(keys: Sequence[str], new: str, old: str, *, nulls: bool) -> str:
    """The condition that two rows have one key; with `nulls` a null is a value like others."""
    equals = "<=>" if nulls else "="
    return " AND ".join(f"{new}.{quoted(name)} {equals} {old}.{quoted(name)}" for name in keys)


def _greater(sequence: Sequence[str], new: str, old: str, tie: str) -> str:
    condition = tie
    for name in reversed(sequence):
        ours, theirs = f"{new}.{quoted(name)}", f"{old}.{quoted(name)}"
        # A CASE stops at its first answer; AND and OR go on when one side is null, and would
        # compare whole rows for every stored row that has no partner.
        condition = (
            f"CASE WHEN {theirs} IS NULL OR {ours} > {theirs} THEN true "
            f"WHEN {ours} = {theirs} THEN {condition} ELSE false END"
        )
    return condition


def _hashable(name: str, kind: T.DataType) -> str:
    if isinstance(kind, (T.StructType, T.ArrayType, T.MapType)):
        options = ", ".join(f"'{key}', {_text(value)}" for key, value in TEXT_OPTIONS.items())
        options = f"map({options})"
        return f"to_json(named_struct('v', {_ordered(name, kind, 0)}), {options})"
    if isinstance(kind, T.VariantType):
        return f"to_json({name})"
    if isinstance(kind, T.StringType) and kind.collation != "UTF8_BINARY":
        return f"collate({name}, 'UTF8_BINARY')"
    return name


def _text(value: str) -> str:
    return "'" + value.replace("'", "\\'") + "'"


def _ordered(name: str, kind: T.DataType, depth: int) -> str:
    """Maps have no order of their own: spell them as sorted entries, at any depth."""
    item = f"x{depth}"
    match kind:
        case T.StructType():
            members = ", ".join(
                f"'m{position}', {_ordered(f'{name}.{quoted(field.name)}', field.dataType, depth)}"
                for position, field in enumerate(kind.fields)
            )
            return f"IF({name} IS NULL, NULL, named_struct({members}))" if members else name
        case T.ArrayType():
            return f"transform({name}, {item} -> {_ordered(item, kind.elementType, depth + 1)})"
        case T.MapType():
            key = _ordered(f"{item}.key", kind.keyType, depth + 1)
            value = _ordered(f"{item}.value", kind.valueType, depth + 1)
            entry = f"named_struct('key', {key}, 'value', {value})"
            return f"array_sort(transform(map_entries({name}), {item} -> {entry}))"
        case _:
            return name
