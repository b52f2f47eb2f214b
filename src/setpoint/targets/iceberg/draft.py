"""A table that does not exist yet: where it will lie, and how the first publish makes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from setpoint.errors import SetpointError
from setpoint.model.table import Iceberg
from setpoint.targets.iceberg.catalog import CatalogSettings, TableName, unreachable
from setpoint.targets.iceberg.partitions import new_spec
from setpoint.targets.iceberg.schema import new_schema
from setpoint.targets.iceberg.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Transaction

# Every commit writes the whole metadata into a new file: without a limit these add up to the square
# of the number of commits.
_PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


class Draft:
    """The table as a transaction that creates it, in the same commit as its first rows."""

    def __init__(
        self,
        catalog: Catalog,
        name: TableName,
        schema: Schema,
        spec: PartitionSpec,
        location: str | None,
    ) -> None:
        ensure_namespace(catalog, name.namespace)
        self.transaction: Transaction = catalog.create_table_transaction(
            name.identifier, schema, location, spec, properties=dict(_PROPERTIES)
        )
        metadata = self.transaction.table_metadata
        self.schema, self.spec = metadata.schema(), metadata.spec()
        self.storage = Storage(metadata.location, self.transaction._table.io)


def draft(
    catalog: Catalog,
    settings: CatalogSettings,
    name: TableName,
    table: Iceberg,
    fields: Sequence[dict[str, Any]],
    location: str | None = None,
) -> Draft:
    """The table with these columns (Spark's JSON form), at its default place or a given one."""
    schema = new_schema(fields)
    place = location or default_location(settings, name)
    try:
        return Draft(catalog, name, schema, new_spec(table, schema), place)
    except SetpointError:
        raise
    except Exception as error:
        raise unreachable(f"The catalog {name.catalog}", error) from error


def ensure_namespace(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    """pyiceberg looks and then makes it: a run beside this one may make it in between."""
    try:
        catalog.create_namespace_if_not_exists(namespace)
    except Exception:
        if not catalog.namespace_exists(namespace):
            raise


def default_location(settings: CatalogSettings, name: TableName) -> str | None:
    """Where a new table will lie; None when the catalog decides."""
    warehouse = settings.warehouse
    if settings.type != "jdbc" or warehouse is None:
        return None
    return f"{warehouse.rstrip('/')}/{name.folder}"


def storage_before(catalog: Catalog, settings: CatalogSettings, name: TableName) -> Storage | None:
    """The files of a table that does not exist yet, if it is known where they will lie."""
    from pyiceberg.io import load_file_io

    place = default_location(settings, name)
    return Storage(place, load_file_io(dict(catalog.properties), place)) if place else None
