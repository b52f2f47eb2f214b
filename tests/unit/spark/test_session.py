"""The parts of session making that need no JVM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from setpoint import Window, delta, pipeline
from setpoint.errors import RefusedError, TransientError, UsageError
from setpoint.model.run import Run
from setpoint.model.secret import Secret
from setpoint.spark.checks import refuse_unless_condition
from setpoint.spark.launch import JAVA_OPTIONS, archive_path, driver_memory_mib, tuned_conf
from setpoint.spark.metastore import DATABASE, refuse_busy_metastore
from setpoint.spark.session import (
    DELTA_CATALOG,
    EXTENSIONS,
    HIVE,
    _not_started,
    connector_conf,
    is_apache_spark,
    refuse_missing_jar,
    uninterrupted,
)

GIB = 2**30
REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("version", "answer", "genuine"),
    [
        ("4.1.4", f"4.1.4 {REVISION}", True),
        ("4.0.0", f"4.0.0-preview {REVISION}", True),
        ("4.1.4", "4.1.4", False),
        ("4.1.4", "0.7.1", False),
        ("4.1.4", f"3.5.0 {REVISION}", False),
        ("4.1.4", "", False),
    ],
)
def test_only_apache_spark_answers_like_apache_spark(
    version: str, answer: str, genuine: bool
) -> None:
    """A version without a build revision, or another version, is not Apache Spark's answer."""
    assert is_apache_spark(version, answer) is genuine


@pytest.mark.parametrize(("machine", "mib"), [(1, 1024), (8 * GIB, 4096), (512 * GIB, 16384)])
def test_driver_memory_follows_the_machine(machine: int, mib: int) -> None:
    """The driver gets half of the memory, within sensible bounds."""
    assert driver_memory_mib(machine) == mib


def test_the_users_settings_win() -> None:
    """What the user configured replaces the tuning, and Java options are joined."""
    conf = tuned_conf("local[*]", {"spark.driver.memory": "3g", JAVA_OPTIONS: "-Dx=1"}, [])
    assert conf["spark.driver.memory"] == "3g"
    assert conf[JAVA_OPTIONS].endswith("-Dx=1")
    assert "log4j2" in conf[JAVA_OPTIONS]


def test_a_cluster_is_not_bound_to_this_machine() -> None:
    """Executors of a cluster must reach the driver: only local sessions bind to 127.0.0.1."""
    assert "spark.driver.bindAddress" not in tuned_conf("spark://host:7077", {}, [])
    assert tuned_conf("local[2]", {}, [])["spark.driver.bindAddress"] == "127.0.0.1"


def test_connectors_are_added_to_the_users_extensions() -> None:
    """Delta joins the extensions a user has, and does not replace a configured catalog."""
    conf = connector_conf({"spark.sql.extensions": "a.B"}, frozenset({"delta"}))
    assert conf["spark.sql.extensions"] == f"a.B,{EXTENSIONS['delta']}"
    assert conf["spark.sql.catalog.spark_catalog"] == DELTA_CATALOG
    assert connector_conf({}, frozenset()) == {}


def test_a_project_without_a_metastore_gets_one_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Derby below the project's folder; a metastore that is configured stays the only one."""
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    conf = connector_conf({}, frozenset({HIVE}), "/project")
    assert conf["spark.sql.catalogImplementation"] == "hive"
    assert conf["spark.sql.warehouse.dir"] == "/project/warehouse"
    assert "/project/warehouse/_metastore;" in conf[DATABASE]
    uris = {"spark.hadoop.hive.metastore.uris": "thrift://host:9083"}
    assert connector_conf(uris, frozenset({HIVE}), "/project") == {
        **uris,
        "spark.sql.catalogImplementation": "hive",
    }


def test_a_metastore_that_another_process_holds_is_said_in_one_line(tmp_path: Path) -> None:
    """Before a JVM is started: Derby serves one process at a time."""
    conf = {DATABASE: f"jdbc:derby:;databaseName={tmp_path};create=true"}
    refuse_busy_metastore(conf)
    (tmp_path / "dbex.lck").write_bytes(b"")
    refuse_busy_metastore(conf)
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); "
            "print(flush=True); sys.stdin.read()",
            str(tmp_path / "dbex.lck"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    with pytest.raises(TransientError, match="SP-T01"):
        refuse_busy_metastore(conf)
    holder.communicate()
    refuse_busy_metastore(conf)


def test_the_archive_is_used_only_when_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The class archive is named to the JVM when it lies in the cache, and not otherwise."""
    monkeypatch.setenv("SETPOINT_HOME", str(tmp_path))
    assert "SharedArchiveFile" not in tuned_conf("local[*]", {}, [])[JAVA_OPTIONS]
    archive_path().parent.mkdir()
    archive_path().write_bytes(b"")
    assert str(archive_path()) in tuned_conf("local[*]", {}, [])[JAVA_OPTIONS]


def test_a_server_that_restarts_is_no_mistake_of_the_caller() -> None:
    """It is tried again; a wrong address is not, and neither shows the token behind it."""
    secret, hidden = "token=kn0wn", [Secret("token=kn0wn")]
    restarting = _not_started("at sc://h:15002/", RuntimeError(f"UNAVAILABLE ({secret})"), hidden)
    assert isinstance(restarting, TransientError)
    wrong = _not_started("at sc://h:15002/", ValueError(f"bad path {secret}"), hidden)
    assert isinstance(wrong, UsageError)
    assert "kn0wn" not in f"{restarting} {wrong}"


def test_a_condition_is_not_blamed_for_a_lost_connection() -> None:
    """What passes is tried again; what Spark does not understand is a definition."""

    @pipeline(every="day", target=delta("out", partition_by="d"))
    def job(window: Window) -> None: ...

    run = Run(job, Window.parse("2026-04-25", every="day"), {}, {}, "c", {})
    frame: Any = Failing()
    frame.error = ConnectionResetError("reset by peer")
    with pytest.raises(TransientError, match="SP-S04"):
        refuse_unless_condition(frame, "id > 1", run)
    frame.error = ValueError("[PARSE_SYNTAX_ERROR] at 'id'")
    with pytest.raises(RefusedError, match="SP-D09"):
        refuse_unless_condition(frame, "id > 1", run)


class Failing:
    """A frame that fails with an error as soon as it is asked."""

    error: Exception

    def where(self, condition: object) -> None:
        raise self.error


def test_an_interrupt_waits_until_the_session_is_there() -> None:
    """Ctrl-C while Spark starts ends the command afterwards, and is no failure of Spark."""
    reached = []

    def start() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append(True)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as under nohup
        start()
    finally:
        signal.signal(signal.SIGINT, before)
    assert reached == [True, True]


def test_a_jar_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Spark would print a warning and go on without it."""
    with pytest.raises(UsageError, match=r"SP-S03.*none\.jar"):
        refuse_missing_jar(str(tmp_path / "none.jar"))
    assert refuse_missing_jar("s3://bucket/driver.jar")
