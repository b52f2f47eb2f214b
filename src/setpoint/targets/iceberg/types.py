"""Spark's types (in their JSON form) and Iceberg's."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.types import IcebergType

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_TEXT = re.compile(r"(string|char|varchar)\b")
# Iceberg has no integer below 32 bits; Spark's connector stores them so as well.
_SMALL = {"byte": "integer", "short": "integer"}
KINDS = {
    "date": "date",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
    "string": "string",
    "int": "integer",
    "long": "long",
}


class Unstorable(Exception):
    """Iceberg, or this version of its format, has no such type."""


def is_nested(kind: Any) -> bool:
    """Whether a type has parts of its own."""
    return isinstance(kind, dict)


def iceberg_type(kind: Any, ids: Iterator[int] | None = None) -> IcebergType:
    """The Iceberg type for a Spark type; the ids of nested parts are placeholders."""
    from pyiceberg import types as I

    ids = ids or count(1000)
    if isinstance(kind, dict):
        match kind.get("type"):
            case "struct":
                fields = [
                    I.NestedField(next(ids), item["name"], iceberg_type(item["type"], ids), False)
                    for item in kind["fields"]
                ]
                return I.StructType(*fields)
            case "array":
                inner = iceberg_type(kind["elementType"], ids)
                return I.ListType(next(ids), inner, element_required=False)
            case "map":
                key, value = (
                    iceberg_type(kind["keyType"], ids),
                    iceberg_type(kind["valueType"], ids),
                )
                return I.MapType(next(ids), key, next(ids), value, value_required=False)
        raise Unstorable(str(kind.get("type", kind)))
    decimal = _DECIMAL.fullmatch(kind)
    if decimal and int(decimal[2]) >= 0:
        return I.DecimalType(int(decimal[1]), int(decimal[2]))
    plain: dict[str, Any] = {
        "boolean": I.BooleanType,
        "integer": I.IntegerType,
        "long": I.LongType,
        "float": I.FloatType,
        "double": I.DoubleType,
        "date": I.DateType,
        "timestamp": I.TimestamptzType,
        "timestamp_ntz": I.TimestampType,
        "string": I.StringType,
        "binary": I.BinaryType,
    }
    name = normal(kind)
    if name not in plain:
        raise Unstorable(str(kind))
    found: IcebergType = plain[name]()
    return found


def spark_type(kind: IcebergType) -> Any:
    """The Spark type of an Iceberg type; one that Spark does not write is named as it is."""
    from pyiceberg import types as I

    match kind:
        case I.StructType():
            fields = [{"name": f.name, "type": spark_type(f.field_type)} for f in kind.fields]
            return {"type": "struct", "fields": fields}
        case I.ListType():
            return {"type": "array", "elementType": spark_type(kind.element_type)}
        case I.MapType():
            return {
                "type": "map",
                "keyType": spark_type(kind.key_type),
                "valueType": spark_type(kind.value_type),
            }
        case I.DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
    same = {"boolean", "float", "double", "binary"}
    name = str(kind)
    return name if name in same else KINDS.get(name, f"{name} (Iceberg)")


def normal(kind: Any) -> Any:
    """A Spark type without what Iceberg does not tell apart: nulls inside, small integers."""
    if isinstance(kind, str):
        if _TEXT.match(kind):
            return "string"
        return _SMALL.get(kind, kind.replace(" ", "") if kind.startswith("decimal") else kind)
    match kind.get("type"):
        case "struct":
            fields = [{"name": f["name"], "type": normal(f["type"])} for f in kind["fields"]]
            return {"type": "struct", "fields": fields}
        case "array":
            return {"type": "array", "elementType": normal(kind["elementType"])}
        case "map":
            return {
                "type": "map",
                "keyType": normal(kind["keyType"]),
                "valueType": normal(kind["valueType"]),
            }
        case _:
            return kind


def same_type(one: Any, other: Any) -> bool:
    """Whether two Spark types are one type in Iceberg."""
    return json.dumps(normal(one), sort_keys=True) == json.dumps(normal(other), sort_keys=True)
