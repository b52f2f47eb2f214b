"""Spark's types in PostgreSQL: how each is staged, created and given to an existing column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import types as T

from setpoint.targets.postgres.catalog import StoredColumn

_SCALARS: Mapping[type[T.DataType], str] = {
    T.ByteType: "smallint",
    T.ShortType: "smallint",
    T.IntegerType: "integer",
    T.LongType: "bigint",
    T.FloatType: "real",
    T.DoubleType: "double precision",
    T.BooleanType: "boolean",
    T.StringType: "text",
    T.BinaryType: "bytea",
    T.DateType: "date",
    T.TimestampType: "timestamp with time zone",
    T.TimestampNTZType: "timestamp without time zone",
}
# Wider columns that hold every value of the narrower type as it is.
_WIDER: Mapping[str, tuple[str, ...]] = {
    "smallint": ("smallint", "integer", "bigint"),
    "integer": ("integer", "bigint"),
    "real": ("real", "double precision"),
}
_DIGITS: Mapping[type[T.DataType], int] = {
    T.ByteType: 3,
    T.ShortType: 5,
    T.IntegerType: 10,
    T.LongType: 19,
}
_FLOATS = ("real", "double precision")
_INTEGERS = ("smallint", "integer", "bigint")
# Types whose values have one text each, under the settings of our sessions.
_BY_TEXT = (
    *_INTEGERS,
    *("boolean", "text", "character varying", "character", "uuid", "bytea", "date"),
    *("timestamp with time zone", "timestamp without time zone", "time without time zone"),
    *("inet", "cidr", "macaddr", "macaddr8"),
)
_NESTED = (T.StructType, T.MapType, T.VariantType, T.ArrayType)
JSON = ("json", "jsonb")
# What Spark has no type for is given as text; PostgreSQL reads it, or refuses the value.
_FROM_TEXT = ("U", "E", "I", "T", "S")


@dataclass(frozen=True)
class Mapped:
    """One Spark column in PostgreSQL.

    `cast` is the type in which it is staged and compared with stored rows: that of the column
    but for the length of texts, which `limited` has. `create` is the type of a new column,
    `plain` the one in which the staged values are read back.

    `exact` says that values which differ in Spark differ in the column too. `normal` writes a
    value so that equal ones have one text, and is empty where there is no such form.
    """

    cast: str
    create: str
    plain: str
    as_json: bool = False
    limited: str = ""
    exact: bool = False
    normal: str = ""


def mapped(kind: T.DataType, stored: StoredColumn | None) -> Mapped | None:
    """How a column travels; None when the type cannot be stored, or not in this column."""
    if stored is not None and stored.base in JSON and not isinstance(kind, T.StringType):
        return Mapped(stored.declared, "jsonb", "text", True) if _is_nested(kind) else None
    if isinstance(kind, T.ArrayType) and (item := scalar(kind.elementType)) is not None:
        return _array(kind.elementType, item, stored)
    if _is_nested(kind):
        return Mapped("jsonb", "jsonb", "text", True) if stored is None else None
    name = scalar(kind)
    if name is None:
        return None
    plain = "text" if isinstance(kind, T.DecimalType) else name
    if stored is None:
        exact = name not in _FLOATS
        return Mapped(name, name, plain, exact=exact, normal=_normal(name.partition("(")[0]))
    if not _takes(stored, kind, name):
        return None
    normal = "" if stored.collation else _normal(stored.base, stored.category)
    return Mapped(_cast(stored), name, plain, False, _limited(stored), _exact(stored, name), normal)


def scalar(kind: T.DataType) -> str | None:
    """The column type of a plain Spark type, or None."""
    if isinstance(kind, T.DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    return next((name for of, name in _SCALARS.items() if isinstance(kind, of)), None)


def _is_nested(kind: T.DataType) -> bool:
    return isinstance(kind, _NESTED)


def _array(element: T.DataType, item: str, stored: StoredColumn | None) -> Mapped | None:
    plain = "text[]" if isinstance(element, T.DecimalType) else f"{item}[]"
    if stored is None or stored.declared == f"{item}[]":
        by_text = item in _BY_TEXT and not (stored and stored.collation)
        return Mapped(f"{item}[]", f"{item}[]", plain, normal="{}" if by_text else "")
    wider = ("numeric",) if isinstance(element, T.DecimalType) else _WIDER.get(item, (item,))
    taken = [f"{name}[]" for name in wider]
    taken += ["character varying[]"] if item == "text" else []
    if stored.base not in taken or (stored.base == "numeric[]" and stored.modifier >= 0):
        return None
    # A cast to varchar(n)[] would cut texts off; other elements take their precision.
    cast = stored.base if item == "text" else stored.declared
    return Mapped(cast, f"{item}[]", plain)


def _takes(stored: StoredColumn, kind: T.DataType, name: str) -> bool:
    limits = stored.precision_and_scale
    if isinstance(kind, T.DecimalType):
        return stored.base == "numeric" and (
            limits is None
            or (limits[1] >= kind.scale and limits[0] - limits[1] >= kind.precision - kind.scale)
        )
    if stored.base == "numeric":
        digits = _DIGITS.get(type(kind))
        return digits is not None and (
            limits is None or (limits[1] >= 0 and limits[0] - limits[1] >= digits)
        )
    if isinstance(kind, T.StringType):
        by_text = stored.category in _FROM_TEXT and stored.base not in ("bytea", '"char"')
        return by_text or stored.base.startswith("time ")
    return stored.base in _WIDER.get(name, (name,))


def _cast(stored: StoredColumn) -> str:
    """The type to cast to before rows are compared with stored ones.

    A cast to varchar(n) or char(n) would cut texts off in silence, so the length is left to
    the INSERT, which refuses. Numbers and times take their column's precision.
    """
    if stored.category != "S":
        return stored.declared
    return "pg_catalog.bpchar" if stored.base == "character" else stored.base


def _limited(stored: StoredColumn) -> str:
    """The type of a staged text with a length: COPY refuses what the column would refuse.

    It also cuts off the blanks that the column would cut off, before rows are compared.
    """
    if stored.base != "character varying" or stored.modifier < 0:
        return ""
    return f"character varying({stored.modifier - 4})"


def _exact(stored: StoredColumn, name: str) -> bool:
    if stored.collation or name in _FLOATS:
        return False
    if name in _INTEGERS or name.startswith("numeric("):
        return stored.declared in _INTEGERS or stored.declared.startswith("numeric")
    return stored.declared == name or (name, stored.declared) == ("text", "character varying")


def _normal(base: str, category: str = "") -> str:
    if base == "numeric":
        return "trim_scale({})"
    if base in _FLOATS:
        return "coalesce(nullif({}, 0), 0)"
    return "{}" if base in _BY_TEXT or category == "E" else ""
