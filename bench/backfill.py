"""What a backfill costs, against hand-written jobs, measured in one run.

Orders of many days are summed by customer and day. By hand: one Spark job over the whole range
that overwrites partitions dynamically (the bound: nobody can be much faster), and a loop with one
job per day in one session. Through setpoint: `setpoint backfill`, and the same once more with
nothing changed. Every measurement is a process of its own, so that its start-up counts.

    python bench/backfill.py [--orders 20000] [--rounds 3] [--long 3650] [--json]
                             [--dbt PYTHON] [--sqlmesh PYTHON]

With the Python of an environment that has dbt-spark[session], or SQLMesh and PySpark, the same
range goes through that tool too, twice.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from rivals import TOOLS, Rival, Unusable, rival, surroundings

FIRST = date(2015, 1, 1)
CUSTOMERS = 10_000
SETTINGS = '[pipelines]\npaths = ["pipelines.py"]\n'
PIPELINE = """
from pyspark.sql import DataFrame, functions as F
from setpoint import Window, delta, pipeline, source

@pipeline(every="day", target=delta("summary", partition_by="order_date"), spans={spans})
def daily_customer_orders(
    window: Window, orders: DataFrame = source(delta("orders"), time="order_date")
) -> DataFrame:
    return orders.groupBy("customer_id", "order_date").agg(
        F.count("*").alias("orders"), F.sum("amount").alias("amount")
    )
"""
HAND = """
import sys
from pyspark.sql import SparkSession, functions as F

way, first, days = sys.argv[1], sys.argv[2], int(sys.argv[3])
spark = (
    SparkSession.builder.master("local[*]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.sources.partitionOverwriteMode", "dynamic")
    .getOrCreate()
)
orders = spark.read.parquet("orders")

def write(start, number):
    start = F.lit(start).cast("date")
    day = F.col("order_date")
    chosen = orders.where((day >= start) & (day < F.date_add(start, number)))
    summary = chosen.groupBy("customer_id", "order_date").agg(
        F.count("*").alias("orders"), F.sum("amount").alias("amount")
    )
    summary.write.mode("overwrite").partitionBy("order_date").parquet("by_hand_" + way)

if way == "once":
    write(first, days)
else:
    from datetime import date, timedelta
    for n in range(days):
        write((date.fromisoformat(first) + timedelta(n)).isoformat(), 1)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--orders", type=int, default=20_000, help="orders of one day")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", type=int, default=3650, help="windows of the long one; 0: none")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    for tool in TOOLS:
        parser.add_argument(f"--{tool.name}", metavar="PYTHON", help=f"measure {tool.name} too")
    options = parser.parse_args()
    try:
        rivals = [rival(tool, python) for tool in TOOLS if (python := getattr(options, tool.name))]
    except Unusable as reason:
        print(reason, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="setpoint-bench-") as folder:
        figures = measured(Path(folder), options.orders, options.rounds, options.long, rivals)
    if options.json:
        print(json.dumps(figures))
    else:
        report(figures)
    return 0


def measured(
    folder: Path, orders: int, rounds: int, long: int, rivals: list[Rival]
) -> dict[str, Any]:
    project = make_project(folder, orders, 365)
    for one in rivals:
        one.make_project(folder, project / "orders", FIRST)
    seconds: dict[str, list[float]] = {}
    memory: dict[int, float] = {}

    def note(name: str, *command: str, by: Rival | None = None) -> None:
        place, env = (folder / by.name, surroundings()) if by else (project, None)
        taken, peak = timed(place, *command, env=env)
        seconds.setdefault(name, []).append(taken)
        if name.startswith("setpoint_"):
            memory[int(name.rsplit("_", 1)[1])] = peak

    for number in range(rounds):
        for days in (30, 365):
            ways: dict[str, tuple[tuple[str, ...], Rival | None]] = {
                f"bound_{days}": (by_hand("once", days), None),
                f"setpoint_{days}": (ours(days), None),
                **{f"{one.name}_{days}": (one.command(FIRST, days), one) for one in rivals},
            }
            # They take turns in going first: the first finds other caches than the second.
            forget(project)
            for one in rivals:
                one.forget(folder)
            for name in sorted(ways, reverse=bool(number % 2)):
                command, by = ways[name]
                note(name, *command, by=by)
            for place in (project / "by_hand_once", *(one.table(folder) for one in rivals)):
                check(project, place, days)
        note("unchanged_365", *ours(365))
        for one in rivals:
            note(f"{one.name}_unchanged_365", *one.command(FIRST, 365), by=one)
            check(project, one.table(folder), 365)
    forget(project)
    note("loop_365", *by_hand("loop", 365))
    if long:
        # A source of its own: who reads folders would list ten years of them for each figure above.
        shutil.rmtree(project)
        make_project(folder, orders, long)
        note(f"setpoint_{long}", *ours(long))
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    figures = {
        "bound_30_seconds": round(middle["bound_30"], 2),
        "bound_365_seconds": round(middle["bound_365"], 2),
        "bound_30": round(middle["setpoint_30"] / middle["bound_30"], 3),
        "bound_365": round(middle["setpoint_365"] / middle["bound_365"], 3),
        "loop_365": round(middle["loop_365"] / middle["setpoint_365"], 2),
        "unchanged_365": round(middle["unchanged_365"] / middle["bound_365"], 4),
        "orders": orders,
        "rounds": rounds,
    }
    for one in rivals:
        figures[f"{one.name}_versions"] = one.versions
        for what, us in (
            ("30", "setpoint_30"),
            ("365", "setpoint_365"),
            ("unchanged_365", "unchanged_365"),
        ):
            figures[f"{one.name}_{what}"] = round(middle[f"{one.name}_{what}"] / middle[us], 2)
    if long:
        grown = (middle[f"setpoint_{long}"] / long) / (middle["setpoint_365"] / 365)
        figures[f"per_window_{long}_over_365"] = round(grown, 3)
        figures[f"memory_{long}_over_365"] = round(memory[long] / memory[365], 3)
    return figures


