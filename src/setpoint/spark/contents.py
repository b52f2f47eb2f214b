"""The hash of a row and the content fingerprint of a set of rows.

A row's hash is 64 bits, computed on the JVM. It is SQL text: MERGE takes no columns, and a text
crosses to the JVM in one call where a tree of columns takes hundreds. It decides between rows
that tie on their sequence, so it has to be the same on every run; it is not a key.

A fingerprint is one value for a set of rows, whatever their order, files or partitions. The
hashes are summed in two halves so that no sum can wrap (and duplicates do not cancel out, as
they would under xor).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

if TYPE_CHECKING:
    from pyspark.sql import Column

HASH = "__setpoint_row_hash"
_NESTED = (T.StructType, T.ArrayType, T.MapType)
_FLOATING = (T.FloatType, T.DoubleType)
_NOT_UTF_8 = "\ufffd"
_MASK_WIDTH = 60
# No text of an option has a quote in it, so that it reads the same however a session reads SQL.
_OPTIONS = (
    "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
)


def hash_sql(
    schema: T.StructType,
    alias: str = "",
    absent: Collection[str] = (),
    *,
    signed_zeros: bool = True,
) -> str:
    """A 64-bit number for a whole row, nulls and nested values included.

    `absent` are columns that the row does not have yet: they count as nulls. Without
    `signed_zeros`, -0.0 and 0.0 in a column count as equal, as they do in Spark's `=`.
    """
    fields = sorted(schema.fields, key=lambda field: field.name)
    prefix = f"{alias}." if alias else ""
    names = [
        f"CAST(NULL AS {field.dataType.simpleString()})"
        if field.name in absent
        else f"{prefix}{quoted(field.name)}"
        for field in fields
    ]
    parts = [_hashable(name, field.dataType) for name, field in zip(names, fields, strict=True)]
    # Spark's hash skips nulls, so (1, null) and (null, 1) would collide: a mask of the nulls is
    # hashed along. Every column has its place in it, nullable or not: a frame's idea of what can
    # be null may change while the rows stay the same.
    for start in range(0, len(names), _MASK_WIDTH):
        flags = enumerate(names[start : start + _MASK_WIDTH])
        parts.append(" + ".join(f"IF({name} IS NULL, {1 << place}L, 0L)" for place, name in flags))
    # Null for rows without such values, so that their hash is what it always was.
    unseen = (
        _unseen(name, field.dataType, place)
        for place, (name, field) in enumerate(zip(names, fields, strict=True))
        if field.name not in absent and (signed_zeros or not isinstance(field.dataType, _FLOATING))
    )
    parts.extend(part for part in unseen if part)
    return f"xxhash64({', '.join(parts)})"


def event_hash_sql(schema: T.StructType, alias: str = "", absent: Collection[str] = ()) -> str:
    """`hash_sql` for events: equal values contradict nothing, 0.0 and -0.0 among them."""
    return hash_sql(schema, alias, absent, signed_zeros=False)


def row_hash(schema: T.StructType) -> Column:
    """`hash_sql` as a column."""
    return F.expr(hash_sql(schema))


def fingerprint_sums(value: str) -> tuple[str, str]:
    """The two aggregates that make a fingerprint of hashes; null when they overflow."""
    return f"try_sum({value} & {0xFFFFFFFF}L)", f"try_sum(shiftrightunsigned({value}, 32))"


def fingerprint_text(rows: int, low: int | None, high: int | None) -> str | None:
    """The fingerprint as it stands in a receipt; None when it could not be computed."""
    if rows and (low is None or high is None):
        return None
    return f"1:{rows:x}:{low or 0:x}:{high or 0:x}"


def quoted(name: str) -> str:
    """A column name that Spark takes literally, dots and backticks included."""
    return f"`{name.replace('`', '``')}`"


def _hashable(name: str, kind: T.DataType) -> str:
    if isinstance(kind, _NESTED):
        return _json(name, kind)
    if isinstance(kind, T.VariantType):
        return f"to_json({name})"
    if isinstance(kind, T.StringType) and kind.collation != "UTF8_BINARY":
        return f"collate({name}, 'UTF8_BINARY')"
    return name


def _unseen(name: str, kind: T.DataType, place: int) -> str:
    """What sets a value apart that the hash takes for another one; null for all other values.

    Spark hashes -0.0 like 0.0, and JSON has one mark for all bytes that are not UTF-8.
    """
    if isinstance(kind, _FLOATING):
        return f"IF({name} = 0 AND CAST({name} AS STRING) = '-0.0', {place}, NULL)"
    if isinstance(kind, _NESTED) and _holds_text(kind):
        text = _json(name, kind)
        exact = f"concat('{place} ', nullif({_json(name, kind, exact=True)}, {text}))"
        return f"IF(contains({text}, '{_NOT_UTF_8}'), {exact}, NULL)"
    return ""


def _holds_text(kind: T.DataType) -> bool:
    match kind:
        case T.StructType():
            return any(_holds_text(field.dataType) for field in kind.fields)
        case T.ArrayType():
            return _holds_text(kind.elementType)
        case T.MapType():
            return _holds_text(kind.keyType) or _holds_text(kind.valueType)
        case _:
            return isinstance(kind, T.StringType)


def _json(name: str, kind: T.DataType, *, exact: bool = False) -> str:
    return f"to_json(named_struct('v', {_ordered(name, kind, 0, exact=exact)}), {_OPTIONS})"


def _ordered(name: str, kind: T.DataType, depth: int, *, exact: bool) -> str:
    """Spell maps as sorted entries and structs in the order of their names, at any depth.

    Maps have no order of their own, and that of a struct's fields may change while the values
    under their names stay. With `exact`, texts that are not UTF-8 are spelled by their bytes.
    """

    def part(inner: str, of: T.DataType, deeper: int) -> str:
        return _ordered(inner, of, deeper, exact=exact)

    item = f"x{depth}"
    match kind:
        case T.StructType():
            fields = enumerate(sorted(kind.fields, key=lambda field: field.name))
            members = ", ".join(
                f"'m{position}', {part(f'{name}.{quoted(field.name)}', field.dataType, depth)}"
                for position, field in fields
            )
            return f"IF({name} IS NULL, NULL, named_struct({members}))" if members else name
        case T.ArrayType():
            return f"transform({name}, {item} -> {part(item, kind.elementType, depth + 1)})"
        case T.MapType():
            key = part(f"{item}.key", kind.keyType, depth + 1)
            value = part(f"{item}.value", kind.valueType, depth + 1)
            entry = f"named_struct('key', {key}, 'value', {value})"
            return f"array_sort(transform(map_entries({name}), {item} -> {entry}))"
        case T.StringType() if exact:
            text = f"collate({name}, 'UTF8_BINARY')"
            return f"IF(is_valid_utf8({name}), {text}, concat('not UTF-8: ', hex({name})))"
        case _:
            return name
