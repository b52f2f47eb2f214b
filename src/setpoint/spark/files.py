"""Reading the live files of a table as one frame, partition values taken from its log."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.model.slice import NULL_PARTITION, typed
from setpoint.spark.contents import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATTERN = re.compile(r"[{}\[\]*?\\]")
# Types and names about which Spark and the log cannot be of two minds.
_IN_FOLDERS = {"date", "string", "integer", "long"}
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")


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

    Values of one partition are literals, so that filters on them are decided while planning.
    Several partitions are one scan: their values come from the names of the folders where these
    tell what the log says, and are joined to the rows by the file's path where they do not.
    """
    schema = T.StructType.fromJson(json.loads(schema_json))
    if not files:
        return session.createDataFrame([], schema)
    stored = [field for field in schema.fields if field.name not in partition_columns]
    paths = [literal_path(f"{root}/{file.path}") for file in files]
    base = _base_of(schema, partition_columns, files) if partition_values else None
    if base is not None:
        names = [field.name for field in stored] + list(partition_columns)
        wanted = T.StructType([schema[name] for name in names])
        reader = session.read.schema(wanted).option("basePath", f"{root}/{base}".rstrip("/"))
        return reader.parquet(*paths).select(*(quoted(field.name) for field in schema.fields))
    frame = (
        session.read.schema(T.StructType(stored))
        # Folder names like d=2026-04-25 must not add columns of their own.
        .option("recursiveFileLookup", "true")
        .parquet(*paths)
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


def _base_of(schema: T.StructType, columns: Sequence[str], files: Sequence[LiveFile]) -> str | None:
    """The folder below which folders such as d=2026-04-25 tell the partitions of all files.

    None unless they do so beyond doubt: the log says what a partition's values are, and a folder
    may be called anything.
    """
    kinds = [schema[name].dataType.typeName() for name in columns]
    if not columns or not set(kinds) <= _IN_FOLDERS:
        return None
    bases = set()
    for file in files:
        parts = file.path.split("/")
        folders = parts[-1 - len(columns) : -1]
        for name, kind, folder in zip(columns, kinds, folders, strict=False):
            told, equals, text = folder.partition("=")
            value = file.partition.get(name)
            if told != name or not equals or not _PLAIN.fullmatch(f"{name}{text}"):
                return None
            if value is None or text == NULL_PARTITION or typed(kind, text) != value:
                return None
        bases.add("/".join(parts[: -1 - len(columns)]) if len(folders) == len(columns) else None)
    return bases.pop() if len(bases) == 1 else None


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
