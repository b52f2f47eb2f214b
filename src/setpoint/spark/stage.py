"""Staging: one Spark job writes the rows where no reader sees them, and counts on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.model.ports import Staged
from setpoint.spark.contents import HASH, fingerprint_sums, fingerprint_text, quoted
from setpoint.spark.expressions import Expression, counted
from setpoint.spark.files import literal_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Observed:
    """What the staging job counted while it wrote."""

    rows: int
    counts: Mapping[str, int]
    contents: str | None


def write_parquet(
    frame: DataFrame,
    path: str,
    *,
    counts: Mapping[str, Expression],
    partition_by: Sequence[str] = (),
    leave_out: Sequence[str],
) -> Observed:
    """Write the frame as Parquet files in one job; count violations and fingerprint the rows.

    The fingerprint is made of the column HASH, if the frame has one. `leave_out` are the columns
    that are not stored in the files.
    """
    low, high = fingerprint_sums(HASH if HASH in frame.columns else "0L")
    names = list(counts)
    observation = Observation()
    observed = frame.observe(
        observation,
        F.expr("count(1) AS rows"),
        F.expr(f"{low} AS low"),
        F.expr(f"{high} AS high"),
        *(counted(counts[name], f"count_{position}") for position, name in enumerate(names)),
    )
    stored = observed.drop(*leave_out)
    if not stored.columns:
        raise ValueError("a table needs at least one column that is not a partition column")
    write_rows(stored, path, partition_by)
    found = metrics_of(observation)
    rows = int(found.get("rows") or 0)
    return Observed(
        rows=rows,
        counts={
            name: int(found.get(f"count_{position}") or 0) for position, name in enumerate(names)
        },
        contents=fingerprint_text(rows, found.get("low"), found.get("high"))
        if HASH in frame.columns
        else None,
    )


def write_rows(frame: DataFrame, path: str, partition_by: Sequence[str] = ()) -> None:
    """Write rows as Parquet files into a new folder, and nothing beside them."""
    writer = frame.write.mode("error").option(
        "mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"
    )
    (writer.partitionBy(*partition_by) if partition_by else writer).parquet(path)


def read_parquet(session: SparkSession, schema: T.StructType, *paths: str) -> DataFrame:
    """The rows of Parquet files below some paths."""
    return session.read.schema(schema).parquet(*map(literal_path, paths))


def read_staged(
    session: SparkSession, staged: Staged, path: str, constant: Mapping[str, str]
) -> DataFrame:
    """The staged rows as a frame, with the flag of a removed key where the write removes any.

    `constant` are the values of columns that the files do not hold.
    """
    schema: T.StructType = staged.handle.schema
    if not staged.rows:
        # Not by createDataFrame: it would make a session of our own the active one of the thread.
        return session.range(0).select(
            *(F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields)
        )
    stored = T.StructType([field for field in schema.fields if field.name not in constant])
    return read_parquet(session, stored, path).select(
        *(
            F.lit(constant[field.name]).cast(field.dataType).alias(field.name)
            if field.name in constant
            else quoted(field.name)
            for field in schema.fields
        )
    )


def metrics_of(observation: Observation) -> Mapping[str, Any]:
    """What was observed; nothing when the planner saw that there are no rows to look at."""
    from py4j.protocol import Py4JJavaError

    try:
        return observation.get
    except Py4JJavaError as error:
        # An observation that was planned away has a row without columns, which Spark's bridge
        # to Python takes for a mistake.
        if "AssertionError" in str(error) and "toPyRow" in str(error):
            return {}
        raise
