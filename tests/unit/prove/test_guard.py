"""The guard: what a function does by itself is seen in its code, in its SQL and at the call."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from setpoint import delta, pipeline
from setpoint.errors import RefusedError
from setpoint.lint.doings import doings_of
from setpoint.model.pipeline import Pipeline
from setpoint.prove.guard import Guard, writes_by_sql

CODE = b"""
import psycopg, requests

def note(rows):
    with psycopg.connect("dbname=x") as c:
        c.execute("INSERT INTO log VALUES (1)")

def daily(window, orders):
    note(orders)
    requests.post("https://hooks.example/x", json={})
    return orders

def other(window, orders):
    return orders.groupBy("d").count()
"""


def test_code_tells_what_a_function_does_besides() -> None:
    """Also what it calls; another function of the same file does not count."""
    found = doings_of("p.py", CODE, "daily")
    assert [(doing.line, doing.api) for doing in found] == [(6, "execute"), (10, "post")]
    assert doings_of("p.py", CODE, "other") == ()


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1)",
        "  -- a comment\n MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "/* x */ CREATE TABLE t AS SELECT 1",
        "CREATE VIEW v AS SELECT 1",
        "WITH s AS (SELECT 1 AS a) INSERT INTO t SELECT * FROM s",
        "FROM s INSERT OVERWRITE TABLE t SELECT *",
        "FROM s INSERT OVERWRITE LOCAL DIRECTORY '/x' USING parquet SELECT *",
        "FROM (SELECT 'it''s' AS a, r'\\' AS b FROM s) INSERT /* 'x' */ INTO t SELECT a, b, 'x'",
        "WITH s AS (SELECT 1 AS a) FROM s INSERT INTO t SELECT *",
        "WITH s AS (SELECT 1 AS a) DELETE FROM t WHERE a IN (SELECT a FROM s)",
        "DELETE FROM t",
        "ALTER TABLE t ADD COLUMN b int",
        "OPTIMIZE t",
        "VACUUM t",
        "DROP TABLE t",
        "CALL system.rollback_to_snapshot('t', 1)",
    ],
)
def test_sql_that_writes_is_told(text: str) -> None:
    assert writes_by_sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t WHERE note = 'insert into x'",
        "(SELECT 1)",
        "WITH s AS (SELECT 1 AS a) SELECT * FROM s",
        "-- create\nVALUES (1)",
        "CREATE OR REPLACE TEMP VIEW v AS SELECT 1",
        "create temporary view v as select 1",
        "SHOW TABLES",
        "DESCRIBE t",
        "SET spark.sql.shuffle.partitions=3",
        "EXPLAIN SELECT 1",
    ],
)
def test_sql_that_only_reads_passes(text: str) -> None:
    assert not writes_by_sql(text)


@pytest.fixture
def called(tmp_path: Path) -> Callable[..., Any]:
    """Calls a function as a pipeline's, under a guard of a project in a temporary folder."""
    (tmp_path / "project").mkdir()
    (tmp_path / "sandbox").mkdir()
    guard = Guard(tmp_path / "project", tmp_path / "sandbox")

    def call(function: Callable[[Any], Any]) -> Any:
        made: Pipeline = pipeline(every="day", target=delta("out", partition_by="d"), name="job")(
            function
        )
        return guard.guarded(made)(None)

    return call


def test_files_of_the_project_cannot_be_changed(called: Any, tmp_path: Path) -> None:
    """Neither written, nor removed, nor renamed; reading them is free."""
    file = tmp_path / "project" / "state.txt"
    file.write_text("1")
    for change in (
        lambda window: file.write_text("2"),
        lambda window: open(file, "a").close(),
        lambda window: os.open(file, os.O_WRONLY),
        lambda window: file.unlink(),
        lambda window: file.rename(tmp_path / "project" / "other.txt"),
        lambda window: (tmp_path / "project" / "folder").mkdir(),
        lambda window: __import__("sqlite3").connect(file),
    ):
        with pytest.raises(RefusedError, match="SP-V06"):
            called(change)
    assert called(lambda window: file.read_text()) == "1"
    assert [item.name for item in (tmp_path / "project").iterdir()] == ["state.txt"]


