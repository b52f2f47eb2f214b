"""Which Hive metastore a session gets: the one that is configured, or one of the project's own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from setpoint.errors import UNCHANGED, UNTOUCHED, TransientError
from setpoint.spark.submit import JAVA_OPTIONS

DATABASE = "spark.hadoop.javax.jdo.option.ConnectionURL"
_DERBY = "jdbc:derby:;databaseName="
_LOCAL = os.path.join("warehouse", "_metastore")
_NAMES = ("hive.metastore.uris", "javax.jdo.option.")


def named_by(conf: Iterable[str]) -> str | None:
    """The setting or the file that says which metastore to use; None when nothing does."""
    for name in conf:
        if name.removeprefix("spark.hadoop.").startswith(_NAMES):
            return name
    folders = (os.environ.get(name) for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR"))
    files = (f"{folder}/hive-site.xml" for folder in folders if folder)
    return next((file for file in files if os.path.isfile(file)), None)


def local_database(root: str) -> str:
    """The metastore of a project's own lies with the tables that it describes."""
    return os.path.join(root, _LOCAL)


def local_metastore(root: str, conf: Mapping[str, str]) -> dict[str, str]:
    """A metastore in the project's folder, for one process at a time."""
    options = f"{conf.get(JAVA_OPTIONS, '')} -Dderby.stream.error.file={os.devnull}"
    return {
        DATABASE: f"{_DERBY}{local_database(root)};create=true",
        # What Derby refuses once it refuses ten times, two seconds apart.
        "spark.hadoop.hive.hmshandler.retry.attempts": "1",
        "spark.sql.warehouse.dir": conf.get(
            "spark.sql.warehouse.dir", os.path.join(root, "warehouse")
        ),
        JAVA_OPTIONS: options.strip(),
    }


def refuse_busy_metastore(conf: Mapping[str, str]) -> None:
    """Derby serves one process; look at its lock before a JVM is started in vain."""
    url = conf.get(DATABASE, "")
    lock = os.path.join(url.removeprefix(_DERBY).split(";")[0], "dbex.lck")
    if not url.startswith(_DERBY) or not os.path.isfile(lock):
        return
    try:
        import fcntl

        with open(lock, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        what = f"metastore of this project ({os.path.dirname(lock)})"
        raise busy(what, UNTOUCHED) from error
    except (OSError, ImportError):
        return  # Derby itself will say what is wrong


def busy(what: str = "local metastore (Derby)", state: str = UNCHANGED) -> TransientError:
    """Another process has the database of a local metastore open."""
    return TransientError(
        "SP-T01",
        f"The {what} is in use by another process.",
        why="Embedded Derby serves one process at a time.",
        state=state,
        next="Run again when that process has ended, or configure a shared metastore: "
        '[spark.conf] "spark.hadoop.hive.metastore.uris" = "thrift://..."',
    )