def make_project(folder: Path, orders: int, days: int) -> Path:
    """A project whose source holds some days of orders, as one Delta table."""
    from pyspark.sql import functions as F

    from setpoint.spark.session import Sessions

    project = folder / "project"
    project.mkdir()
    (project / "setpoint.toml").write_text(SETTINGS)
    (project / "pipelines.py").write_text(PIPELINE.format(spans=True))
    (project / "by_hand.py").write_text(HAND)
    with Sessions() as sessions:
        spark = sessions.get()
        number = F.col("id")
        spark.range(0, orders * days, 1, 8).select(
            number.alias("order_id"),
            F.pmod(F.xxhash64("id"), F.lit(CUSTOMERS)).alias("customer_id"),
            (F.pmod(F.xxhash64("id", F.lit(1)), F.lit(500_000)) / 100)
            .cast("decimal(10,2)")
            .alias("amount"),
            F.concat(F.lit("R-"), F.hex(F.xxhash64("id"))).alias("reference"),
            F.date_add(F.lit(FIRST), (number / orders).cast("int")).alias("order_date"),
        ).write.partitionBy("order_date").option(
            "mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"
        ).parquet(str(project / "orders"))
    from deltalake import Field, Schema, convert_to_deltalake

    convert_to_deltalake(
        str(project / "orders"),
        partition_by=Schema([Field("order_date", "date")]),
        partition_strategy="hive",
    )
    return project


def by_hand(way: str, days: int) -> tuple[str, ...]:
    return sys.executable, "by_hand.py", way, FIRST.isoformat(), str(days)


def ours(days: int) -> tuple[str, ...]:
    last = FIRST + timedelta(days - 1)
    return (
        *(sys.executable, "-m", "setpoint", "backfill", "daily_customer_orders"),
        *("--from", FIRST.isoformat(), "--to", last.isoformat(), "--json"),
    )


def forget(project: Path) -> None:
    """Remove everything that was written."""
    for name in ("summary", "by_hand_once", "by_hand_loop", ".setpoint"):
        shutil.rmtree(project / name, ignore_errors=True)


def timed(project: Path, *command: str, env: dict[str, str] | None = None) -> tuple[float, float]:
    """Seconds of a process, and the most memory in MiB that it and its JVM had at once."""
    started = time.monotonic()
    errors = project / "errors.txt"
    with errors.open("w") as stderr:
        process = subprocess.Popen(command, cwd=project, env=env, stdout=stderr, stderr=stderr)
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, memory_of(process.pid))
            time.sleep(0.05)
    taken = time.monotonic() - started
    if process.returncode:
        raise SystemExit(
            f"{' '.join(command)} ended with {process.returncode}:\n{errors.read_text()}"
        )
    return taken, peak


def memory_of(pid: int) -> float:
    """MiB that a process and its children have, as Linux tells it."""
    total, todo = 0.0, [pid]
    while todo:
        one = todo.pop()
        try:
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1])
            todo += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except (OSError, ValueError):
            continue
    return total * resource.getpagesize() / 2**20


def check(project: Path, other: Path, days: int) -> None:
    """Another way must have given the same rows, orders and sums for every day."""
    import pyarrow.dataset as ds
    from deltalake import DeltaTable

    theirs = by_day(ds.dataset(other, partitioning="hive").to_table())
    ours = by_day(DeltaTable(project / "summary").to_pyarrow_dataset().to_table())
    if len(ours) != days or ours != theirs:
        differing = [day for day in {*ours, *theirs} if ours.get(day) != theirs.get(day)]
        raise SystemExit(
            f"{len(ours)} days through setpoint; {sorted(differing)[:5]} differ in {other}"
        )


def by_day(table: Any) -> dict[str, tuple[Any, ...]]:
    """For every day the number of rows, and the sums of what they hold."""
    figures = ("customer_id", "orders", "amount")
    wanted = [("customer_id", "count"), *((name, "sum") for name in figures)]
    days = table.group_by("order_date").aggregate(wanted).to_pylist()
    return {
        str(day["order_date"]): (day["customer_id_count"], *(day[f"{n}_sum"] for n in figures))
        for day in days
    }


def report(figures: dict[str, Any]) -> None:
    print(
        f"one job by hand: {figures['bound_30_seconds']} s for 30 days, "
        f"{figures['bound_365_seconds']} s for 365"
    )
    for name, value in figures.items():
        print(f"  {name:28} {value}")


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    sys.exit(main())
