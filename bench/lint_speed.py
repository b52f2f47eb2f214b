"""Times lint against ruff: python bench/lint_speed.py [--files N] [--json]

Makes N files of 200 lines each (1,000 if not told otherwise) out of a few kinds of pipelines,
and runs on the same files, one after the other: `ruff check --select ALL` without a cache,
`setpoint lint` cold, `setpoint lint` with a warm cache. Prints seconds and the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LINES = 200
LIMITS = {"cold": 12.0, "warm": 2.0}

SPARK = '''
def load_{i}(spark, source, target, run_date):
    """Loads the orders of one day."""
    df = spark.read.parquet(f"{{source}}/dt={{run_date}}")
    cleaned = (
        df.filter(F.col("amount") > {i})
        .withColumn("amount_eur", F.col("amount") * F.lit(0.9{i}))
        .withColumn("loaded_at", F.current_timestamp())
        .withColumn("customer", F.lower(F.trim(F.col("customer"))))
        .dropDuplicates(["order_id"])
    )
    logger.info("loading %s rows", cleaned.count())
    cleaned.write.mode("append").partitionBy("dt").parquet(target)
    return cleaned
'''
LOADER = '''
def store_{i}(conn, rows, day):
    """Replaces one day of table {i}."""
    with conn.cursor() as cur:
        cur.execute("DELETE FROM mart.daily_{i} WHERE day = %s", (day,))
        for row in rows:
            record = {{"id": row["id"], "value": row["value"] * {i}, "seen": datetime.now()}}
            if record["value"] is None or record["value"] < 0:
                logger.warning("bad row %s", record)
                continue
            cur.execute(
                """
                INSERT INTO mart.daily_{i} (id, value, day)
                VALUES (%(id)s, %(value)s, %(day)s)
                """,
                record,
            )
    conn.commit()
'''
PLAIN = '''
class Window{i}:
    """Keeps the last {i} values."""

    def __init__(self, size=10, name="window"):
        self.size = size
        self.name = name
        self.values = []

    def add(self, value):
        self.values.append(value)
        if len(self.values) > self.size:
            self.values.pop(0)
        return sum(self.values) / max(len(self.values), 1)

    def describe(self):
        return {{"name": self.name, "size": self.size, "mean": self.add(0), "n": {i}}}
'''
QUERY = '''
REPORT_{i} = """
    SELECT c.customer_id, c.country, SUM(o.amount) AS total, COUNT(*) AS orders
    FROM shop.orders o JOIN shop.customers c ON c.customer_id = o.customer_id
    WHERE o.order_date >= %(start)s AND o.order_date < %(end)s
    GROUP BY c.customer_id, c.country
"""


def report_{i}(engine, start, end):
    """The report of a range."""
    frame = pd.read_sql(REPORT_{i}, engine, params={{"start": start, "end": end}})
    frame["share"] = frame["total"] / frame["total"].sum()
    return frame.sort_values("total", ascending=False).head({i} + 10)
'''
HEAD = '''"""A module of a pipeline."""

import logging
from datetime import datetime

import pandas as pd
from pyspark.sql import functions as F

logger = logging.getLogger(__name__)
'''


def make(folder: Path, files: int) -> None:
    templates = [SPARK, LOADER, PLAIN, QUERY]
    for number in range(files):
        text = HEAD
        part = number
        while text.count("\n") < LINES:
            text += "\n" + templates[part % len(templates)].format(i=part % 9 + number % 7)
            part += 1
        lines = [*text.split("\n")[: LINES - 1], f"NUMBER = {number}"]
        # A cut through the middle of a block must not leave a broken file.
        while not parses("\n".join(lines)):
            lines.pop(-2)
        lines += ["# ."] * (LINES - len(lines))
        (folder / f"module_{number:04}.py").write_text("\n".join(lines) + "\n", encoding="utf-8")


def parses(text: str) -> bool:
    try:
        compile(text, "x", "exec")
    except SyntaxError:
        return False
    return True


def timed(command: list[str], folder: Path, files: int = 0) -> float:
    source = str(Path(__file__).parents[1] / "src")
    start = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": source},
    )
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr.decode() or done.stdout.decode())
    if files and json.loads(done.stdout)["data"]["files"] != files:
        raise SystemExit("lint has not looked at every file")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff")
    if ruff is None:
        raise SystemExit("ruff is not installed")
    own = [sys.executable, "-m", "setpoint.cli.main", "lint", ".", "--json"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, options.files)
        seconds = {
            "ruff": timed([ruff, "check", "--select", "ALL", "--no-cache", "--quiet", "."], folder),
            "cold": timed(own, folder, options.files),
            "warm": timed(own, folder, options.files),
        }
    ratios = {name: round(seconds[name] / seconds["ruff"], 2) for name in ("cold", "warm")}
    held = all(ratios[name] <= LIMITS[name] for name in LIMITS)
    if options.json:
        print(
            json.dumps({"files": options.files, "seconds": seconds, "ratios": ratios, "held": held})
        )
    else:
        print(f"{options.files:,} files of {LINES} lines")
        for name, value in seconds.items():
            ratio = f"  {ratios[name]}x of ruff, at most {LIMITS[name]}x" if name in ratios else ""
            print(f"{name:<6}{value:>8.2f} s{ratio}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
