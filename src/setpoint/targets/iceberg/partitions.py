"""How staged rows are divided, so that every file lies in one partition of the table.

Columns that only divide have names of their own and are not stored in the files; the values
come back from the names of the folders that Spark makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from setpoint.errors import RefusedError
from setpoint.model.slice import NULL_PARTITION, SliceRule
from setpoint.model.span import Stretch, windows_of
from setpoint.model.table import Iceberg
from setpoint.model.window import Window
from setpoint.targets.iceberg.ranges import TIME_TRANSFORMS, ordinal, stored_value
from setpoint.targets.iceberg.types import KINDS

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyspark.sql import DataFrame, SparkSession

_DIVIDER = "__setpoint_p"
WINDOW = "__setpoint_w"
_FUNCTIONS = "setpoint_functions"
_EXPRESSIONS = {
    "year": "year({0}) - 1970",
    "month": "(year({0}) - 1970) * 12 + month({0}) - 1",
    "day": "unix_date(to_date({0}))",
    "hour": "(unix_micros(cast({0} AS timestamp)) - pmod(unix_micros(cast({0} AS timestamp)), "
    "3600000000)) div 3600000000",
}
_IDENTITIES = {
    "date": "unix_date({0})",
    "timestamptz": "unix_micros({0})",
    "timestamp": "unix_micros(cast({0} AS timestamp))",
}


@dataclass(frozen=True)
class Part:
    """One field of a partition: the column, the transform, the column's type."""

    column: str
    transform: str
    kind: str


@dataclass(frozen=True)
class Layout:
    """A table's current partitioning, in the order of its fields."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, spec: PartitionSpec, schema: Schema) -> Layout:
        """The layout of an existing table."""
        found = []
        for field in spec.fields:
            source = schema.find_field(field.source_id)
            found.append(
                Part(
                    str(schema.find_column_name(field.source_id)),
                    str(field.transform),
                    str(source.field_type),
                )
            )
        return cls(tuple(found))

    @property
    def needs_connector(self) -> bool:
        """Whether only the connector can compute a transform."""
        return any(part.transform.startswith(("bucket", "truncate")) for part in self.parts)

    def constants(self, rule: SliceRule | None, stretch: Stretch) -> dict[int, Any]:
        """The partition values that all rows of the stretch share, by the field's position."""
        found: dict[int, Any] = {}
        for position, part in enumerate(self.parts):
            if part.transform == "void":
                found[position] = None
            elif rule is not None and part.column == rule.column:
                value = _constant(part, rule, stretch)
                if value is not None:
                    found[position] = value
        return found

    def divided(self, frame: DataFrame, known: Mapping[int, Any]) -> tuple[DataFrame, list[str]]:
        """The frame with a column for every partition value that is not known, and their names."""
        from pyspark.sql import functions as F

        names = []
        for position, part in enumerate(self.parts):
            if position in known:
                continue
            # A letter in front tells an empty text from null, which Spark would not.
            text = f"concat('v', cast({self._expression(frame.sparkSession, part)} AS string))"
            frame = frame.withColumn(f"{_DIVIDER}{position}", F.expr(text))
            names.append(f"{_DIVIDER}{position}")
        return frame, names

    def values(self, path: str, known: Mapping[int, Any]) -> list[Any]:
        """The partition of a file, from the folders of its path and the values that are known."""
        found = dict(known)
        for folder in path.split("/")[:-1]:
            name, _, text = unquote(folder).partition("=")
            if not name.startswith(_DIVIDER):
                continue
            position = int(name.removeprefix(_DIVIDER))
            null = text == NULL_PARTITION
            found[position] = None if null else _parsed(self.parts[position], text[1:])
        return [found[position] for position in range(len(self.parts))]

    def _expression(self, session: SparkSession, part: Part) -> str:
        column = f"`{part.column.replace('`', '``')}`"
        if part.transform == "identity":
            return _IDENTITIES.get(part.kind, "{0}").format(column)
        if part.transform in TIME_TRANSFORMS:
            return _EXPRESSIONS[part.transform].format(column)
        name, _, width = part.transform.rstrip("]").partition("[")
        # A catalog of our own: it holds no table, only the connector's functions.
        prefix = f"spark.sql.catalog.{_FUNCTIONS}"
        session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        session.conf.set(f"{prefix}.type", "hadoop")
        session.conf.set(f"{prefix}.warehouse", "file:/setpoint-functions-only")
        return f"{_FUNCTIONS}.system.{name}({int(width)}, {column})"


