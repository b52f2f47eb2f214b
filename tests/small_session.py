"""A Spark session for many small tables, tuned for tests rather than for work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from setpoint.errors import UsageError
from setpoint.spark.jars import fetch, resolve
from setpoint.spark.launch import JAVA_OPTIONS
from setpoint.spark.session import HIVE, Sessions, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def small_session(folder: Path) -> Iterator[SparkSession]:
    """A session with the connectors whose jars are cached, and a metastore below the folder.

    Hive's metastore starts with the first query that asks it something.
    Compiling with C1 only halves the speed of real work and more than doubles that of a suite,
    which is start-up and small queries. Left to itself C1 has 48 MB for compiled code; a long
    suite fills them, and the JVM then throws code away and compiles it again. Queries are
    interpreted: a small one spends most of its time writing the text of generated classes, above
    all for the wide rows of Delta's log. Hadoop's own local file system starts a process for every
    file that it makes, to set its rights: one that does not saves a tenth of the processor time.
    The processes of the demo and of the crash tests do all this as those of users do.
    """
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
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    if local_files := _local_files():
        conf["spark.jars"] = local_files
    connectors = frozenset(name for name in ("delta", "iceberg") if is_cached(name))
    settings = SparkSettings(master="local[2]", conf=conf, root=str(folder))
    with Sessions(settings) as sessions:
        session = sessions.get(connectors | {HIVE})
        if local_files:
            _use_local_files(session)
        yield session


def is_cached(connector: str) -> bool:
    """Whether a connector's jars are in the cache."""
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
