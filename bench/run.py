"""What setpoint costs, against a hand-written job, measured in one run.

A daily job (orders, a lookup of customers, a few derived columns) writes one window, the ways
interleaved in one Spark session: by hand as plain Parquet with no audits and no publish, through
setpoint with row-level audits, and with a unique audit on top. A plain copy of the orders shows
the worst case. Then the start-up costs that need no Spark.

    python bench/run.py [--rows 5000000] [--rounds 5] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

DAY = "2026-04-25"
WINDOWS = 365


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="setpoint-bench-") as folder:
        figures = {
            **writes(Path(folder), options.rows, options.rounds),
            "unchanged_365_seconds": unchanged(Path(folder) / "unchanged"),
            "help": ratio_of_help(),
            "rows": options.rows,
            "rounds": options.rounds,
        }
    if options.json:
        print(json.dumps(figures))
    else:
        report(figures)
    return 0


def writes(folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    """Seconds for the same rows: by hand, with row audits, with a unique audit as well."""
    from setpoint import delta, in_range, not_null, publish, unique
    from setpoint.spark.session import Sessions

    with Sessions() as sessions:
        spark = sessions.get()
        copy = make_orders(spark, str(folder / "orders"), rows)
        enriched = enrich(copy, make_customers(spark, str(folder / "customers")))
        row_audits = [not_null("order_id", "customer_id"), in_range("amount", 0, 1_000_000)]
        by_integer = [*row_audits, unique("order_date", "order_id")]
        by_text = [*row_audits, unique("order_date", "reference")]
        written = iter(range(10_000))

        def by_hand(frame: Any) -> Callable[[], None]:
            def call() -> None:
                place = folder / "by_hand" / str(next(written)) / f"order_date={DAY}"
                frame.drop("order_date").write.parquet(str(place))

            return call

        def through(frame: Any, audits: list[Any]) -> Callable[[], None]:
            def call() -> None:
                place = str(folder / "setpoint" / str(next(written)))
                target = delta(place, partition_by="order_date")
                publish(frame, target=target, window=DAY, audits=audits)

            return call

        ways: dict[str, Callable[[], None]] = {
            "by_hand": by_hand(enriched),
            "row_audits": through(enriched, row_audits),
            "all_audits": through(enriched, by_integer),
            "all_audits_text_key": through(enriched, by_text),
            "copy_by_hand": by_hand(copy),
            "copy_row_audits": through(copy, row_audits),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for way in ways.values():
            way()  # the first call compiles
        for _ in range(rounds):
            for name, way in ways.items():
                seconds[name].append(timed(way))
            shutil.rmtree(folder / "by_hand")
            shutil.rmtree(folder / "setpoint")
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "by_hand_seconds": round(middle["by_hand"], 3),
        "row_audits": round(middle["row_audits"] / middle["by_hand"], 3),
        "all_audits": round(middle["all_audits"] / middle["by_hand"], 3),
        "all_audits_text_key": round(middle["all_audits_text_key"] / middle["by_hand"], 3),
        "copy_row_audits": round(middle["copy_row_audits"] / middle["copy_by_hand"], 3),
    }


def enrich(orders: Any, customers: Any) -> Any:
    """What a daily job does to its orders: look customers up, derive a few columns."""
    from pyspark.sql import functions as F

    return (
        orders.join(F.broadcast(customers), "customer_id", "left")
        .withColumn("email", F.lower(F.trim("email")))
        .withColumn("net", (F.col("amount") / F.lit(1.19)).cast("decimal(12,2)"))
        .withColumn("order_hour", F.hour("ordered_at"))
    )


def make_customers(spark: Any, path: str) -> Any:
    """The lookup of the job: one row per customer."""
    from pyspark.sql import functions as F

    spark.range(0, 200_000, 1, 2).select(
        F.col("id").alias("customer_id"),
        F.concat(F.lit("segment "), F.col("id") % 7).alias("segment"),
        F.concat(F.lit("country "), F.col("id") % 50).alias("country"),
    ).write.parquet(path)
    return spark.read.parquet(path)


def make_orders(spark: Any, path: str, rows: int) -> Any:
    """Orders of one day with ten columns, as a shop's table has them."""
    from pyspark.sql import functions as F

    number = F.col("id")
    spark.range(0, rows, 1, 4).select(
        number.alias("order_id"),
        F.concat(F.lit("R-"), F.hex(F.xxhash64("id"))).alias("reference"),
        (number % 200_000).alias("customer_id"),
        (F.pmod(F.xxhash64("id", F.lit(1)), F.lit(500_000)) / 100)
        .cast("decimal(12,2)")
        .alias("amount"),
        F.pmod(F.xxhash64("id", F.lit(2)), F.lit(20)).cast("int").alias("items"),
        F.element_at(
            F.array(*map(F.lit, ("new", "paid", "sent", "done"))), (number % 4 + 1).cast("int")
        ).alias("status"),
        F.concat(F.lit("customer"), number % 200_000, F.lit("@example.org")).alias("email"),
        F.timestamp_seconds(F.lit(1_777_075_200) + number % 86_400).alias("ordered_at"),
        F.when(number % 10 == 0, F.lit(None))
        .otherwise(F.concat(F.lit("note "), number % 5_000))
        .alias("note"),
        F.lit(DAY).cast("date").alias("order_date"),
    ).write.parquet(path)
    return spark.read.parquet(path)


