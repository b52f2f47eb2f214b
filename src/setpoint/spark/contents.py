"""The content fingerprint: one value for a set of rows, whatever their order, files or partitions.

Each row is hashed on the JVM; the hashes are summed in two halves so that no sum can wrap
(and duplicates do not cancel out, as they would under xor). Spark's hash skips nulls, so
(1, null) and (null, 1) would collide: a mask of the nulls is hashed along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

if TYPE_CHECKING:
    from pyspark.sql import Column

_LOW_BITS = 0xFFFFFFFF
_MASK_WIDTH = 60
TEXT_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def row_hash(schema: T.StructType) -> Column:
    """A 64-bit hash of a whole row, nulls and nested values included."""
    fields = sorted(schema.fields, key=lambda field: field.name)
    parts = [_hashable(F.col(quoted(field.name)), field.dataType) for field in fields]
    # Every column has its place in the mask, nullable or not: a frame's idea of what can be
    # null may change while the rows stay the same.
    columns = [F.col(quoted(field.name)) for field in fields]
    masks = [
        _null_mask(columns[start : start + _MASK_WIDTH])
        for start in range(0, len(columns), _MASK_WIDTH)
    ]
    return F.xxhash64(*parts, *masks)


def fingerprint_sums(hash_column: Column) -> tuple[Column, Column]:
    """The two aggregates that make a fingerprint; null instead of an error when they overflow."""
    high = F.shiftrightunsigned(hash_column, 32)
    return F.try_sum(hash_column.bitwiseAND(F.lit(_LOW_BITS))), F.try_sum(high)


def fingerprint_text(rows: int, low: int | None, high: int | None) -> str | None:
    """The fingerprint as it stands in a receipt; None when it could not be computed."""
    if rows and (low is None or high is None):
        return None
    return f"1:{rows:x}:{low or 0:x}:{high or 0:x}"


def quoted(name: str) -> str:
    """A column name that Spark takes literally, dots and backticks included."""
    return f"`{name.replace('`', '``')}`"


def _null_mask(columns: list[Column]) -> Column:
    mask = F.lit(0).cast("long")
    for position, column in enumerate(columns):
        mask = mask + F.when(column.isNull(), F.lit(1 << position)).otherwise(F.lit(0)).cast("long")
    return mask


def _hashable(column: Column, kind: T.DataType) -> Column:
    if isinstance(kind, (T.StructType, T.ArrayType, T.MapType)):
        return F.to_json(F.struct(_ordered(column, kind).alias("v")), TEXT_OPTIONS)
    if isinstance(kind, T.VariantType):
        return F.to_json(column)
    if isinstance(kind, T.StringType) and kind.collation != "UTF8_BINARY":
        return F.collate(column, "UTF8_BINARY")
    return column


def _ordered(column: Column, kind: T.DataType) -> Column:
    """Maps have no order of their own: spell them as sorted entries, at any depth."""
    if not _holds_map(kind):
        return column
    match kind:
        case T.StructType():
            members = [
                _ordered(column[field.name], field.dataType).alias(field.name)
                for field in kind.fields
            ]
            return F.when(column.isNotNull(), F.struct(*members))
        case T.ArrayType():
            inner = kind.elementType
            return F.transform(column, lambda item: _ordered(item, inner))
        case T.MapType():
            entries = F.transform(
                F.map_entries(column),
                lambda entry: F.struct(
                    _ordered(entry["key"], kind.keyType).alias("key"),
                    _ordered(entry["value"], kind.valueType).alias("value"),
                ),
            )
            return F.array_sort(entries)
        case _:
            return column


def _holds_map(kind: T.DataType) -> bool:
    match kind:
        case T.MapType():
            return True
        case T.ArrayType():
            return _holds_map(kind.elementType)
        case T.StructType():
            return any(_holds_map(field.dataType) for field in kind.fields)
        case _:
            return False
