"""From a table's value to the adapter that serves it; each is imported when it is needed."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from setpoint.errors import DefinitionError
from setpoint.model.pipeline import Pipeline
from setpoint.model.ports import TargetPort
from setpoint.model.table import Delta, Iceberg, Parquet, Postgres, Table
from setpoint.project.config import Config, located

if TYPE_CHECKING:
    from setpoint.spark.session import Sessions
    from setpoint.targets.delta.storage import Storage
    from setpoint.targets.postgres.server import Server


class Adapters:
    """Makes the adapters of one project."""

    def __init__(self, config: Config, sessions: Sessions) -> None:
        self._config = config
        self._sessions = sessions

    def target(self, pipeline: Pipeline) -> TargetPort:
        """The destination of a pipeline."""
        table = pipeline.target
        match table:
            case Delta():
                from setpoint.targets.delta.target import DeltaTarget

                return DeltaTarget(pipeline, table, self.storage(table))
            case Parquet():
                from setpoint.targets.parquet.target import ParquetTarget

                return ParquetTarget(
                    pipeline, table, lambda: self._sessions.get(frozenset({"hive"}))
                )
            case Iceberg():
                from setpoint.targets.iceberg.catalog import CatalogSettings, TableName
                from setpoint.targets.iceberg.target import IcebergTarget

                sections = self._config.catalogs
                name = TableName.parse(table.table, sections)
                section = sections.get(name.catalog)
                settings = CatalogSettings.of(name.catalog, section, self._config.root)
                return IcebergTarget(pipeline, table, name, settings)
            case Postgres():
                from setpoint.targets.postgres.target import PostgresTarget

                return PostgresTarget(pipeline, table, self.server(table.connection))

    def server(self, connection: str) -> Server:
        """The PostgreSQL server behind a name: of the configuration, or of the environment."""
        from setpoint.targets.postgres.server import server_of, variable_of

        given = self._config.connections.get(connection)
        if given is None:
            return server_of(connection, os.environ.get(variable_of(connection)))
        if given.startswith("env:"):
            variable = given.removeprefix("env:")
            return server_of(connection, os.environ.get(variable), variable)
        return server_of(connection, given)

    def storage(self, table: Delta) -> Storage:
        """Where a Delta table lives; catalog names are resolved through the session."""
        from setpoint.targets.delta.storage import Storage

        if table.path is not None:
            return Storage.at(located(table.path, self._config.root), table.storage_options)
        from setpoint.spark.catalog import location_of

        place = location_of(self._sessions.get(frozenset({"delta"})), str(table.table))
        return Storage.at(place, table.storage_options)


def place_of(table: Table, config: Config) -> str:
    """A table's place in one spelling, found without opening anything."""
    if isinstance(table, Delta) and table.path is not None:
        place = located(table.path, config.root)
        return place if "://" in place else os.path.normpath(place)
    if isinstance(table, Postgres):
        from setpoint.targets.postgres.names import parse_name

        # A name that cannot be read is refused when its pipeline is used, not with all others.
        with suppress(DefinitionError):
            return f"postgres:{table.connection}/{parse_name(table.table)}"
    return f"{table.kind}:{table.label}"
