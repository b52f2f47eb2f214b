"""Does the pipeline's result fit the table? Decided on the schemas, before anything is staged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import types as T

from setpoint.model.table import Evolve
from setpoint.targets.columns import (
    misfit,
    refuse_added,
    refuse_lacking,
    refuse_missing,
    refuse_twice,
)

# Hive has no such type; Spark would hide the table's columns from every other engine.
_UNSTORABLE = (
    T.NullType,
    T.VariantType,
    T.TimestampNTZType,
    T.DayTimeIntervalType,
    T.YearMonthIntervalType,
    T.CalendarIntervalType,
)
# The metastore keeps the value of a partition as text. A time's text depends on the reader's
# time zone, a float's on who wrote it.
_PARTITION_TYPES = (
    T.StringType,
    T.DateType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.BooleanType,
)
_PLAIN_NAME = re.compile(r"\w+")


@dataclass(frozen=True)
class Fit:
    """The columns to stage in the table's order, those to add to it, those that must be filled."""

    schema: T.StructType
    added: T.StructType
    required: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        return list(self.schema.fieldNames())


def fit(
    returned: T.StructType,
    table_schema: str | None,
    *,
    partition_by: Sequence[str],
    needed: Mapping[str, str],
    evolve: Evolve,
    label: str,
) -> Fit:
    """Match the returned columns with the table, or refuse with the reason."""
    names = returned.fieldNames()
    refuse_twice(label, names)
    refuse_lacking(label, names, needed, partition_by)
    if table_schema is None:
        _refuse_unstorable(returned.fields, label)
        _refuse_partitions(returned, partition_by, label)
        last = [name for name in names if name not in partition_by]
        schema = _nullable(T.StructType([returned[name] for name in (*last, *partition_by)]))
        return Fit(schema, T.StructType([]), ())
    there = T.StructType.fromJson(json.loads(table_schema))
    return _fit_existing(returned, there, partition_by, evolve, label)


def _fit_existing(
    returned: T.StructType,
    there: T.StructType,
    partition_by: Sequence[str],
    evolve: Evolve,
    label: str,
) -> Fit:
    here = {field.name: field for field in returned.fields}
    refuse_missing(label, here, there.fieldNames())
    retyped = [
        f"{field.name} is {here[field.name].dataType.simpleString()} but "
        f"{field.dataType.simpleString()} in the target"
        for field in there.fields
        if not _same(here[field.name].dataType, field.dataType)
    ]
    if retyped:
        raise misfit(label, "; ".join(retyped))
    added = [field for field in returned.fields if field.name not in there.fieldNames()]
    refuse_added(label, [field.name for field in added], evolve, "parquet")
    _refuse_unstorable(added, label)
    stays = [field for field in there.fields if field.name not in partition_by]
    parts = [there[name] for name in partition_by]
    new = _nullable(T.StructType(added))
    return Fit(
        schema=_nullable(T.StructType([*stays, *new.fields, *parts])),
        added=new,
        required=tuple(field.name for field in there.fields if not field.nullable),
    )


def _refuse_unstorable(fields: Sequence[T.StructField], label: str) -> None:
    for field in fields:
        if not field.name.strip():
            raise misfit(label, "a column has no name", "Give it a name.", code="SP-O05")
        for kind, inner in _parts(field.dataType):
            if isinstance(kind, _UNSTORABLE) or kind.typeName() == "time":
                raise misfit(
                    label,
                    f"{field.name} is of type {kind.simpleString()}, which Hive cannot store",
                    f'Cast it, for example F.col("{field.name}").cast("string").',
                    code="SP-O05",
                )
            if inner and not _PLAIN_NAME.fullmatch(inner):
                raise misfit(
                    label,
                    f"{field.name} holds the member {inner!r}, a name that Hive cannot store",
                    "Rename the member: letters, digits and '_' only.",
                    code="SP-O05",
                )


def _refuse_partitions(returned: T.StructType, partition_by: Sequence[str], label: str) -> None:
    for name in partition_by:
        kind = returned[name].dataType
        if not isinstance(kind, _PARTITION_TYPES):
            raise misfit(
                label,
                f"{name} is of type {kind.simpleString()} and a partition column",
                "A metastore keeps partition values as text: use a date, a text or a whole "
                "number, such as the window's id.",
                code="SP-O05",
            )


def _parts(kind: T.DataType, name: str = "") -> Iterator[tuple[T.DataType, str]]:
    yield kind, name
    match kind:
        case T.StructType():
            for field in kind.fields:
                yield from _parts(field.dataType, field.name or " ")
        case T.ArrayType():
            yield from _parts(kind.elementType)
        case T.MapType():
            yield from _parts(kind.keyType)
            yield from _parts(kind.valueType)


def _nullable(schema: T.StructType) -> T.StructType:
    """The schema with every part nullable, and nothing but names and types."""
    made = loose(schema)
    assert isinstance(made, T.StructType)
    return made


def loose(kind: T.DataType) -> T.DataType:
    """A type with every inner part nullable."""
    match kind:
        case T.StructType():
            return T.StructType([T.StructField(f.name, loose(f.dataType)) for f in kind.fields])
        case T.ArrayType():
            return T.ArrayType(loose(kind.elementType))
        case T.MapType():
            return T.MapType(loose(kind.keyType), loose(kind.valueType))
        case _:
            return kind


def _same(one: T.DataType, other: T.DataType) -> bool:
    return loose(one) == loose(other)
