"""Existing tables that go by a name: in an Iceberg catalog, in Spark's own, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from setpoint.sources.existing import ExistingTable, TableFile, folders, no_table, unreadable
from setpoint.targets.iceberg.catalog import CatalogSettings
from setpoint.targets.iceberg.catalog import TableName as IcebergName
from setpoint.targets.postgres.names import parse_name, quote
from setpoint.targets.postgres.server import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from setpoint.sources.database.relation import Relation
    from setpoint.sources.database.wire import Wired
    from setpoint.spark.session import Sessions
    from setpoint.targets.iceberg.log import Version
    from setpoint.targets.postgres.catalog import StoredColumn

_EPOCH = date(1970, 1, 1)


def open_iceberg(label: str, name: IcebergName, settings: CatalogSettings) -> ExistingTable:
    """A table of an Iceberg catalog, as its newest snapshot has it; looked at without a JVM."""
    from setpoint.targets.iceberg.log import open_version
    from setpoint.targets.iceberg.reader import reader

    version = open_version(settings.open(), name)
    if version is None:
        raise no_table(label, f"the catalog {name.catalog} has no table {name}")
    head = version.head
    columns = {field.name: str(field.field_type) for field in version.schema.fields}

    def read(session: SparkSession) -> DataFrame:
        rows = reader(session, settings, name).read
        if head is not None:
            rows = rows.option("versionAsOf", str(head.snapshot_id))
        return rows.table(name.sql)

    partition_columns = tuple(_identities(version).values())
    counted = not version.delete_files
    return ExistingTable(
        label=label,
        kind="iceberg",
        storage=None,
        columns=columns,
        partition_columns=partition_columns,
        files=tuple(
            TableFile(
                file.file_path,
                _partition(version, file),
                file.record_count if counted else None,
            )
            for file in version.files
        ),
        version=head.snapshot_id if head else None,
        connectors=frozenset({"iceberg"}),
        read=read,
    )


def open_catalogued(
    label: str, sessions: Sessions, connectors: frozenset[str], name: str
) -> ExistingTable:
    """A table that the Spark session knows by name: of the metastore, or of another catalog."""
    session = sessions.get(connectors)
    try:
        if not session.catalog.tableExists(name):
            raise no_table(label, "the session's catalog has no such table")
        described = session.catalog.listColumns(name)
        columns = {column.name: str(column.dataType) for column in described}
        partition_columns = tuple(column.name for column in described if column.isPartition)
        found = session.sql(f"SHOW PARTITIONS {name}").collect() if partition_columns else []
    except Exception as error:
        raise unreadable(label, error) from error
    return ExistingTable(
        label=label,
        kind="table",
        storage=None,
        columns=columns,
        partition_columns=partition_columns,
        files=tuple(_listed(row.asDict()) for row in found),
        connectors=connectors,
        units="partition" if partition_columns else "",
        read=lambda session: session.table(name),
    )


def open_postgres(label: str, server: Server, table: str) -> ExistingTable:
    """A table of a PostgreSQL server; its rows are read once, in one snapshot."""
    from setpoint.sources.database.relation import relation
    from setpoint.targets.postgres.failures import without_secrets

    name = parse_name(table)
    with server.session(f"looking at {name}") as connection:
        found = relation(connection, name)
    if found is None:
        raise no_table(label, f"the database of the connection {server.name} has no table {name}")
    stored = found

    @cache  # several passes follow: they must see the same rows, and the server be asked once
    def read(session: SparkSession) -> DataFrame:
        with without_secrets(server):
            return _read_once(session, server, stored, label)

    return ExistingTable(
        label=label,
        kind="postgres",
        storage=None,
        columns={column.name: column.declared for column in stored.columns},
        partition_columns=(),
        files=(),
        units="",
        read=read,
    )


def _read_once(session: SparkSession, server: Server, stored: Relation, label: str) -> DataFrame:
    from pyspark.storagelevel import StorageLevel

    from setpoint.sources.database.division import Part, division_of
    from setpoint.sources.database.snapshot import exported
    from setpoint.sources.database.wire import frame_of

    columns = [_comparable(column) for column in stored.columns]
    with exported(server, stored.name) as (snapshot, _):
        division = division_of(snapshot.connection, stored, Part("true"))
        rows = frame_of(session, server, snapshot, stored.name.sql, columns, division, label)
        if len(division) == 1:
            rows = rows.repartition(int(session.conf.get("spark.sql.shuffle.partitions") or 1))
        return rows.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)


def _listed(row: dict[str, Any]) -> TableFile:
    """A row of SHOW PARTITIONS: a text like d=2026-04-25, or a column for each value."""
    text = row.get("partition")
    if len(row) == 1 and isinstance(text, str) and "=" in text:
        return TableFile(text, folders(text))
    return TableFile(str(row), row)


def _comparable(column: StoredColumn) -> Wired:
    """A column in the type in which values compare as they do in PostgreSQL.

    A check has to get through every row, so what Spark's times cannot hold, `infinity` for one,
    is brought to the ends of what they can; a number without limits is its text.
    """
    from setpoint.sources.database.wire import ENDS, PLAIN, Wired, kind_of

    name = quote(column.name)
    if ends := ENDS.get(column.base):
        low, high = (f"'{end}'::{column.base}" for end in ends)
        # GREATEST and LEAST skip nulls.
        held = f"CASE WHEN {name} IS NOT NULL THEN GREATEST(LEAST({name}, {high}), {low}) END"
        return Wired(column.name, held, PLAIN[column.base])
    if column.base == "numeric":
        kind = kind_of(column) if column.precision_and_scale else "string"
        return Wired(column.name, f"pg_catalog.trim_scale({name})::text", kind)
    if column.base in PLAIN:
        return Wired(column.name, f"{name}::{column.base}", PLAIN[column.base])
    return Wired(column.name, f"{name}::text", "string")


def _identities(version: Version) -> dict[int, str]:
    """The columns that are partitioned by their own values, by the field's position."""
    return {
        position: str(version.schema.find_column_name(field.source_id))
        for position, field in enumerate(version.table.spec().fields)
        if str(field.transform) == "identity"
    }


def _partition(version: Version, file: Any) -> Mapping[str, Any]:
    if file.spec_id != version.table.spec().spec_id:
        return {}
    found: dict[str, Any] = {}
    for position, name in _identities(version).items():
        value = file.partition[position]
        if str(version.schema.find_type(name)) == "date" and isinstance(value, int):
            value = _EPOCH + timedelta(days=value)
        found[name] = value
    return found
