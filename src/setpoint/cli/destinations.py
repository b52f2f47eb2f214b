"""What the destinations and databases of a project need, and if it is there; starts no Spark."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata, util
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from setpoint.errors import NOTHING_STARTED, PermanentError, SetpointError, UsageError
from setpoint.model.http import Http
from setpoint.model.origin import Jdbc
from setpoint.model.pipeline import Pipeline
from setpoint.model.secret import Secret
from setpoint.model.table import TABLES, Delta, Iceberg, Parquet, Postgres, TableKind
from setpoint.project.wiring import Project
from setpoint.spark.metastore import local_database, named_by

Level = Literal["ok", "missing", "bad"]
_METASTORE = "spark.hadoop.hive.metastore.uris"
_PATIENCE_SECONDS = 1
# PostgreSQL's library takes nothing shorter.
_CONNECT_SECONDS = 2
_HOST = re.compile(r"(?://|@)(?P<host>[\w.-]+)(?::(?P<port>\d+))?")
_PORTS = {
    "clickhouse": 8123,
    "db2": 50000,
    "mariadb": 3306,
    "mysql": 3306,
    "oracle": 1521,
    "postgresql": 5432,
    "redshift": 5439,
    "snowflake": 443,
    "sqlserver": 1433,
}


@dataclass(frozen=True)
class Finding:
    """One thing looked at: fine, missing (something will not work) or bad (nothing will)."""

    name: str
    level: Level
    detail: str


def tried(name: str, look: Callable[[], str], level: Level) -> Finding:
    """What a look gave, or what it failed with."""
    try:
        return Finding(name, "ok", look())
    except SetpointError as error:
        return Finding(name, level, str(error))


def kinds_of(pipelines: Iterable[Pipeline]) -> list[TableKind]:
    """The kinds of tables that pipelines write, in the order of the docs."""
    used = {item.target.kind for item in pipelines}
    return [table.kind for table in TABLES if table.kind in used]


def needs(project: Project, pipelines: Mapping[str, Pipeline]) -> Iterator[Finding]:
    """What targets and sources need beyond PySpark and Java, kind by kind."""
    yield from _variables(project)
    sources = [source for item in pipelines.values() for source in item.sources.values()]
    places = [*(item.target for item in pipelines.values()), *(item.inner for item in sources)]
    if any(isinstance(place, Iceberg) for place in places):
        yield tried("iceberg connector", lambda: jars("iceberg"), "missing")
        yield tried("pyiceberg", lambda: _package("pyiceberg", "iceberg"), "bad")
    if any(isinstance(place, Parquet) for place in places):
        yield tried("hive jars", _hive_jars, "bad")
        yield tried("metastore", lambda: _metastore(project), "bad")
    apis = [place for place in places if isinstance(place, Http)]
    if apis:
        yield tried("httpx", lambda: _package("httpx", "http"), "missing")
    for variable in sorted({name for api in apis for name in api.variables}):
        yield tried(f"variable {variable}", partial(_variable, variable), "missing")
    servers = sorted({place.connection for place in places if isinstance(place, Postgres)})
    if servers:
        yield tried("psycopg", lambda: _package("psycopg", "postgres"), "bad")
        yield tried("adbc", lambda: _package("adbc_driver_postgresql", "postgres"), "bad")
    for name in servers:
        yield tried(f"connection {name}", partial(_connection, project, name), "bad")
    for name in sorted({place.connection for place in places if isinstance(place, Jdbc)}):
        yield tried(f"connection {name}", partial(_jdbc, project, name), "bad")


def _variables(project: Project) -> Iterator[Finding]:
    """What [spark] and [catalogs] take from the environment; connections are looked at below."""
    config = project.config
    sections = (config.conf, *config.catalogs.values())
    values = [config.remote, *(value for section in sections for value in section.values())]
    for secret in sorted({value for value in values if value.variable}, key=repr):
        yield tried(f"variable {secret.variable}", partial(_is_set, secret), "bad")


def _is_set(secret: Secret) -> str:
    secret.reveal()
    return "is set"


def _connections(item: Pipeline, kind: type[Postgres] | type[Jdbc]) -> set[str]:
    """The connections that a look at a pipeline needs: of its target, and of what it reads."""
    places = [item.target, *(source.origin for source in item.sources.values())]
    return {place.connection for place in places if isinstance(place, kind)}


def target_of(project: Project, item: Pipeline, unusable: set[str]) -> Finding:
    """A pipeline's target: whether it is there, and by which mechanism it is published."""
    name, target = f"target of {item.name}", item.target
    asks_spark = isinstance(target, Parquet) or (isinstance(target, Delta) and target.table)
    origins = (source.origin for source in item.sources.values())
    if asks_spark or any(isinstance(origin, Delta) and origin.table for origin in origins):
        told = f"{target.label}, looked up in the session's catalog when it runs"
        return Finding(name, "ok", told)
    servers = _connections(item, Postgres)
    needed = {f"connection {used}" for used in servers | _connections(item, Jdbc)}
    needed |= {"psycopg"} if servers else set()
    needed |= {"pyiceberg"} if isinstance(target, Iceberg) else set()
    if broken := sorted(needed & unusable):
        return Finding(name, "bad", f"not looked at: see {broken[0]}")
    return tried(name, partial(_target, project, item), "bad")


