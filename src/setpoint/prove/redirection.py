"""Where the tables of a proof are: every target and every setting that names one, redirected.

Nothing here opens anything. A target becomes a table of the same kind, partitioning and time
column in the sandbox; the rest of the pipeline stays what it is, and so does its run key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from setpoint.model.pipeline import Pipeline
from setpoint.model.secret import NOTHING, Secret, revealed, settings_of
from setpoint.model.table import Delta, Iceberg, Parquet, Postgres, Table
from setpoint.project.config import Config

CATALOG = CONNECTION = "setpoint_proof"
_WAREHOUSE = "spark.sql.warehouse.dir"
_EVENT_LOG = "spark.eventLog.enabled"


@dataclass(frozen=True)
class SandboxedPipeline(Pipeline):
    """A pipeline whose code stays what it was when the proof began.

    A fingerprint covers the constants that code reaches. One that changes while a process lives,
    such as a cache, is another one in the next process, and no new version of the code.
    """

    known_code: str = ""

    @property
    def code(self) -> str:
        return self.known_code


@dataclass(frozen=True)
class Redirection:
    """Where one sandbox has what production has elsewhere.

    `server` is the URL of the PostgreSQL server that stands in for the target's. Spark's
    metastore is a Derby database of the sandbox; with `scratch_metastore` it is that of the
    session, which no table is made in, or which is thrown away anyway.
    """

    folder: str
    token: str
    server: Secret = NOTHING
    scratch_metastore: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "server", Secret.of(self.server, whole=False))

    @property
    def database(self) -> str:
        """The database of the Parquet tables."""
        return f"setpoint_proof_{self.token}"

    @property
    def tables(self) -> str:
        return os.path.join(self.folder, "tables")

    def schema(self, trial: str) -> str:
        """The PostgreSQL schema of a trial."""
        return f"{slug(trial)}_{self.token}"[:63]

    def target(self, table: Table, trial: str) -> Table:
        """The table that stands in for a target in a trial."""
        match table:
            case Delta():
                place = os.path.join(self.tables, slug(trial))
                return replace(table, path=place, table=None, storage_options={})
            case Iceberg():
                return replace(table, table=f"{CATALOG}.{slug(trial)}.rows")
            case Parquet():
                return replace(table, table=f"{self.database}.{slug(trial)}")
            case Postgres():
                from setpoint.targets.postgres.names import TableName, parse_name

                name = TableName(self.schema(trial), parse_name(table.table).table)
                return replace(table, table=name.sql, connection=CONNECTION)

    def pipeline(self, pipeline: Pipeline, trial: str, code: str) -> Pipeline:
        """The pipeline with the target of a trial, which it also reads its window before from."""
        target = self.target(pipeline.target, trial)
        sources = {
            name: replace(item, origin=target) if item.before else item
            for name, item in pipeline.sources.items()
        }
        values = {item.name: getattr(pipeline, item.name) for item in fields(Pipeline)}
        values |= {"target": target, "sources": sources}
        return SandboxedPipeline(**values, known_code=code)

    def config(self, config: Config) -> Config:
        """The configuration under which a trial runs: no place of it is production's to write."""
        catalog = {
            "type": Secret("jdbc"),
            "uri": Secret(f"sqlite:///{os.path.join(self.folder, 'catalog.sqlite')}", whole=False),
            "warehouse": Secret(self.tables, whole=False),
        }
        ledger = f"sqlite:////{os.path.join(self.folder, 'ledger.db').lstrip('/')}"
        conf = config.conf if self.scratch_metastore else self._own_metastore(config.conf)
        if not _is_elsewhere(config):
            # Production's history has no place for trials, and each session adds a file to it.
            conf = {**conf, **settings_of({_EVENT_LOG: "false"})}
        return replace(
            config,
            ledger=Secret(ledger, whole=False),
            landing=os.path.join(self.folder, "landing"),
            catalogs={**config.catalogs, CATALOG: catalog},
            connections={**config.connections, CONNECTION: self.server},
            conf=conf,
        )

    def _own_metastore(self, conf: Mapping[str, Secret]) -> dict[str, Secret]:
        """Settings that name a metastore of the sandbox's own, whatever others say."""
        from setpoint.spark.metastore import local_metastore

        others = {name: value for name, value in conf.items() if name != _WAREHOUSE}
        settings = {
            **local_metastore(self.folder, _options(others)),
            "spark.hadoop.javax.jdo.option.ConnectionDriverName": (
                "org.apache.derby.jdbc.EmbeddedDriver"
            ),
            "spark.hadoop.hive.metastore.uris": "",
        }
        return {**others, **settings_of(settings)}


def _options(conf: Mapping[str, Secret]) -> dict[str, str]:
    """What a metastore of the sandbox's own goes on from: the options of the JVM."""
    from setpoint.spark.submit import JAVA_OPTIONS

    return revealed({name: value for name, value in conf.items() if name == JAVA_OPTIONS})


def _is_elsewhere(config: Config) -> bool:
    """Whether Spark is at a Connect address, where a session cannot change such settings."""
    return bool(config.remote or (not config.master and os.environ.get("SPARK_REMOTE")))


def slug(trial: str) -> str:
    """A trial's name as every destination takes it."""
    return re.sub(r"[^a-z0-9]+", "_", trial.lower()).strip("_") or "trial"
