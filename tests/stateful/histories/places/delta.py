"""A Delta table, changed by deltalake, and by Spark once its columns are mapped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable, write_deltalake

from histories.model import State
from histories.places.place import Place
from histories.rows import Row, ordered, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAPPING = (
    "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', "
    "'delta.minWriterVersion' = '5'"
)


class DeltaPlace(Place):
    kind = "delta"
    able = frozenset({"roll_back", "forget", "swap", "renew", "beside_stopped"})
    table = "out"

    def __init__(self, root: Path, spark: SparkSession) -> None:
        super().__init__()
        self._path, self._spark = str(root / self.table), spark
        self._mapped = False

    def exists(self) -> bool:
        return DeltaTable.is_deltatable(self._path)

    def rows(self) -> tuple[Row, ...]:
        if not self.exists():
            return ()
        if self._mapped:
            frame = self._spark.newSession().read.format("delta").load(self._path)
            return ordered(frame.select(*Row._fields).collect())
        found = DeltaTable(self._path).to_pyarrow_table().select(list(Row._fields))
        return ordered(tuple(row.values()) for row in found.to_pylist())

    def append(self, rows: Iterable[Row]) -> None:
        if self._mapped:
            frame = self._spark.createDataFrame(table_of(rows))
            frame.write.format("delta").mode("append").save(self._path)
        else:
            write_deltalake(self._path, table_of(rows), mode="append")

    def delete(self, key: int) -> None:
        if self._mapped:
            self._sql(f"DELETE FROM {{t}} WHERE id = {key}")
        else:
            DeltaTable(self._path).delete(f"id = {key}")

    def update(self, key: int, text: str, shift: int) -> None:
        if self._mapped:
            self._sql(f"UPDATE {{t}} SET v = '{text}', seq = seq + {shift} WHERE id = {key}")
        else:
            changes = {"v": f"'{text}'", "seq": f"seq + {shift}"}
            DeltaTable(self._path).update(updates=changes, predicate=f"id = {key}")

    def overwrite(self, rows: Iterable[Row]) -> None:
        if self._mapped:
            frame = self._spark.createDataFrame(table_of(rows))
            frame.write.format("delta").mode("overwrite").save(self._path)
        else:
            write_deltalake(self._path, table_of(rows), mode="overwrite")

    def compact(self) -> None:
        if self._mapped:
            self._sql("OPTIMIZE {t}")
        else:
            DeltaTable(self._path).optimize.compact()

    def version(self) -> int | None:
        return DeltaTable(self._path).version() if self.exists() and not self._mapped else None

    def roll_back(self, version: int) -> None:
        DeltaTable(self._path).restore(version)

    def after_roll_back(self, now: State, then: State) -> list[State]:
        """RESTORE is one more commit: the log still tells of what came between."""
        marks = {(s.published, r.removed) for s in (now, then) for r in (now, then)}
        return [replace(then, published=known, removed=keys) for known, keys in marks]

    def forget(self) -> None:
        table = DeltaTable(self._path)
        if self._mapped:
            return
        table.create_checkpoint()
        for version in range(table.version()):
            Path(self._path, "_delta_log", f"{version:020d}.json").unlink(missing_ok=True)

    def swap_columns(self) -> None:
        self._map()
        for old, new in (("v", "x"), ("w", "v"), ("x", "w")):
            self._sql(f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {new}")

    def renew_column(self) -> None:
        self._map()
        self._sql("ALTER TABLE {t} DROP COLUMN w")
        self._sql("ALTER TABLE {t} ADD COLUMN w string")

    def _map(self) -> None:
        if not self._mapped:
            self._sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({_MAPPING})")
            self._mapped = True

    def _sql(self, text: str) -> None:
        self._spark.sql(text.format(t=f"delta.`{self._path}`")).collect()