def by_window(frame: DataFrame, rule: SliceRule, windows: Sequence[Window]) -> DataFrame:
    """The frame with a column WINDOW, so that no file has rows of two windows."""
    from pyspark.sql import functions as F

    from setpoint.spark.ordinal import window_ordinal

    text = f"concat('v', cast({window_ordinal(rule, windows).sql} AS string))"
    return frame.withColumn(WINDOW, F.expr(text))


def window_in(path: str) -> str:
    """What WINDOW is in all rows of a file, from the folders of its path."""
    for folder in path.split("/")[:-1]:
        name, _, text = unquote(folder).partition("=")
        if name == WINDOW:
            return text[1:]
    raise ValueError(f"{path} is not divided by windows")


def refuse_unsupported(layout: Layout, table: object) -> None:
    """Refuse a partitioning that staged files cannot be fitted to."""
    for part in layout.parts:
        known = ("identity", "void", *TIME_TRANSFORMS)
        transform = part.transform
        if transform not in known and not transform.startswith(("bucket[", "truncate[")):
            raise _unsupported(table, f"the transform {transform}")
        if transform == "identity" or transform.startswith("truncate["):
            kinds = ("int", "long", "string", "boolean", "decimal", *KINDS)
            if not part.kind.startswith(kinds):
                raise _unsupported(table, f"a partition column of type {part.kind}")


def new_spec(table: Iceberg, schema: Schema) -> PartitionSpec:
    """The partitioning of a table that does not exist yet."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import parse_transform

    fields = []
    for position, column in enumerate(table.partition_by):
        source = schema.find_field(column)
        every = str(table.partition_every) if table.partition_every and not position else ""
        timed = str(source.field_type) in ("timestamp", "timestamptz", "date")
        transform = every if timed and every in TIME_TRANSFORMS else "identity"
        if str(source.field_type) == "date" and transform == "day":
            transform = "identity"
        plain = column.isidentifier() and column.isascii()
        name = column if plain else f"p{position}"
        if transform != "identity":
            name = f"{name}_{transform}"
        fields.append(
            PartitionField(source.field_id, 1000 + position, parse_transform(transform), name)
        )
    return PartitionSpec(*fields)


def columns_of(layout: Layout) -> tuple[str, ...]:
    """The columns that a table is partitioned by, without those that were taken out."""
    return tuple(part.column for part in layout.parts if part.transform != "void")


def _constant(part: Part, rule: SliceRule, stretch: Stretch) -> Any:
    only = rule.only_value(stretch)
    if part.transform == "identity":
        if only is None:
            return None
        if rule.kind == "date":
            return stored_value("date", windows_of(stretch)[0].day)
        return int(only) if rule.kind in ("integer", "long") else only
    if part.transform not in TIME_TRANSFORMS or rule.kind in ("string", "integer", "long"):
        return None
    from datetime import timedelta

    start, end = rule.bounds(stretch)
    last = end - (timedelta(days=1) if rule.kind == "date" else timedelta(microseconds=1))
    first = ordinal(part.transform, start)
    return first if first == ordinal(part.transform, last) else None


def _parsed(part: Part, text: str) -> Any:
    if part.transform != "identity" and not part.transform.startswith("truncate"):
        return int(text)
    match part.kind:
        case "boolean":
            return text == "true"
        case "int" | "long" | "date" | "timestamp" | "timestamptz":
            return int(text)
        case kind if kind.startswith("decimal"):
            return Decimal(text)
        case _:
            return text


def _unsupported(table: object, what: str) -> RefusedError:
    return RefusedError(
        "SP-T02",
        f"The table {table} has {what}, which setpoint cannot write to.",
        why="Each staged file must lie in one partition, and its values must be known exactly.",
        next="Partition the table by other columns, or write to another table.",
    )
