"""Processes that run windows on order, each of which may be killed or stopped at any moment.

`python -m histories.writer SOCKET` is a process that has imported everything and forks a writer
for each line that it reads. A writer shares the JVM of the process that plays the history: it
connects to its gateway as a second driver program would, in a session of its own. So a writer is
ready in a fraction of a second, and what dies with it is all of setpoint; a Spark job that it had
under way goes on in the JVM, as it does on a cluster.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from histories.jobs import Bench, Definition
from setpoint.errors import SetpointError
from setpoint.spark.session import own_session

# What a run imports when it first needs it.
AHEAD = (
    "adbc_driver_postgresql.dbapi",
    "deltalake",
    "psycopg",
    "pyarrow.parquet",
    "pyiceberg.catalog.sql",
    "pyspark.sql",
    "setpoint.spark.stage",
    "setpoint.targets.delta.publisher",
    "setpoint.targets.iceberg.publisher",
    "setpoint.targets.parquet.publisher",
    "setpoint.targets.postgres.publish",
)


def attach(port: str, secret: str) -> None:
    """Make the session of the other process's JVM, or rather one beside it, this process's own."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ.update(PYSPARK_GATEWAY_PORT=port, PYSPARK_GATEWAY_SECRET=secret)
    gateway = launch_gateway()
    del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    SparkContext._ensure_initialized(gateway=gateway)
    running = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    java = gateway.jvm.org.apache.spark.api.java.JavaSparkContext(running)
    context = SparkContext(conf=SparkConf(_jconf=java.getConf()), gateway=gateway, jsc=java)
    own = own_session(SparkSession(context))
    SparkSession._instantiatedSession = own
    gateway.jvm.SparkSession.setActiveSession(own._jsparkSession)


def serve(channel: socket.socket) -> None:
    lines = channel.makefile("r")

    def say(**answer: Any) -> None:
        channel.sendall((json.dumps(answer) + "\n").encode())

    say(pid=os.getpid())
    gateway = json.loads(lines.readline())
    attach(gateway["port"], gateway["secret"])
    say(ready=True)
    for line in iter(lines.readline, ""):
        order = json.loads(line)
        os.chdir(order["root"])
        bench = Bench(Path(order["root"]), order["connections"])
        try:
            outcome = bench.run(
                Definition(**order["definition"]),
                dt.date.fromisoformat(order["day"]),
                force=order["force"],
                tell=lambda message: say(at=message.split("  ")[1]),
            )
            say(state=outcome.state, reason=outcome.reason)
        except SetpointError as error:
            say(state="failed", code=error.code, reason=str(error))
        except Exception as error:
            say(state="broken", code=type(error).__name__, reason=repr(error))
        bench.close()


def main() -> None:
    for name in AHEAD:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in iter(sys.stdin.readline, ""):
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sys.stdin.close()
            with socket.socket(socket.AF_UNIX) as channel:
                channel.connect(sys.argv[1])
                serve(channel)
            os._exit(0)


if __name__ == "__main__":
    main()
