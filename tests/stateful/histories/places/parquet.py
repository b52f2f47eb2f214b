"""A Parquet table in the session's metastore, changed by Spark."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from histories.model import State
from histories.places.place import Place, updated
from histories.rows import SCHEMA, Row, ordered, table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NUMBERS = itertools.count()


class ParquetPlace(Place):
    kind = "parquet"
    able = frozenset()

    def __init__(self, root: Path, spark: SparkSession) -> None:
        super().__init__()
        self._spark = spark
        self._was_overwritten = False
        self._database = f"history{os.getpid()}x{next(_NUMBERS)}"
        self.table = f"{self._database}.t"
        spark.sql(f"CREATE DATABASE {self._database} LOCATION '{root / 'warehouse'}'")

    def exists(self) -> bool:
        return bool(self._spark.catalog.tableExists(self.table))

    def rows(self) -> tuple[Row, ...]:
        if not self.exists():
            return ()
        return ordered(self._spark.newSession().table(self.table).select(*Row._fields).collect())

    def append(self, rows: Iterable[Row]) -> None:
        self._frame(rows).write.insertInto(self.table)

    def delete(self, key: int) -> None:
        self.overwrite(row for row in self.rows() if row.id != key)

    def update(self, key: int, text: str, shift: int) -> None:
        self.overwrite(updated(self.rows(), key, text, shift))

    def overwrite(self, rows: Iterable[Row]) -> None:
        self._was_overwritten = True
        self._frame(rows).write.insertInto(self.table, overwrite=True)

    def after_overwrite(self, state: State) -> list[State]:
        """INSERT OVERWRITE removes the folders, and the manifests that lie in them."""
        forgotten = replace(state, published=frozenset())
        return [state, forgotten, replace(state, removed=frozenset()), State(state.rows)]

    def after_lost_ledger(self, state: State) -> list[State]:
        """Where the manifests are gone, the ledger alone knew which windows were published."""
        return self.after_overwrite(state) if self._was_overwritten else [state]

    def compact(self) -> None:
        """There is no compaction that leaves the locations alone: what others do is `overwrite`."""

    def close(self) -> None:
        self._spark.sql(f"DROP DATABASE {self._database} CASCADE")

    def _frame(self, rows: Iterable[Row]) -> DataFrame:
        session = self._spark.newSession()
        return session.createDataFrame(table_of(rows), SCHEMA).select(
            *session.table(self.table).columns
        )
