"""Reading the live files of a table as one frame, partition values taken from its log."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.spark.contents import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATTERN = re.compile(r"[{}\[\]*?\\]")


class LiveFile(Protocol):
    """A data file: its path below the table's root and the values of its partition."""

    @property
    def path(self) -> str: ...

    @property
    def partition(self) -> Mapping[str, Any]: ...


def literal_path(path: str) -> str:
    """A path that Spark does not take for a pattern, whatever characters it holds."""
    return _PATTERN.sub(r"\\\g<0>", path)


def read_files(
    session: SparkSession,
    root: str,
    schema_json: str,
    partition_columns: Sequence[str],
    files: Sequence[LiveFile],
    *,
    partition_values: bool = True,
) -> DataFrame:
    """All rows of the files, columns in the table's order; needs no connector.

    Values of one partition are literals, so that filters on them are decided while planning;
    several partitions are still one scan, joined to their values by the file's path.
    """
    schema = T.StructType.fromJson(json.loads(schema_json))
    if not files:
        return session.createDataFrame([], schema)
    stored = [field for field in schema.fields if field.name not in partition_columns]
    frame = (
        session.read.schema(T.StructType(stored))
        # Folder names like d=2026-04-25 must not add columns of their own.
        .option("recursiveFileLookup", "true")
        .parquet(*(literal_path(f"{root}/{file.path}") for file in files))
    )
    if not partition_columns or not partition_values:
        return frame
    tuples = {tuple(file.partition.get(name) for name in partition_columns) for file in files}
    if len(tuples) == 1:
        values = dict(zip(partition_columns, next(iter(tuples)), strict=True))
        return frame.select(
            *(
                F.lit(values[field.name]).cast(field.dataType).alias(field.name)
                if field.name in values
                else F.col(quoted(field.name))
                for field in schema.fields
            )
        )
    return _joined(session, root, schema, stored, partition_columns, files, frame)


def _joined(
    session: SparkSession,
    root: str,
    schema: T.StructType,
    stored: Sequence[T.StructField],
    partition_columns: Sequence[str],
    files: Sequence[LiveFile],
    frame: DataFrame,
) -> DataFrame:
    names = [field.name for field in schema.fields if field.name in partition_columns]
    kinds = T.StructType(
        [T.StructField("file", T.StringType())]
        + [T.StructField(f"v{i}", schema[name].dataType) for i, name in enumerate(names)]
    )
    values = session.createDataFrame(
        [(file.path, *(file.partition.get(name) for name in names)) for file in files], kinds
    )
    path = F.url_decode(
        F.replace(frame.metadataColumn("_metadata")["file_path"], F.lit("+"), F.lit("%2B"))
    )
    start = F.instr(path, F.lit(f"{root}/")) + F.lit(len(root) + 1)
    renamed = [F.col(quoted(field.name)).alias(f"c{i}") for i, field in enumerate(stored)]
    rows = frame.select(*renamed, F.substr(path, start).alias("path"))
    joined = rows.join(F.broadcast(values), rows["path"] == values["file"], "left")
    lost = F.raise_error(F.concat(F.lit("a file is not in the log: "), F.col("path")))
    position = {field.name: i for i, field in enumerate(stored)}
    return joined.select(
        *(
            F.col(f"c{position[field.name]}").alias(field.name)
            if field.name in position
            else F.when(F.col("file").isNull(), lost.cast(field.dataType))
            .otherwise(F.col(f"v{names.index(field.name)}"))
            .alias(field.name)
            for field in schema.fields
        )
    )
