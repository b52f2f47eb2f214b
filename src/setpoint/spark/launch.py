"""Starts and ends the JVM of a local driver: quiet, tuned, with a class archive if there is one."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from setpoint.edge import home_dir
from setpoint.errors import UNTOUCHED, UsageError
from setpoint.model.secret import Secret, scrubbed
from setpoint.spark.classes import know_short_names
from setpoint.spark.jars import spark_version
from setpoint.spark.java import find_java, java_command
from setpoint.spark.submit import JAVA_OPTIONS, submit_arguments

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")

# The JVM itself says this about a module that Spark asks for, and no option silences it.
_NOISE = re.compile(rb"^(WARNING: )?Using incubator modules: |^WARNING: package sun\.\S+ not in ")


def tuned_conf(master: str, conf: Mapping[str, str], jars: Iterable[str]) -> dict[str, str]:
    """The configuration of a session that setpoint makes; what the user configured wins."""
    tuned = {
        "spark.app.name": "setpoint",
        "spark.master": master,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # An Arrow conversion that would overflow or truncate fails instead of changing values.
        "spark.sql.execution.pandas.convertToArrowArraySafely": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):
        tuned |= {
            "spark.driver.host": "127.0.0.1",
            # Chunks of a backfill that run at once share the cores, each in a pool of its own.
            "spark.scheduler.mode": "FAIR",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": f"{driver_memory_mib(machine_memory())}m",
            "spark.sql.shuffle.partitions": str(min(max(2 * (os.cpu_count() or 2), 4), 64)),
            # A task for each folder of a table, by default: they would outnumber the cores.
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(os.cpu_count() or 2),
            # Delta replays a table's log in 50 partitions by default: a cluster's number.
            "spark.databricks.delta.snapshotPartitions": str(os.cpu_count() or 2),
        }
    tuned |= conf
    listed = [jar for jar in tuned.get("spark.jars", "").split(",") if jar]
    if all_jars := listed + [jar for jar in jars if jar not in listed]:
        tuned["spark.jars"] = ",".join(all_jars)
    tuned[JAVA_OPTIONS] = _java_options(conf.get(JAVA_OPTIONS, ""))
    return tuned


def driver_memory_mib(machine_bytes: int) -> int:
    """Half of the machine for the driver, at least 1 GiB and at most 16 GiB."""
    return min(max(machine_bytes // 2 // 2**20, 1024), 16 * 1024)


def machine_memory() -> int:
    """Bytes of memory this process may use: the machine's, or its control group's if less."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 * 2**30
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


def archive_path() -> Path:
    """Where the class archive of this Java and this PySpark lies, if it has been made."""
    command = java_command()
    spec = importlib.util.find_spec("pyspark")
    parts = [spark_version(), str(spec.origin if spec else "")]
    if command is not None and command.exists():
        real = command.resolve()
        parts += [str(real), str(real.stat().st_mtime_ns)]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return home_dir() / "archive" / f"{key}.jsa"


def _java_options(configured: str) -> str:
    options = [
        f"-Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()}",
        "-Duser.timezone=UTC",
    ]
    if "-XX:SharedArchiveFile" not in configured and "ArchiveClassesAtExit" not in configured:
        archive = archive_path()
        if archive.is_file():
            # auto: an archive that does not fit is ignored, and -Xlog keeps the JVM from
            # complaining about it on the terminal.
            options += [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable"]
    return " ".join([*options, configured]).strip()


def start_jvm(conf: Mapping[str, str], secrets: Sequence[Secret] = ()) -> None:
    """Start the driver's JVM and hand it to PySpark; its error stream passes through a filter."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if not jvm_runs():
        stop_jvm()
    if java_command() is None:
        find_java()
    if conf["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    reading, writing = os.pipe()
    said: list[bytes] = []
    # A thread that lives as long as the JVM writes: daemon, so that it never holds up the exit.
    listening = (os.fdopen(reading, "rb"), said, secrets)
    threading.Thread(target=_pass_on, args=listening, daemon=True).start()
    try:
        with submit_arguments(conf):
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                popen_kwargs={"stderr": writing}
            )
    except Exception as error:
        find_java()  # says so when Java is missing or too old
        raise UsageError(
            "SP-S01",
            "The Java process of Spark did not start.",
            why=b" ".join(said[-3:]).decode(errors="replace").strip() or str(error),
            state=UNTOUCHED,
            next="See: setpoint doctor",
        ) from error
    finally:
        os.close(writing)
    SparkContext._ensure_initialized(gateway=gateway)
    know_short_names(gateway)


def jvm_runs() -> bool:
    """Whether the JVM that PySpark holds on to still runs, as far as that can be told."""
    from pyspark import SparkContext

    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return process is None or process.poll() is None


def stop_jvm(*, wait_seconds: float = 30) -> None:
    """End the JVM that `start_jvm` started, so that the next session gets a fresh class path."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return  # none runs, or somebody else started it
    if process.poll() is not None and (context := SparkContext._active_spark_context) is not None:
        # It was killed. PySpark would go on calling it, and a farewell would reach nobody.
        context._jsc = None
        context.stop()
    SparkContext._gateway = None
    SparkContext._jvm = None
    _stop_clean_up(gateway)
    # The end of its input is the JVM's sign to exit. It must come before the gateway is closed:
    # the other way round the JVM stays.
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(wait_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    gateway.close()


def _stop_clean_up(gateway: JavaGateway) -> None:
    # Py4J tells the JVM about every Java object that Python drops, from a thread of its own. If
    # one of these messages meets a JVM that is going, Py4J prints a stack trace.
    from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER, FinalizerWorker

    client = gateway._gateway_client
    client.is_connected = False
    if not hasattr(client, "finalizer_deque"):
        return  # the older gateway has no such thread
    client.finalizer_deque.clear()
    client.finalizer_deque.appendleft(SHUTDOWN_FINALIZER_WORKER)
    for thread in threading.enumerate():
        if isinstance(thread, FinalizerWorker) and thread.deque is client.finalizer_deque:
            # It sends a message, which takes a moment, or sleeps for a second and then ends.
            thread.join(0.05)


def _pass_on(stream: IO[bytes], said: list[bytes], secrets: Sequence[Secret]) -> None:
    with stream:
        for line in stream:
            if _NOISE.search(line):
                continue
            line = scrubbed(line.decode(errors="replace"), secrets).encode()
            if len(said) < 50:
                said.append(line)
            try:
                sys.stderr.write(line.decode(errors="replace"))
                sys.stderr.flush()
            except (OSError, ValueError):
                return  # nobody listens any more
