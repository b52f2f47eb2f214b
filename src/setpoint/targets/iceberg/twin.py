"""An empty Iceberg table that is like another one: its columns, partitions, order, properties."""

from __future__ import annotations

from setpoint.targets.iceberg.catalog import CatalogSettings, TableName
from setpoint.targets.iceberg.draft import default_location, ensure_namespace
from setpoint.targets.iceberg.log import open_version

_PLACES = ("write.data.path", "write.metadata.path", "write.object-storage.enabled", "location")
_OURS = "setpoint."


def make_twin(
    original: tuple[TableName, CatalogSettings], place: tuple[TableName, CatalogSettings]
) -> tuple[str, ...]:
    """Make the table in another catalog, without rows; what it lacks, in words."""
    name, settings = original
    if settings.is_missing:
        return ()  # to open it would be to make it
    version = open_version(settings.open(), name)
    if version is None:
        return ()
    table, twin, own = version.table, place[0], place[1].open()
    properties = {
        key: value
        for key, value in table.properties.items()
        if key not in _PLACES and not key.startswith(_OURS)
    }
    properties["format-version"] = str(table.metadata.format_version)
    ensure_namespace(own, twin.namespace)
    own.create_table(
        twin.identifier,
        table.schema(),
        default_location(place[1], twin),
        table.spec(),
        table.sort_order(),
        properties,
    )
    left_out = sorted(set(_PLACES) & set(table.properties))
    return tuple(f"the table property {key} is left out" for key in left_out)
