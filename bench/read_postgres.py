"""What a read of PostgreSQL costs, against Spark's JDBC reader, measured in one run.

One million orders of one day with six columns are read by two tasks and thrown away, the ways
interleaved in one Spark session against one server: through the source (by ADBC, both tasks in
one snapshot, the window clipped by the server) and by Spark's JDBC reader with its best settings
(ranges of the key, a fetch size of 10,000), whose tasks have a snapshot each. The table holds
another million orders of the day before.

    python bench/read_postgres.py [--rows 1000000] [--rounds 7] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from postgres import DAY, server  # the script beside this one

TABLE = """
CREATE TABLE orders (order_id int8 PRIMARY KEY, customer_id int4, amount numeric(12,2),
                     status text, note text, created_at timestamptz);
INSERT INTO orders
SELECT n, n % 200000, (n::int8 * 7919 % 500000) / 100.0, 'status ' || n % 7, md5(n::text),
       '2026-04-24'::timestamptz + n * interval '172800 seconds' / {both}
FROM generate_series(0, {both} - 1) n;
CREATE INDEX ON orders (created_at);
VACUUM ANALYZE orders
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgr") as folder, server(Path(folder)) as port:
        figures = measure(port, options.rows, options.rounds)
    if options.json:
        print(json.dumps(figures))
    else:
        print(f"{options.rows:,} rows x 6 columns, two tasks, median of {options.rounds} rounds")
        print(f"  Spark's JDBC reader    {figures['jdbc_seconds']:6.2f} s")
        print(f"  through the source     {figures['setpoint_seconds']:6.2f} s")
        print(f"  ratio                  {figures['read_postgres']:6.2f}")
    return 0


def measure(port: int, rows: int, rounds: int) -> dict[str, Any]:
    """Median seconds of both ways, and their ratio."""
    import psycopg

    from setpoint import delta, pipeline, postgres, source
    from setpoint.model.window import Window
    from setpoint.project.config import Config
    from setpoint.project.wiring import Project
    from setpoint.spark.jars import fetch

    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    jars = tuple(str(path) for path in fetch("postgres-jdbc"))
    with psycopg.connect(url, autocommit=True) as database:
        for statement in TABLE.format(both=2 * rows).split(";"):
            database.execute(statement.encode())

    origin = postgres("orders", connection="bench")

    @pipeline(every="day", target=delta("out", partition_by="d"))
    def copy(window: Any, orders: Any = source(origin, time="created_at", partitions=2)) -> Any:
        return orders

    config = Config(Path.cwd(), master="local[2]", jars=jars, connections={"bench": url})
    window = Window.parse(DAY)
    with Project(config) as project:
        spark = project.sessions.get()

        def drained(frame: Any) -> None:
            frame.write.format("noop").mode("overwrite").save()

        def through_setpoint() -> None:
            orders = project.adapters.source("orders", copy.sources["orders"], copy)
            try:
                drained(orders.read(spark, window, orders.pin([window])[window]))
            finally:
                orders.release(window)  # type: ignore[attr-defined]

        def by_jdbc() -> None:
            options = {
                "url": f"jdbc:postgresql://127.0.0.1:{port}/postgres",
                "user": "postgres",
                "driver": "org.postgresql.Driver",
                "dbtable": f"(SELECT * FROM orders WHERE created_at >= '{DAY}') o",
                "partitionColumn": "order_id",
                "lowerBound": rows,
                "upperBound": 2 * rows,
                "numPartitions": 2,
                "fetchsize": 10_000,
            }
            drained(spark.read.format("jdbc").options(**options).load())

        ways: dict[str, Callable[[], None]] = {"setpoint": through_setpoint, "jdbc": by_jdbc}
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds + 3):
            for name, way in ways.items():
                started = time.perf_counter()
                way()
                if number > 2:  # the first rounds compile
                    seconds[name].append(time.perf_counter() - started)
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "read_postgres": round(middle["setpoint"] / middle["jdbc"], 3),
        "setpoint_seconds": round(middle["setpoint"], 3),
        "jdbc_seconds": round(middle["jdbc"], 3),
        "rows": rows,
        "rounds": rounds,
    }


if __name__ == "__main__":
    sys.exit(main())
