"""Measures what a session costs from the start of Python to its first result.

Every variant runs in a process of its own; the variants take turns, so that a busy machine
slows all of them alike. The table shows medians as ratios to the plain session.

    python bench/startup.py [rounds]
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from setpoint.spark.jars import cache_dir
from setpoint.spark.setup import make_archive

SESSION = """
import sys
from setpoint.spark.session import Sessions, SparkSettings
conf = {"spark.driver.extraJavaOptions": sys.argv[1]} if sys.argv[1] else {}
with Sessions(SparkSettings(conf=conf)) as sessions:
    spark = sessions.get(frozenset(sys.argv[2].split()))
    spark.range(100000).selectExpr("id % 10 AS k").groupBy("k").count().collect()
"""
C1 = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# name: with the class archive, Java options, connectors
VARIANTS = {
    "plain": (False, "", ""),
    "class archive": (True, "", ""),
    "class archive, C1, SerialGC": (True, C1, ""),
    "plain, Delta connector": (False, "", "delta"),
    "class archive, Delta connector": (True, "", "delta"),
}


def measure(archive: bool, options: str, connectors: str) -> tuple[float, float]:
    """Seconds by the clock and of processor time, of one start to its first result and end."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if not archive:
            # A cache with the same jars and no archive: the JDK's own archive stays in use.
            (Path(folder) / "jars").symlink_to(cache_dir())
            environment["SETPOINT_HOME"] = folder
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", SESSION, options, connectors], check=True, env=environment
        )
        elapsed = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Run the rounds and print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    make_archive()
    for name in ("plain", "class archive"):
        measure(*VARIANTS[name])  # fills the page cache, not counted
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in VARIANTS}
    for _ in range(rounds):
        for name, variant in VARIANTS.items():
            seen[name].append(measure(*variant))
    medians = {
        name: tuple(statistics.median(column) for column in zip(*runs, strict=True))
        for name, runs in seen.items()
    }
    plain = medians["plain"]
    print("| session | time | processor time |\n|---|---|---|")
    for name, values in medians.items():
        ratios = [f"{value / base:.2f}" for value, base in zip(values, plain, strict=True)]
        print(f"| {name} | {ratios[0]} | {ratios[1]} |")
    print(f"\nplain = {plain[0]:.1f} s, {plain[1]:.1f} s of processor time, {rounds} rounds")


if __name__ == "__main__":
    main()