def jars(connector: str) -> str:
    """The cached jars of a connector."""
    from setpoint.spark.jars import resolve

    found = resolve(connector)
    return f"{len(found)} jars in {found[0].parent}"


def _target(project: Project, item: Pipeline) -> str:
    bound = project.bind(item)
    exists = "exists" if bound.target.table_id() else "will be created"
    return f"{bound.target.uri} {exists}; publishes by {bound.target.mechanism()}"


def _package(module: str, extra: str) -> str:
    if util.find_spec(module) is None:
        raise UsageError(
            "SP-C08",
            f"The package {module} is not installed.",
            state=NOTHING_STARTED,
            next=f"Install it: pip install 'setpoint[{extra}]'",
        )
    return metadata.version(module.replace("_", "-"))


def _variable(name: str) -> str:
    if not os.environ.get(name):
        raise UsageError(
            "SP-H02",
            f"The variable {name}, which the request of an API needs, is not set.",
            state=NOTHING_STARTED,
            next=f"Set it where pipelines run: export {name}=...",
        )
    return "is set"


def _hive_jars() -> str:
    spec = util.find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (
        Path(spec.origin).parent if spec and spec.origin else ""
    )
    folder = Path(home) / "jars"
    found = [next(folder.glob(f"{name}*.jar"), None) for name in ("spark-hive_", "hive-metastore-")]
    if not all(found):
        raise UsageError(
            "SP-S03",
            f"Spark's Hive jars are not in {folder}.",
            why="A Parquet table is published through Hive's metastore.",
            state=NOTHING_STARTED,
            next="Use a Spark that was built with Hive, such as PySpark from PyPI.",
        )
    return ", ".join(path.name for path in found if path)


def _metastore(project: Project) -> str:
    config = project.config
    if config.remote:
        raise UsageError(
            "SP-S06",
            "A Parquet table cannot be published through Spark Connect.",
            state=NOTHING_STARTED,
            next="Set [spark] master instead of remote.",
        )
    conf = {
        f"spark.hadoop.{key.removeprefix('spark.hadoop.')}": v for key, v in config.conf.items()
    }
    named = conf[_METASTORE].reveal() if _METASTORE in conf else ""
    uris = [text.strip() for text in named.split(",") if text.strip()]
    if uris:
        return f"{_answering(uris)} answers"
    name = named_by(config.conf)
    if name is None:
        return f"{local_database(str(config.root))} (Derby), for one process at a time"
    return f"as {name} says" if "/" in name else "in the database that [spark.conf] names"


def _answering(uris: list[str]) -> str:
    failures = []
    for uri in uris:
        parts = urlsplit(uri)
        try:
            address = (parts.hostname or "", parts.port or 9083)
            socket.create_connection(address, timeout=_PATIENCE_SECONDS).close()
        except (OSError, ValueError) as error:
            failures.append(f"{uri}: {error}")
        else:
            return uri
    raise PermanentError(
        "SP-T01",
        f"The metastore does not answer ({'; '.join(failures)}).",
        next=f"Start it, or correct {_METASTORE} in [spark.conf].",
    )


def _connection(project: Project, name: str) -> str:
    server = project.adapters.server(name)
    url = server.url.reveal()
    if "connect_timeout=" not in url:
        url = f"{url}{'&' if '?' in url else '?'}connect_timeout={_CONNECT_SECONDS}"
    patient = replace(server, url=Secret(url, whole=False))
    with patient.session("looking at the server") as connection:
        version = connection.info.server_version // 10000
    return f"{server.shown}, PostgreSQL {version}"


def _jdbc(project: Project, name: str) -> str:
    """A database behind JDBC: its driver speaks to it in a JVM only, but its port can be tried."""
    from setpoint.sources.database.dialect import Dialect, shown

    url = project.adapters.jdbc_url(name).reveal()
    seen, dialect = shown(url), Dialect.of(url)
    found = _HOST.search(seen)
    port = int(found["port"] or _PORTS.get(dialect.name, 0)) if found else 0
    if found is None or not port:
        return f"{seen}, looked at when it is read"
    try:
        socket.create_connection((found["host"], port), timeout=_PATIENCE_SECONDS).close()
    except OSError as error:
        raise PermanentError(
            "SP-R01",
            f"The database of the connection {name} ({seen}) does not answer: {error}.",
            state=NOTHING_STARTED,
            next="Start it, or correct the URL under [connections].",
        ) from error
    return f"{seen} answers"
