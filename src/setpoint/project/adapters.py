"""From a table's value to the adapter that serves it; each is imported when it is needed."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint import edge
from setpoint.errors import NOTHING_STARTED, DefinitionError, UsageError
from setpoint.model.http import Http
from setpoint.model.origin import Files, Jdbc, Landed, Rows
from setpoint.model.pipeline import Pipeline
from setpoint.model.ports import SourcePort, TargetPort
from setpoint.model.secret import Secret, revealed, settings_of
from setpoint.model.source import Source
from setpoint.model.table import Delta, Iceberg, Parquet, Postgres, Table
from setpoint.project.config import Config, located

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from setpoint.sources.database.snapshot import Snapshots
    from setpoint.sources.existing import ExistingTable
    from setpoint.spark.session import Sessions
    from setpoint.targets.delta.storage import Storage
    from setpoint.targets.iceberg.catalog import CatalogSettings
    from setpoint.targets.iceberg.catalog import TableName as IcebergName
    from setpoint.targets.postgres.server import Server


class Adapters:
    """Makes the adapters of one project."""

    def __init__(self, config: Config, sessions: Sessions) -> None:
        self._config = config
        self._sessions = sessions
        self._held: dict[str, Snapshots] = {}

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
                from setpoint.targets.iceberg.target import IcebergTarget

                return IcebergTarget(pipeline, table, *self.catalogued(table.table))
            case Postgres():
                from setpoint.targets.postgres.target import PostgresTarget

                return PostgresTarget(pipeline, table, self.server(table.connection))

    def source(self, name: str, source: Source, pipeline: Pipeline) -> SourcePort:
        """An input of a pipeline."""
        if source.before:
            from setpoint.sources.previous import PreviousSource

            table = replace(source, before="")
            return PreviousSource(
                name,
                source.before,
                self.target(pipeline),
                lambda: self.source(name, table, pipeline),
                pipeline.start,
            )
        origin = source.origin
        match origin:
            case Delta():
                from setpoint.sources.delta import DeltaSource

                return DeltaSource(
                    name, source, self.storage(origin), pipeline.every, pipeline.timezone
                )
            case Iceberg():
                from setpoint.sources.iceberg import IcebergSource

                name_and_catalog = self.catalogued(origin.table)
                return IcebergSource(
                    name, source, *name_and_catalog, pipeline.every, pipeline.timezone
                )
            case Parquet():
                from setpoint.sources.hive import HiveSource

                def hive() -> SparkSession:
                    return self._sessions.get(frozenset({"hive"}))

                return HiveSource(
                    name, source, origin.table, hive, pipeline.every, pipeline.timezone
                )
            case Files():
                from setpoint.sources.files import FilesSource

                root = str(self._config.root)
                return FilesSource(name, source, origin, root, pipeline.every, pipeline.timezone)
            case Rows():
                from setpoint.sources.rows import RowsSource

                return RowsSource(name, source, pipeline.every, pipeline.timezone)
            case Landed():
                return self._landed(name, source, origin, pipeline)
            case Postgres():
                from setpoint.sources.postgres import PostgresSource
                from setpoint.targets.postgres.names import parse_name

                return PostgresSource(
                    name,
                    source,
                    parse_name(origin.table),
                    self._snapshots(origin.connection),
                    pipeline.every,
                    pipeline.timezone,
                )
            case Jdbc():
                from setpoint.sources.jdbc import JdbcSource

                return JdbcSource(
                    name,
                    source,
                    origin,
                    self.jdbc_url(origin.connection),
                    self._sessions.get,
                    pipeline.every,
                    pipeline.timezone,
                )

    def _landed(self, name: str, source: Source, origin: Landed, pipeline: Pipeline) -> SourcePort:
        """A source whose rows are kept, and the supply that fills it."""
        from setpoint.sources.http.client import Surroundings
        from setpoint.sources.landed import LandedSource
        from setpoint.sources.landing import Shelf
        from setpoint.sources.supply import FrameSupply, HttpSupply, Supply
        from setpoint.targets.delta.storage import Storage

        supply: Supply
        if isinstance(origin.origin, Http):
            around = Surroundings(os.environ, edge.utc_now, time.sleep)
            supply = HttpSupply(origin.origin, around)
        else:
            inner = replace(source, origin=origin.origin)
            # What is clipped while it is landed is part of the question.
            request = {**origin.request(), "time": source.time, "whole": source.whole}
            supply = FrameSupply(lambda: self.source(name, inner, pipeline), request)
        place = Storage.at(located(self._config.landing, self._config.root))
        return LandedSource(
            name=name,
            source=source,
            pipeline=pipeline.name,
            every=pipeline.every,
            timezone=pipeline.timezone,
            shelf=Shelf.named(place, origin.name or f"{pipeline.name}.{name}"),
            supply=supply,
            now=edge.utc_now,
        )

    def _snapshots(self, connection: str) -> Snapshots:
        """The snapshots of a server: the inputs of a run that lie there share one."""
        from setpoint.sources.database.snapshot import Snapshots

        if connection not in self._held:
            self._held[connection] = Snapshots(self.server(connection))
        return self._held[connection]

    def existing(self, label: str, table: Table) -> ExistingTable:
        """A table to look at, whoever wrote it."""
        match table:
            case Delta():
                from setpoint.sources.existing import no_table, open_table

                storage = self.storage(table)
                if storage.is_local and not os.path.exists(storage.uri):
                    raise no_table(label, f"{storage.uri} does not exist")
                return open_table(label, "delta", storage)
            case Parquet():
                from setpoint.sources.named import open_catalogued

                return open_catalogued(label, self._sessions, frozenset({"hive"}), table.table)
            case Iceberg():
                from setpoint.sources.named import open_iceberg

                return open_iceberg(label, *self.catalogued(table.table))
            case Postgres():
                from setpoint.sources.named import open_postgres

                return open_postgres(label, self.server(table.connection), table.table)

    def catalogued(self, table: str) -> tuple[IcebergName, CatalogSettings]:
        """The name of an Iceberg table, and its catalog."""
        from setpoint.targets.iceberg.catalog import CatalogSettings
        from setpoint.targets.iceberg.catalog import TableName as IcebergName

        sections = self._config.catalogs
        name = IcebergName.parse(table, sections)
        section = sections.get(name.catalog)
        return name, CatalogSettings.of(name.catalog, section, self._config.root)

    def server(self, connection: str) -> Server:
        """The PostgreSQL server behind a name: of the configuration, or of the environment."""
        from setpoint.targets.postgres.server import server_of

        return server_of(connection, self._url(connection), self._config.commit_timeout)

    def jdbc_url(self, connection: str) -> Secret:
        """The JDBC URL behind a name: of the configuration, or of the environment."""
        from setpoint.targets.postgres.server import variable_of

        url, named = self._url(connection), f"{connection!r:.80}"
        if url is not None and url.is_set and url.reveal().startswith("jdbc:"):
            return url
        what = f"The connection {named} is not a JDBC URL."
        if url is None:
            what = f"The connection {named} is not configured."
        elif not url.is_set:
            what = f"The environment variable {url.variable} of the connection {named} is not set."
        place = (url.variable if url else "") or variable_of(connection)
        raise UsageError(
            "SP-C03",
            what,
            why="A pipeline names a connection, so that no password stands in the code.",
            state=NOTHING_STARTED,
            next=f'Write {connection} = "jdbc:mysql://host/database?user=...&password=..." under '
            f"[connections] of setpoint.toml, or set {place}; read PostgreSQL with postgres(...).",
        )

    def _url(self, connection: str) -> Secret | None:
        """A connection's URL; None when neither the configuration nor the environment has it."""
        from setpoint.targets.postgres.server import variable_of

        given = self._config.connections.get(connection)
        if given is None:
            named = Secret(f"env:{variable_of(connection)}", whole=False)
            return named if named.is_set else None
        return given

    def storage(self, table: Delta) -> Storage:
        """Where a Delta table lives; catalog names are resolved through the session."""
        from setpoint.targets.delta.storage import Storage

        options = revealed(settings_of(table.storage_options, "storage_options="))
        if table.path is not None:
            return Storage.at(located(table.path, self._config.root), options)
        from setpoint.spark.catalog import location_of

        place = location_of(self._sessions.get(frozenset({"delta"})), str(table.table))
        return Storage.at(place, options)


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
