"""Rows in another arrangement: a sample of them, other partitions, another order, copies on disk.

A proof reads the same rows under other circumstances. What changes here is never which values
a row has, and, except for a sample, never which rows there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.spark.contents import quoted, row_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BUCKETS = 1_000_000


def sampled(frame: DataFrame, share: float, column: str = "") -> DataFrame:
    """The rows whose hash falls under a share of all hashes; the same ones on every read.

    With a column, rows of one value are taken or left together, so that tables that have it
    can still be joined.
    """
    value = F.xxhash64(F.col(quoted(column))) if column else row_hash(frame.schema)
    return frame.where(F.pmod(value, F.lit(_BUCKETS)) < F.lit(round(share * _BUCKETS)))


def first_half(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Half of the rows and one more, those with the least values of some columns.

    Where rows share the last of these values, some of them are in it and some are not.
    """
    rows = frame.count()
    return frame.orderBy(*map(quoted, columns), row_hash(frame.schema)).limit(rows // 2 + 1)


def rearranged(frame: DataFrame, partitions: int, *, descending: bool = False) -> DataFrame:
    """The same rows, dealt to so many partitions by their hash and sorted by it there."""
    value = row_hash(frame.schema)
    order = value.desc() if descending else value.asc()
    dealt = frame.repartition(partitions, value) if partitions > 1 else frame.coalesce(1)
    return dealt.sortWithinPartitions(order)


@contextmanager
def with_settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session, for the length of a block."""
    before = {name: session.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)


def write_rows(frame: DataFrame, path: str) -> tuple[str, int]:
    """Write a frame's rows where a proof reads them from; its columns, and how many rows."""
    frame.write.mode("overwrite").parquet(path)
    schema = frame.schema.json()
    return schema, read_rows(frame.sparkSession, schema, path).count()


def read_rows(session: SparkSession, schema: str, path: str) -> DataFrame:
    """The rows that `write_rows` has written."""
    import json

    return session.read.schema(T.StructType.fromJson(json.loads(schema))).parquet(path)
