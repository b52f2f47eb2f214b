"""Real sessions: ours, somebody else's, and one behind a Connect server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from setpoint.cli.main import main
from setpoint.errors import UsageError
from setpoint.spark.jars import resolve
from setpoint.spark.launch import JAVA_OPTIONS
from setpoint.spark.session import DELTA_CATALOG, EXTENSIONS, Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def test_the_time_zone_is_utc(spark: SparkSession) -> None:
    """A session that setpoint makes works in UTC, in SQL and inside the JVM."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    row = spark.sql("SELECT CAST(TIMESTAMP'2026-04-25 00:00:00 UTC' AS STRING)").first()
    assert row is not None
    assert row[0] == "2026-04-25 00:00:00"


def test_an_active_session_is_used_and_not_stopped(spark: SparkSession) -> None:
    """Somebody else's session is handed out as it is and survives the end of the context."""
    with Sessions() as sessions:
        assert sessions.get() is spark
        assert not sessions.started
    assert spark.range(3).count() == 3


def test_an_active_session_without_the_connector_is_an_error(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connector that a foreign session lacks gives SP-S03 and leaves the session running."""
    monkeypatch.setitem(EXTENSIONS, "iceberg", "org.example.NotThere")
    with Sessions() as sessions, pytest.raises(UsageError) as caught:
        sessions.get(frozenset({"iceberg"}))
    assert caught.value.code == "SP-S03"
    assert spark.range(3).count() == 3


def test_workers_run_the_drivers_interpreter(spark: SparkSession) -> None:
    """Python functions run in the interpreter that started the session."""
    from pyspark.sql.functions import udf

    interpreter = udf(lambda _: sys.executable)
    row = spark.range(1).select(interpreter("id")).first()
    assert row is not None
    assert row[0] == sys.executable


def run_script(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, with its own JVM."""
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **environment},
    )


def test_a_session_that_does_not_start_says_why(tmp_path: Path) -> None:
    """The cause is Java's; it has to be asked for before its JVM is ended."""
    script = f"""
from setpoint.errors import UsageError
from setpoint.spark.session import Sessions, SparkSettings
conf = {{"spark.eventLog.enabled": "true", "spark.eventLog.dir": "{tmp_path}/none"}}
try:
    Sessions(SparkSettings("local[1]", conf=conf)).get()
except UsageError as error:
    print(error.code, error.why)
"""
    done = run_script(script)
    assert done.stdout.startswith("SP-S01 FileNotFoundException: "), done.stderr
    assert f"{tmp_path}/none does not exist" in done.stdout


@pytest.mark.slow
def test_a_session_starts_restarts_and_stops_without_a_word(has_delta_connector: bool) -> None:
    """Start, restart with a connector and stop print nothing but what the caller prints."""
    connectors = '{"delta"}' if has_delta_connector else "()"
    script = f"""
from setpoint.spark.session import Sessions, SparkSettings
conf = {{"spark.driver.extraJavaOptions": "{FAST}"}}
with Sessions(SparkSettings(conf=conf)) as sessions:
    print(sessions.get().range(5).count())
    print(sessions.get(frozenset({connectors})).range(7).count())
    assert sessions.started
assert not sessions.started
from pyspark.sql import SparkSession
assert SparkSession.getActiveSession() is None
"""
    answer = run_script(script)
    assert (answer.returncode, answer.stderr, answer.stdout) == (0, "", "5\n7\n")


@pytest.mark.soak  # a JVM for a wrong file that the JVM itself ignores
def test_a_broken_class_archive_is_ignored(tmp_path: Path) -> None:
    """A corrupt archive costs time only: the session starts, silently."""
    script = f"""
from setpoint.spark.launch import archive_path
from setpoint.spark.session import Sessions, SparkSettings
archive_path().parent.mkdir(parents=True)
archive_path().write_bytes(b"not an archive" * 1000)
conf = {{"spark.driver.extraJavaOptions": "{FAST}"}}
with Sessions(SparkSettings(conf=conf)) as sessions:
    print(sessions.get().range(5).count())
"""
    answer = run_script(script, SETPOINT_HOME=str(tmp_path))
    assert (answer.returncode, answer.stderr, answer.stdout) == (0, "", "5\n")


def test_missing_jars_are_refused_before_a_jvm_starts(tmp_path: Path) -> None:
    """Asking for a connector whose jars are not cached raises SP-S03 and starts nothing."""
    script = """
import os
from setpoint.errors import UsageError
from setpoint.spark.session import Sessions
try:
    Sessions().get(frozenset({"delta"}))
except UsageError as error:
    print(error.code)
from pyspark import SparkContext
print(SparkContext._gateway)
"""
    answer = run_script(script, SETPOINT_HOME=str(tmp_path))
    assert (answer.returncode, answer.stderr, answer.stdout) == (0, "", "SP-S03\nNone\n")


