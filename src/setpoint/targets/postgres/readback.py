"""Staged rows as a frame again: the workers read the table, each its own blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.model.ports import Staged
from setpoint.targets.postgres.ingest import reading
from setpoint.targets.postgres.lines import TEXT_OPTIONS
from setpoint.targets.postgres.names import literal, quote
from setpoint.targets.postgres.server import Server

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from setpoint.targets.postgres.stage import PostgresStage

_BLOCK = 8192


def read_back(session: SparkSession, server: Server, staged: Staged) -> DataFrame:
    """The staged rows that readers will see, as a frame."""
    from pyspark.sql.pandas.types import to_arrow_schema

    stage: PostgresStage = staged.handle
    with server.session("reading the stage back") as connection:
        found = connection.execute(
            f"SELECT pg_catalog.pg_relation_size({literal(stage.table.sql)}::regclass)"
        ).fetchone()
    blocks = int(found[0]) // _BLOCK + 1 if found else 1
    size = max(64, -(-blocks // 64))
    wire = T.StructType(
        [
            T.StructField(f"c{position}", _wire(item.dataType, stage, item.name))
            for position, item in enumerate(stage.schema.fields)
        ]
    )
    columns = ", ".join(
        f"s.{quote(item.name)}::{stage.fit.field(item.name).mapped.plain} AS c{position}"
        for position, item in enumerate(stage.schema.fields)
    )
    query = f"SELECT {columns} FROM {stage.kept}"
    read = reading(
        server.url.reveal(),
        to_arrow_schema(wire),
        lambda first: f"{query} AND ctid >= '({first},0)' AND ctid < '({first + size},0)'",
    )
    starts = session.range(0, blocks, size)
    frame = starts.mapInArrow(read, wire)
    return frame.select(
        *(
            _restored(f"c{position}", item, stage.fit.field(item.name).mapped.as_json)
            for position, item in enumerate(stage.schema.fields)
        )
    )


def _wire(kind: T.DataType, stage: PostgresStage, name: str) -> T.DataType:
    if stage.fit.field(name).mapped.as_json or isinstance(kind, T.DecimalType):
        return T.StringType()
    if isinstance(kind, T.ByteType):
        return T.ShortType()
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_wire(kind.elementType, stage, name))
    return kind


def _restored(name: str, item: T.StructField, as_json: bool) -> Column:
    column = F.col(name)
    if not as_json:
        return column.cast(item.dataType).alias(item.name)
    if isinstance(item.dataType, T.VariantType):
        return F.parse_json(column).alias(item.name)
    return F.from_json(column, item.dataType, TEXT_OPTIONS).alias(item.name)  # type: ignore[arg-type]