def unchanged(folder: Path) -> float:
    """A re-run of 365 published windows through the command line, with no Java to be found."""
    prepare_year(folder)
    command = [sys.executable, "-m", "setpoint.cli.main", "run", "yearly"]
    command += ["--from", "2025-01-01", "--to", "2025-12-31", "--json"]
    environment = {**os.environ, "JAVA_HOME": "/nonexistent", "PATH": "/nonexistent"}
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
        best = min(best, time.perf_counter() - started)
        windows = json.loads(done.stdout)["data"]["windows"]
        states = {window["state"] for window in windows}
        if len(windows) != WINDOWS or states != {"unchanged"}:
            raise SystemExit(f"expected {WINDOWS} unchanged windows, got {states}")
    return round(best, 3)


PIPELINE = """
from pyspark.sql import DataFrame
from setpoint import Window, delta, pipeline, source

@pipeline(every="day", target=delta("warehouse/yearly", partition_by="order_date"))
def yearly(window: Window, orders: DataFrame = source(delta("lake/orders"), time="order_date")):
    return orders
"""


def prepare_year(folder: Path) -> None:
    """Publish a year of small windows for real, one after the other in one process."""
    import pyarrow as pa
    from deltalake import write_deltalake

    (folder / "pipelines").mkdir(parents=True)
    (folder / "setpoint.toml").write_text('[pipelines]\npaths = ["pipelines"]\n')
    (folder / "pipelines" / "yearly.py").write_text(PIPELINE)
    first = date(2025, 1, 1)
    days = [first + timedelta(days=number) for number in range(WINDOWS)]
    orders = pa.table({"order_id": list(range(WINDOWS)), "order_date": days})
    write_deltalake(str(folder / "lake" / "orders"), orders, partition_by=["order_date"])
    command = [sys.executable, "-m", "setpoint.cli.main", "run", "yearly"]
    command += ["--from", "2025-01-01", "--to", "2025-12-31", "--json"]
    subprocess.run(command, cwd=folder, capture_output=True, check=True)


def ratio_of_help() -> float:
    """`setpoint --help` against an interpreter that does nothing."""
    nothing, helping = [], []
    for _ in range(15):
        nothing.append(timed(lambda: quiet([sys.executable, "-c", "pass"])))
        helping.append(timed(lambda: quiet([sys.executable, "-m", "setpoint.cli.main", "--help"])))
    return round(statistics.median(helping) / statistics.median(nothing), 2)


def quiet(command: list[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def timed(call: Callable[[], None]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def report(figures: dict[str, Any]) -> None:
    lines = [
        ("a daily job by hand, no audits, no publish", "1.00", ""),
        ("  through setpoint, row-level audits", f"{figures['row_audits']:.2f}", "at most 1.15"),
        ("  and unique, integer key", f"{figures['all_audits']:.2f}", "at most 1.5"),
        ("  and unique, text key", f"{figures['all_audits_text_key']:.2f}", ""),
        ("a plain copy by hand", "1.00", ""),
        ("  through setpoint, row-level audits", f"{figures['copy_row_audits']:.2f}", ""),
        (
            f"{WINDOWS} unchanged windows, no JVM",
            f"{figures['unchanged_365_seconds']:.2f} s",
            "at most 2 s",
        ),
        ("setpoint --help / python -c pass", f"{figures['help']:.1f}", "at most 6"),
    ]
    print(f"one window of {figures['rows']:,} rows, median of {figures['rounds']} rounds")
    for name, value, limit in lines:
        print(f"  {name:<45}{value:>8}  {limit}")


if __name__ == "__main__":
    sys.exit(main())
