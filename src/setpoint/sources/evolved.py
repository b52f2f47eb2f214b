"""A snapshot's rows in the columns of another schema of its Iceberg table.

Spark reads a pinned snapshot with the schema that was current when it was made. Columns that
were renamed, added or widened since are put right here, by their field ids, as Iceberg itself
does for readers of the newest state.

Iceberg looks up the columns of a filter by their names of now, whatever snapshot it reads: a
column that had another name then is not found, or is another one. No filter may reach it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg import types as I
from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.spark.contents import quoted

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyspark.sql import Column, DataFrame

_PLAIN = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "date": T.DateType(),
    "timestamptz": T.TimestampType(),
    "timestamp": T.TimestampNTZType(),
    "string": T.StringType(),
    "uuid": T.StringType(),
    "binary": T.BinaryType(),
}


def evolved(frame: DataFrame, before: Schema, wanted: Schema, now: Schema) -> DataFrame:
    """The frame of a snapshot, whose schema is `before`, with the columns that are wanted."""
    found = {now.find_column_name(number): number for number in now.field_ids}
    names = {before.find_column_name(number): number for number in before.field_ids}
    moved = frozenset(str(name) for name, number in names.items() if found.get(name) != number)
    shape = _Shape(moved)
    return frame.select(*shape.fields(None, before.fields, wanted.fields, ""))


@dataclass(frozen=True)
class _Shape:
    """How values of one schema become values of another; `moved` are names that changed hands."""

    moved: frozenset[str]

    def fields(
        self,
        parent: Column | None,
        before: Sequence[I.NestedField],
        wanted: Sequence[I.NestedField],
        place: str,
    ) -> list[Column]:
        older = {field.field_id: field for field in before}
        made = []
        for field in wanted:
            known = older.get(field.field_id)
            if known is None:
                value = F.lit(field.initial_default).cast(_spark_type(field.field_type))
            else:
                inner = F.col(quoted(known.name)) if parent is None else parent[known.name]
                value = self.value(inner, known.field_type, field.field_type, place + known.name)
            made.append(value.alias(field.name))
        return made

    def value(
        self, value: Column, before: I.IcebergType, wanted: I.IcebergType, place: str
    ) -> Column:
        match before, wanted:
            case I.StructType(), I.StructType() if before != wanted or self._moved_in(place):
                parts = self.fields(value, before.fields, wanted.fields, f"{place}.")
                return F.when(value.isNotNull(), F.struct(*parts))
            case I.ListType(), I.ListType() if before != wanted:
                inner = before.element_type, wanted.element_type, f"{place}.element"
                return F.transform(value, lambda item: self.value(item, *inner))
            case I.MapType(), I.MapType() if before != wanted:
                key = before.key_type, wanted.key_type, f"{place}.key"
                item = before.value_type, wanted.value_type, f"{place}.value"
                keys = F.transform_keys(value, lambda k, v: self.value(k, *key))
                return F.transform_values(keys, lambda k, v: self.value(v, *item))
            case I.PrimitiveType(), I.PrimitiveType():
                fitted = value if before == wanted else value.cast(_spark_type(wanted))
                # The greater one of a value and itself: nothing that Iceberg takes as a filter.
                return F.greatest(fitted, fitted) if place in self.moved else fitted
            case _:
                return value

    def _moved_in(self, place: str) -> bool:
        return any(name.startswith(f"{place}.") for name in self.moved)


def _spark_type(kind: I.IcebergType) -> T.DataType:
    match kind:
        case I.StructType():
            return T.StructType(
                [T.StructField(field.name, _spark_type(field.field_type)) for field in kind.fields]
            )
        case I.ListType():
            return T.ArrayType(_spark_type(kind.element_type))
        case I.MapType():
            return T.MapType(_spark_type(kind.key_type), _spark_type(kind.value_type))
        case I.DecimalType():
            return T.DecimalType(kind.precision, kind.scale)
        case I.FixedType():
            return T.BinaryType()
        case _:
            return _PLAIN[str(kind)]
