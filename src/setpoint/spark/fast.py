"""A session for tests: it starts fast, and is for many small queries."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from setpoint.errors import UsageError
from setpoint.model.secret import settings_of
from setpoint.spark.classes import SESSION, java_class
from setpoint.spark.jars import resolve
from setpoint.spark.session import EXTENSIONS, HIVE, Sessions, SparkSettings, active_session
from setpoint.spark.submit import JAVA_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Says that nobody minds tables in the metastore of a session.
SCRATCH = "spark.setpoint.scratch"


@contextmanager
def fast_session() -> Iterator[SparkSession]:
    """The session that is there, or a local one that lives as long as the block.

    It has the connectors whose jars are cached, and a metastore that is thrown away. Compiling
    with C1 only halves the speed of real work and more than doubles that of tests, which are
    start-up and small queries; these are interpreted, because writing the code of generated
    classes would take most of their time.
    """
    if (active := active_session()) is not None:
        yield active
        return
    with tempfile.TemporaryDirectory(prefix="setpoint-", ignore_cleanup_errors=True) as folder:
        conf = {
            SCRATCH: "true",
            JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m "
            "-XX:+UseSerialGC -Xmn512m",
            "spark.driver.memory": "1500m",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.adaptive.enabled": "false",
            "spark.shuffle.compress": "false",
            "spark.broadcast.compress": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.codegen.wholeStage": "false",
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
            "spark.sql.warehouse.dir": os.path.join(folder, "warehouse"),
        }
        settings = SparkSettings(master="local[2]", conf=settings_of(conf), root=folder)
        with Sessions(settings) as sessions:
            yield sessions.get(_cached() | {HIVE})


def is_scratch(session: SparkSession) -> bool:
    """Whether the metastore of a session is there to be thrown away."""
    return session.conf.get(SCRATCH, "") == "true"


@contextmanager
def as_active(session: SparkSession) -> Iterator[SparkSession]:
    """A session as the active one of this thread, for the length of a block."""
    before = active_session()
    java = getattr(session, "_jsparkSession", None)
    if before is None or before is session or java is None:
        yield session
        return
    sessions = java_class(session, SESSION)
    sessions.setActiveSession(java)
    try:
        yield session
    finally:
        old = getattr(before, "_jsparkSession", None)
        if old is not None:
            sessions.setActiveSession(old)


def _cached() -> frozenset[str]:
    """The connectors whose jars are there; a session for tests fetches nothing."""
    found = set()
    for name in EXTENSIONS:
        try:
            resolve(name)
        except UsageError:
            continue
        found.add(name)
    return frozenset(found)
