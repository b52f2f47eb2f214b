"""Prepares a machine once, for `make setup` or by hand: `python -m setpoint.spark.setup`.

Looks for Java, fetches the connector jars and makes the class archive that shortens the start of
every later session. What cannot be had is said in one line. It is an error only where CI=true:
elsewhere everything that does not need the missing part still works.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from setpoint.errors import SetpointError
from setpoint.model.secret import settings_of
from setpoint.spark.jars import fetch
from setpoint.spark.java import find_java
from setpoint.spark.launch import archive_path
from setpoint.spark.session import Sessions, SparkSettings
from setpoint.spark.submit import JAVA_OPTIONS

CONNECTORS = ("delta", "iceberg")
ARCHIVES_KEPT = 3


def main() -> int:
    """Prepare the machine; the exit code is not 0 only in continuous integration."""
    failures = 0
    try:
        find_java()
    except SetpointError as error:
        print(error, file=sys.stderr)
        return _verdict(1)
    for connector in CONNECTORS:
        try:
            fetch(connector)
        except SetpointError as error:
            print(error, file=sys.stderr)
            failures += 1
    try:
        make_archive()
    except Exception as error:
        # It only saves time: whatever goes wrong here must not stop anybody.
        print(f"No class archive was made, sessions start slower: {error}", file=sys.stderr)
    return _verdict(failures)


def _verdict(failures: int) -> int:
    return 1 if failures and os.environ.get("CI", "").lower() in ("1", "true") else 0


def make_archive() -> Path:
    """Archive the classes that a typical session loads; cheap when it has been made."""
    archive = archive_path()
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    print("Making the class archive for faster Spark starts (once, about half a minute)")
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".make-") as folder:
        fresh = Path(folder) / "fresh.jsa"
        options = f"-XX:ArchiveClassesAtExit={fresh} -Xlog:disable"
        with Sessions(
            SparkSettings(master="local[2]", conf=settings_of({JAVA_OPTIONS: options}))
        ) as sessions:
            _exercise(sessions, Path(folder))
        # The JVM has ended, so the archive is complete; a rename shows it to others whole.
        os.replace(fresh, archive)
    _forget_old(archive.parent)
    return archive


def _exercise(sessions: Sessions, folder: Path) -> None:
    from pyspark.sql import functions as F

    spark = sessions.get()
    frame = spark.range(1000).select(
        (F.col("id") % 10).alias("k"), F.lit("2026-01-01").cast("date").alias("d"), "id"
    )
    frame.write.partitionBy("d").parquet(str(folder / "rows"))
    rows = spark.read.parquet(str(folder / "rows")).where("d = date'2026-01-01'")
    rows.groupBy("k", "d").agg(F.count("*").alias("n"), F.sum("id")).where("n > 1").collect()


def _forget_old(folder: Path) -> None:
    archives = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in archives[ARCHIVES_KEPT:]:
        with contextlib.suppress(OSError):
            path.unlink()


if __name__ == "__main__":
    sys.exit(main())