def test_temporary_files_and_the_sandbox_are_free(called: Any, tmp_path: Path) -> None:
    """What nobody reads after the run may be written; after the call everything may."""
    called(lambda window: (tmp_path / "sandbox" / "x").write_text("1"))
    called(lambda window: (tmp_path / "elsewhere").write_text("1"))
    (tmp_path / "project" / "after").write_text("1")


def test_processes_and_messages_are_refused(called: Any) -> None:
    with pytest.raises(RefusedError, match="a process"):
        called(lambda window: subprocess.run(["true"], check=False))

    class Wire:
        def sendall(self, data: bytes) -> None:
            raise AssertionError("it was sent")

        def close(self) -> None:
            return None

    def post(window: Any) -> None:
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", 1)
        connection.sock = Wire()  # type: ignore[assignment]
        connection.request("POST", "/", b"x")

    with pytest.raises(RefusedError, match="HTTP POST"):
        called(post)
    with pytest.raises(RefusedError, match=r"a connection to 127\.0\.0\.1:1"):
        called(lambda window: urllib.request.urlopen("http://127.0.0.1:1/"))


def test_only_processes_of_the_proof_are_connected_to(called: Any) -> None:
    """Spark's JVM listens below this process; a server of somebody else does not."""
    with socket.create_server(("127.0.0.1", 0)) as own:
        called(lambda window: socket.create_connection(own.getsockname()[:2]).close())
    listening = "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); "
    listening += "print(s.getsockname()[1], flush=True); sys.stdin.read(); "
    listening += (
        "s.settimeout(0)\ntry: s.accept(); print('reached')\nexcept OSError: print('alone')"
    )
    with subprocess.Popen(
        ["setsid", "--fork", sys.executable, "-c", listening],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdin is not None
        assert other.stdout is not None
        port = int(other.stdout.readline())
        other.wait()  # who listens belongs to nobody now
        with pytest.raises(RefusedError, match=f"a connection to 127.0.0.1:{port}"):
            called(lambda window: socket.create_connection(("127.0.0.1", port)))
        other.stdin.close()
        assert other.stdout.read() == "alone\n"


def test_sql_that_writes_is_stopped_before_spark_sees_it(called: Any) -> None:
    """There is no session here that could take it."""
    from pyspark.sql import SparkSession

    nobody: Any = None
    with pytest.raises(RefusedError, match=r"SP-V06.*DROP TABLE t"):
        called(lambda window: SparkSession.sql(nobody, "DROP TABLE t"))


def test_a_refusal_that_is_caught_is_not_the_last(called: Any, tmp_path: Path) -> None:
    """What comes after it is refused as well, in other threads too."""
    files = [tmp_path / "project" / name for name in ("one", "two", "three")]

    def write(file: Path) -> None:
        try:
            file.write_text("1")
        except BaseException:
            return

    def stubborn(window: Any) -> str:
        write(files[0])
        write(files[1])
        thread = threading.Thread(target=write, args=(files[2],))
        thread.start()
        thread.join()
        return "fine"

    with pytest.raises(RefusedError, match="SP-V06"):
        called(stubborn)
    assert [file.name for file in files if file.exists()] == []


def test_a_refusal_lasts_until_somebody_asks_for_it(tmp_path: Path) -> None:
    """Whatever becomes of the error on its way: the verdict asks the guard itself."""
    (tmp_path / "project").mkdir()
    guard = Guard(tmp_path / "project", tmp_path / "sandbox")
    made: Pipeline = pipeline(every="day", target=delta("out", partition_by="d"), name="job")(
        lambda window: (tmp_path / "project" / "x").touch()
    )
    with pytest.raises(RefusedError):
        guard.guarded(made)(None)
    refusal = guard.refusal()
    assert refusal is not None
    assert "job writes by itself: open(" in refusal.what
    assert guard.refusal() is None


def test_catching_every_error_does_not_help(called: Any, tmp_path: Path) -> None:
    """The refusal is raised when the function has returned."""

    def hidden(window: Any) -> str:
        try:
            (tmp_path / "project" / "x").write_text("1")
        except Exception:
            return "fine"
        return "written"

    with pytest.raises(RefusedError, match="SP-V06"):
        called(hidden)
    assert not (tmp_path / "project" / "x").exists()
