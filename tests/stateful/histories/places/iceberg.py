"""An Iceberg table in the project's own catalog, changed by pyiceberg and by Spark."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError, ValidationException
from pyiceberg.expressions import EqualTo
from pyiceberg.types import StringType

from histories.places.place import Place, updated
from histories.rows import Row, ordered, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class IcebergPlace(Place):
    kind = "iceberg"
    able = frozenset({"roll_back", "forget", "swap", "renew", "beside_stopped"})
    table = "sales.orders"

    def __init__(self, root: Path, spark: SparkSession) -> None:
        super().__init__()
        self._root, self._session = root, spark

    @cached_property
    def _catalog(self) -> SqlCatalog:
        folder = self._root / "warehouse"
        folder.mkdir(exist_ok=True)
        uri = f"sqlite:///{folder / '_catalog.sqlite'}"
        return SqlCatalog("lake", uri=uri, warehouse=f"file://{folder}")

    def _load(self) -> Any:
        return self._catalog.load_table(self.table)

    def exists(self) -> bool:
        try:
            self._load()
        except NoSuchTableError:
            return False
        return True

    def rows(self) -> tuple[Row, ...]:
        if not self.exists():
            return ()
        found = self._load().scan(selected_fields=Row._fields).to_arrow().select(Row._fields)
        return ordered(tuple(row.values()) for row in found.to_pylist())

    def append(self, rows: Iterable[Row]) -> None:
        self._load().append(table_of(rows))

    def delete(self, key: int) -> None:
        self._load().delete(EqualTo("id", key))

    def update(self, key: int, text: str, shift: int) -> None:
        changed = [row for row in updated(self.rows(), key, text, shift) if row.id == key]
        self._load().overwrite(table_of(changed), EqualTo("id", key))

    def overwrite(self, rows: Iterable[Row]) -> None:
        self._load().overwrite(table_of(rows))

    def compact(self) -> None:
        options = "map('rewrite-all', 'true')"
        self._spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{self.table}', options => {options})"
        ).collect()

    def version(self) -> int | None:
        current = self._load().current_snapshot() if self.exists() else None
        return current.snapshot_id if current else None

    def roll_back(self, version: int) -> None:
        """To an ancestor, or, once that was done, to what came after it."""
        change = self._load().manage_snapshots()
        try:
            change.rollback_to_snapshot(version).commit()
        except (ValueError, ValidationException):
            self._load().manage_snapshots().set_current_snapshot(version).commit()

    def forget(self) -> None:
        table = self._load()
        current = table.current_snapshot()
        ids = [s.snapshot_id for s in table.snapshots() if s.snapshot_id != current.snapshot_id]
        if ids:
            table.maintenance.expire_snapshots().by_ids(ids).commit()

    def swap_columns(self) -> None:
        for old, new in (("v", "x"), ("w", "v"), ("x", "w")):
            with self._load().update_schema() as change:
                change.rename_column(old, new)

    def renew_column(self) -> None:
        with self._load().update_schema() as change:
            change.delete_column("w")
        with self._load().update_schema() as change:
            change.add_column("w", StringType())

    @property
    def _spark(self) -> SparkSession:
        own = self._session.newSession()
        prefix, folder = "spark.sql.catalog.lake", self._root / "warehouse"
        settings = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "jdbc",
            ".uri": f"jdbc:sqlite:{folder / '_catalog.sqlite'}",
            ".jdbc.schema-version": "V1",
            ".warehouse": f"file://{folder}",
            ".cache-enabled": "false",
        }
        for name, value in settings.items():
            own.conf.set(f"{prefix}{name}", value)
        return own