@pytest.fixture(scope="module")
def connect_port(
    tmp_path_factory: pytest.TempPathFactory, has_delta_connector: bool
) -> Iterator[int]:
    """A Connect server from the pip package, on a port that it chose itself.

    It has the Delta connector, where its jars are cached.
    """
    folder = tmp_path_factory.mktemp("connect")
    spec = util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    log = folder / "log4j2.properties"
    log.write_text(
        "rootLogger.level = error\nrootLogger.appenderRef.c.ref = c\nappender.c.type = Console\n"
        "appender.c.name = c\nappender.c.target = SYSTEM_OUT\nappender.c.layout.type = "
        "PatternLayout\nappender.c.layout.pattern = %m%n\n"
        "logger.s.name = org.apache.spark.sql.connect.service.SparkConnectServer\n"
        "logger.s.level = info\n"
    )
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": f"{FAST} -Dlog4j2.configurationFile={log.as_uri()}",
    }
    if has_delta_connector:
        conf["spark.jars"] = ",".join(map(str, resolve("delta")))
        conf["spark.sql.extensions"] = EXTENSIONS["delta"]
        conf["spark.sql.catalog.spark_catalog"] = DELTA_CATALOG
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
    command += [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    server = subprocess.Popen(
        [*command, "spark-internal"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    try:
        yield announced_port(server)
    finally:
        server.terminate()
        server.wait(60)


def announced_port(server: subprocess.Popen[str]) -> int:
    """The port a starting server announces in its log."""
    found: Queue[int | str] = Queue()

    def read() -> None:
        said = ""
        for line in server.stdout or ():
            said += line
            if match := re.search(r"Spark Connect server started at: \S+?:(\d+)\s*$", line):
                found.put(int(match[1]))
        found.put(said)

    Thread(target=read, daemon=True).start()
    answer = found.get(timeout=120)
    assert isinstance(answer, int), answer
    return answer


@pytest.mark.slow
def test_a_connect_address_gives_a_checked_session(connect_port: int) -> None:
    """Through sc:// the session is Apache Spark's, in UTC, and lacks what the server lacks.

    Windows are united and guarded there as elsewhere.
    """
    script = """
from setpoint.errors import UsageError
from setpoint.model.window import Window
from setpoint.spark.failures import explain
from setpoint.spark.session import Sessions, SparkSettings
from setpoint.spark.union import united
with Sessions(SparkSettings(remote=REMOTE)) as sessions:
    spark = sessions.get()
    print(type(spark).__module__, spark.conf.get("spark.sql.session.timeZone"))
    print(spark.range(5).count(), sessions.get() is spark)
    days = {n: Window.parse(f"2026-04-0{n}") for n in (1, 2)}
    def rows(n, end):
        return days[n], spark.range(n, end).selectExpr("date_add(DATE'2026-03-31', int(id)) AS d")
    for end in (2, 3):
        try:
            print(united([rows(1, end), rows(2, 3)], lambda day, _: f"d = DATE'{day.id}'").count())
        except Exception as error:
            print(explain(error, "counting").code)
    other = Sessions()
    print(other.get() is spark, other.started)
    other.close()
    print(spark.range(6).count())
    try:
        sessions.get(frozenset({"iceberg"}))
    except UsageError as error:
        print(error.code)
"""
    answer = run_script(f"REMOTE = 'sc://127.0.0.1:{connect_port}'\n{script}")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines() == [
        "pyspark.sql.connect.session UTC",
        "5 True",
        "2",
        "SP-O02",
        "True False",
        "6",
        "SP-S03",
    ]


@pytest.mark.slow
def test_a_pipeline_runs_through_connect(connect_port: int, project_dir: Path) -> None:
    """A window is staged, audited and published through sc://, and a refusal shows its row."""
    main(["init"])
    run_script(Path("make_sample.py").read_text())
    pipeline = Path("pipelines/daily_customer_summary.py")
    text = pipeline.read_text()
    audits = 'not_null("total"), sql("total > 0"), sql("select * from staged where total < 0")'
    text = text.replace('not_null("total")', audits)
    text = text.replace("source, unique", "source, sql, unique")
    pipeline.write_text(text)
    config = Path("setpoint.toml")
    config.write_text(
        config.read_text().replace("[spark]", f'[spark]\nremote = "sc://127.0.0.1:{connect_port}"')
    )
    runs = "import sys\nfrom setpoint.cli.main import main\nsys.exit(main({}))"
    words = ["run", "daily_customer_summary", "--window", "2026-04-25", "--json"]
    first = run_script(runs.format(words))
    assert first.returncode == 0, first.stdout + first.stderr
    published = json.loads(first.stdout)["data"]["windows"][0]
    assert (published["state"], published["rows"]) == ("published", 97)
    table = DeltaTable("warehouse/daily_customer_summary")
    assert sum(table.get_add_actions(flatten=True)["num_records"].to_pylist()) == 97
    again = json.loads(run_script(runs.format(words)).stdout)["data"]["windows"][0]
    assert again["state"] == "unchanged"
    pipeline.write_text(text.replace("window.date)", "F.date_add(window.date, 1))"))
    strayed = run_script(runs.format(words))
    assert strayed.returncode == 1
    error = json.loads(strayed.stdout)["error"]
    assert error["code"] == "SP-O02"
    assert "2026-04-26" in error["what"]
    assert DeltaTable("warehouse/daily_customer_summary").version() == 0


@pytest.mark.slow
def test_a_database_is_read_through_connect(connect_port: int, project_dir: Path, db: Any) -> None:
    """The server's workers enter the client's snapshot; check and keys read the same way."""
    db.all("CREATE TABLE orders (id int, amount numeric(12,2), d date)")
    db.all(
        "INSERT INTO orders SELECT n, n, '2026-04-25'::date + n % 2 FROM generate_series(1, 9) n"
    )
    Path("setpoint.toml").write_text(
        f'[spark]\nremote = "sc://127.0.0.1:{connect_port}"\n[connections]\ntest = "{db.url}"\n'
    )
    script = """
from pathlib import Path
from setpoint import Window, delta, pipeline, postgres, source
from setpoint.project.config import find_config
from setpoint.project.wiring import Project
orders, window = postgres("orders", connection="test"), Window.parse("2026-04-25")
@pipeline(every="day", target=delta("out", partition_by="d"))
def job(window, rows=source(orders, time="d", partitions=2)):
    return rows
with Project(find_config(Path.cwd())) as project:
    spark = project.sessions.get()
    rows = project.bind(job).sources["rows"]
    frame = rows.read(spark, window, rows.pin([window])[window])
    print(frame.count())
    rows.release(window)
    print(project.adapters.existing("orders", orders).read(spark).count())
"""
    answer = run_script(script)
    assert (answer.returncode, answer.stdout) == (0, "4\n9\n"), answer.stderr


@pytest.mark.slow
def test_a_merge_goes_through_connect(
    connect_port: int, project_dir: Path, db: Any, has_delta_connector: bool
) -> None:
    """To Delta, where so small a table is written anew without MERGE, and to PostgreSQL."""
    if not has_delta_connector:
        pytest.skip("the Delta connector is not cached")
    Path("setpoint.toml").write_text(
        f'[spark]\nremote = "sc://127.0.0.1:{connect_port}"\n[connections]\ntest = "{db.url}"\n'
    )
    script = """
from pathlib import Path
from setpoint import Merge, delta, postgres, publish
from setpoint.project.config import find_config
from setpoint.project.wiring import Project
with Project(find_config(Path.cwd())) as project:
    spark = project.sessions.get()
    for target in (delta("out"), postgres("out", connection="test")):
        for day, first, seq in ((25, 0, 1), (26, 2, 2), (26, 2, 2)):
            text = "repeat('x', 20000) AS v"
            rows = spark.range(first, first + 3).selectExpr("id", text, f"{seq}L AS seq")
            write = Merge(key="id", sequence_by="seq")
            print(publish(rows, target=target, window=f"2026-04-{day}", write=write).state)
"""
    answer = run_script(script)
    assert answer.stdout.split() == ["published", "published", "unchanged"] * 2, answer.stderr
    expected = [(0, 20_000, 1), (1, 20_000, 1), (2, 20_000, 2), (3, 20_000, 2), (4, 20_000, 2)]
    operations = {commit["operation"] for commit in DeltaTable("out").history()}
    assert "MERGE" not in operations
    rows = DeltaTable("out").to_pyarrow_table().to_pylist()
    assert sorted((row["id"], len(row["v"]), row["seq"]) for row in rows) == expected
    assert db.all("SELECT id, length(v), seq FROM out ORDER BY id") == expected


@pytest.mark.slow
def test_a_jvm_that_is_killed_is_replaced_by_the_retry(project_dir: Path) -> None:
    """A task kills the JVM while rows are staged: the next try has a new one and publishes."""
    conf = f'[retry]\nfirst_wait = 0.01\n[spark.conf]\n"{JAVA_OPTIONS}" = "{FAST}"\n'
    (project_dir / "setpoint.toml").write_text(conf)
    script = """
import os, signal
from pathlib import Path
from pyspark import SparkContext
from pyspark.sql import SparkSession
from setpoint import delta, pipeline, run

@pipeline(
    every="day",
    target=delta("out", partition_by="d"),
    allow={"udf": "it dies once, and gives its rows as they are"},
)
def daily(window):
    jvm, flag = SparkContext._gateway.proc.pid, Path("killed").absolute()

    def kill_once(batches):
        if not flag.exists():
            flag.touch()
            os.kill(jvm, signal.SIGKILL)
        yield from batches

    rows = SparkSession.getActiveSession().sql(f"SELECT 1 AS id, DATE'{window.id}' AS d")
    return rows.mapInArrow(kill_once, rows.schema)

outcome = run(daily, "2026-04-25")
print(outcome.state, outcome.tries)
"""
    answer = run_script(script)
    assert answer.stdout == "published 2\n", answer.stderr
    assert DeltaTable(str(project_dir / "out")).to_pyarrow_table().num_rows == 1
