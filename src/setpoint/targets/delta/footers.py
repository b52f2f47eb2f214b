"""Row-level audits that Parquet's footers answer, at no cost while the rows are staged.

A footer counts the nulls of each column and knows the least and the greatest value. That
settles `not_null`, and `in_range` for exact types; anything doubtful is left to Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from setpoint.model.audit import Audit, InRange, NotNull
from setpoint.targets.delta.stats import INDEXED_COLUMNS, FileStats

if TYPE_CHECKING:
    from collections.abc import Collection

_EXACT = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType)


def can_answer(audit: Audit, schema: T.StructType, not_stored: Collection[str]) -> bool:
    """Whether footers can tell; the columns that are not stored in files have none."""
    indexed = _first_leaves(schema, not_stored)
    match audit:
        case NotNull():
            return all(name in indexed for name in audit.columns)
        case InRange():
            limits = [limit for limit in (audit.min, audit.max) if limit is not None]
            exact = all(type(limit) in (int, Decimal) for limit in limits)
            kind = schema[audit.column].dataType
            return exact and audit.column in indexed and isinstance(kind, _EXACT)
        case _:
            return False


def holds(audit: Audit, files: Sequence[FileStats]) -> bool:
    """Whether the footers prove that no row violates the audit."""
    match audit:
        case NotNull():
            return all(stats.nulls.get((name,)) == 0 for stats in files for name in audit.columns)
        case InRange():
            return all(_within(audit, stats) for stats in files)
        case _:
            return False


def _within(audit: InRange, stats: FileStats) -> bool:
    path = (audit.column,)
    if stats.nulls.get(path) == stats.rows:
        return True
    least, most = stats.least.get(path), stats.most.get(path)
    if least is None or most is None:
        return False
    return _at_least(least, audit.min) and _at_least(audit.max, most)


def _at_least(value: Any, limit: Any) -> bool:
    return value is None or limit is None or bool(value >= limit)


def _first_leaves(schema: T.StructType, not_stored: Collection[str]) -> set[str]:
    """The plain columns among those that footer statistics are read for."""
    leaves, plain = 0, set()
    for field in schema.fields:
        if field.name in not_stored:
            continue
        if isinstance(field.dataType, (T.StructType, T.ArrayType, T.MapType, T.VariantType)):
            # How many leaves a nested column has does not matter: what follows is left to Spark.
            break
        leaves += 1
        if leaves <= INDEXED_COLUMNS and "." not in field.name:
            plain.add(field.name)
    return plain
