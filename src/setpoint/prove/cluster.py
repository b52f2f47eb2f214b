"""A small cluster of one's own: Spark runs a task twice at once on two machines only.

Two workers on this machine that go by different addresses are two machines to Spark. They are
started by the scripts that PySpark brings, and end with the block.
"""

from __future__ import annotations

import importlib.util
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from setpoint.errors import PermanentError
from setpoint.prove.processes import KEEP, Process, own_environment, start

MEMORY = "1g"
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master")
# Each answers on an address of its own; all of 127.0.0.0/8 is this machine.
_WORKERS = ("127.0.0.1", "127.0.0.2")
_PATIENCE = 120.0
_STEP = 0.1


@contextmanager
def cluster(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The address of a master with two workers, one core each."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log4j2.properties"
    log.write_text(_LOG)
    around = {
        **own_environment(environment),
        "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={log.as_uri()} "
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_NO_DAEMONIZE": "1",
    }
    for name in ("SPARK_LOCAL_IP", "SPARK_MASTER_HOST", "SPARK_PUBLIC_DNS", "SPARK_CONF_DIR"):
        around.pop(name, None)
    with ExitStack() as stack:
        master = stack.enter_context(
            _daemon(
                "master",
                ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"],
                around,
                folder,
            )
        )
        address = _told(master, folder / "master-1.err", _MASTER)
        for number, host in enumerate(_WORKERS, start=1):
            words = ["--host", host, "--webui-port", "0", "--cores", "1", "--memory", MEMORY]
            words += ["--work-dir", str(folder / "work"), address]
            worker = stack.enter_context(_daemon("worker", words, around, folder))
            _told(worker, folder / f"worker-{number}.err", _REGISTERED)
        yield address


def _daemon(what: str, words: list[str], around: Mapping[str, str], folder: Path) -> Process:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = os.environ.get("SPARK_HOME") or str(Path(spec.origin).parent)
    program = str(Path(home, "bin", "spark-class"))
    name = f"org.apache.spark.deploy.{what}.{what.capitalize()}"
    return start([program, name, *words], around, folder, folder, what)


def _told(process: Process, log: Path, words: re.Pattern[str]) -> str:
    """Wait until a daemon says something, and give what it said."""
    for _ in range(int(_PATIENCE / _STEP)):
        if found := words.search(log.read_text(errors="replace")):
            return found[found.lastindex or 0]
        if not process.running:
            break
        time.sleep(_STEP)
    ended = process.kill()
    raise PermanentError(
        "SP-V13",
        "A cluster of two workers could not be started on this machine.",
        why=ended.told(),
        state="Only the sandbox was written to.",
        next=KEEP,
    )


_LOG = """
rootLogger.level = warn
rootLogger.appenderRef.err.ref = err
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
