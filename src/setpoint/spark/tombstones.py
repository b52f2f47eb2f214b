"""Tombstones: the keys that were removed, so that a late older row does not bring them back.

They are Parquet files beside the table, in a folder that the format's clean-up leaves alone.
A file counts when a receipt in the target names it, so it counts from the commit on that
removed the keys, and not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window as Over
from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.model.write import Merge, WritePattern
from setpoint.spark.batch import DELETED
from setpoint.spark.contents import quoted
from setpoint.spark.failures import explain
from setpoint.spark.ordering import later_sql, same_key_sql
from setpoint.spark.stage import read_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE = "__setpoint_place"


def keep(batch: DataFrame, write: WritePattern, path: str) -> None:
    """Keep the keys of a staged batch that are to be removed, with their sequence."""
    if not isinstance(write, Merge):
        raise TypeError(f"{write.name} removes no keys")
    columns = [F.col(quoted(name)) for name in (*write.keys, *write.sequence)]
    removed = batch.where(F.col(DELETED)).select(*columns).coalesce(1)
    try:
        removed.write.mode("overwrite").parquet(path)
    except Exception as error:
        raise explain(error, "keeping the removed keys") from error


def without_removed(batch: DataFrame, merge: Merge, paths: Sequence[str]) -> DataFrame:
    """The batch without rows that are not later than the removal of their key."""
    if not paths:
        return batch
    removed = _removed(batch, merge, paths)
    dead = (
        f"{same_key_sql(merge.keys, 's', 'd', nulls=merge.null_keys == 'allow')} "
        f"AND NOT {later_sql(merge.sequence, 's', 'd')}"
    )
    if DELETED in batch.columns:
        dead += f" AND NOT s.{quoted(DELETED)}"
    return batch.alias("s").join(removed.alias("d"), F.expr(dead), "left_anti")


def with_removed(batch: DataFrame, merge: Merge, paths: Sequence[str]) -> DataFrame:
    """The batch with these removals in it, for keys that it says nothing about."""
    removed = _removed(batch, merge, paths)
    same = F.expr(same_key_sql(merge.keys, "d", "s", nulls=merge.null_keys == "allow"))
    unsaid = removed.alias("d").join(batch.alias("s"), same, "left_anti")
    latest = Over.partitionBy(*(F.col(quoted(name)) for name in merge.keys)).orderBy(
        *(F.col(quoted(name)).desc() for name in merge.sequence)
    )
    unsaid = unsaid.withColumn(_PLACE, F.row_number().over(latest)).where(F.col(_PLACE) == 1)
    unsaid = unsaid.drop(_PLACE).withColumn(DELETED, F.lit(True))
    return batch.unionByName(unsaid, allowMissingColumns=True)


def _removed(batch: DataFrame, merge: Merge, paths: Sequence[str]) -> DataFrame:
    kinds = {field.name: field for field in batch.schema.fields}
    schema = T.StructType([kinds[name] for name in (*merge.keys, *merge.sequence)])
    return read_parquet(batch.sparkSession, schema, *paths)
