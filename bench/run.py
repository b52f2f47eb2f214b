"""What setpoint costs, against a hand-written job, measured in one run.

One window of orders is written three ways, interleaved in one Spark session: by a hand-written
PySpark job (plain Parquet, no audits, no publish), through setpoint with row-level audits, and
through setpoint with a unique audit on top. Then the start-up costs that need no Spark.

    python bench/run.py [--rows 5000000] [--rounds 5] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
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
        orders = make_orders(spark, str(folder / "orders"), rows)
        row_audits = [not_null("order_id", "customer_id"), in_range("amount", 0, 1_000_000)]
        written = iter(range(10_000))

        def by_hand() -> None:
            place = folder / "by_hand" / str(next(written)) / f"order_date={DAY}"
            orders.drop("order_date").write.parquet(str(place))

        def through(audits: list[Any], kind: str) -> Callable[[], None]:
            def call() -> None:
                target = delta(str(folder / kind / str(next(written))), partition_by="order_date")
                publish(orders, target=target, window=DAY, audits=audits)

            return call

        ways: dict[str, Callable[[], None]] = {
            "by_hand": by_hand,
            "row_audits": through(row_audits, "row"),
            "all_audits": through([*row_audits, unique("order_date", "order_id")], "all"),
            "text_key": through([*row_audits, unique("order_date", "reference")], "text"),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for way in ways.values():
            way()  # the first call compiles
        for _ in range(rounds):
            for name, way in ways.items():
                seconds[name].append(timed(way))
    base = statistics.median(seconds["by_hand"])
    return {
        "by_hand_seconds": round(base, 3),
        "row_audits": round(statistics.median(seconds["row_audits"]) / base, 3),
        "all_audits": round(statistics.median(seconds["all_audits"]) / base, 3),
        "all_audits_text_key": round(statistics.median(seconds["text_key"]) / base, 3),
    }


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
    print(f"one window of {figures['rows']:,} rows, median of {figures['rounds']} rounds")
    print(f"  by hand, no audits, no publish   1.00  ({figures['by_hand_seconds']:.2f} s)")
    print(f"  row-level audits                 {figures['row_audits']:.2f}  (at most 1.15)")
    print(f"  and unique, integer key          {figures['all_audits']:.2f}  (at most 1.5)")
    print(f"  and unique, text key             {figures['all_audits_text_key']:.2f}")
    print(
        f"{WINDOWS} unchanged windows, no JVM        {figures['unchanged_365_seconds']:.2f} s  (at most 2)"
    )
    print(f"setpoint --help / python -c pass   {figures['help']:.1f}  (at most 6)")


if __name__ == "__main__":
    sys.exit(main())
