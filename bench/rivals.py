"""The job of bench/backfill.py as projects of dbt and of SQLMesh.

Both read the same files, through a table of a metastore in Derby, and write plain Parquet with
a partition for each day. Spark has its defaults, without the web interface.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

DBT = {
    "dbt_project.yml": """
name: shop
version: "1.0"
profile: shop
""",
    "profiles.yml": """
shop:
  target: local
  outputs:
    local: {type: spark, method: session, host: localhost, schema: shop, threads: 1}
""",
    "models/sources.yml": """
sources:
  - name: raw
    schema: raw
    tables:
      - name: orders
        config: {event_time: order_date}
""",
    "models/daily_customer_orders.sql": """
{{ config(
    materialized="incremental", incremental_strategy="microbatch",
    event_time="order_date", batch_size="day", begin="FIRST", lookback=0,
    file_format="parquet", partition_by=["order_date"]
) }}
select customer_id, count(*) as orders, sum(amount) as amount, order_date
from {{ source("raw", "orders") }}
group by customer_id, order_date
""",
}
SQLMESH = {
    "config.yaml": """
gateways:
  local:
    connection: {type: spark}
    state_connection: {type: duckdb, database: state.db}
default_gateway: local
model_defaults: {dialect: spark}
""",
    "external_models.yaml": """
- name: raw.orders
  columns:
    order_id: bigint
    customer_id: bigint
    amount: decimal(10, 2)
    reference: string
    order_date: date
""",
    "models/daily_customer_orders.sql": """
MODEL (
  name shop.daily_customer_orders,
  kind INCREMENTAL_BY_TIME_RANGE (time_column order_date),
  start 'FIRST',
  cron '@daily',
  storage_format parquet
);

SELECT customer_id, COUNT(*) AS orders, SUM(amount) AS amount, order_date
FROM raw.orders
WHERE order_date BETWEEN @start_date AND @end_date
GROUP BY customer_id, order_date
""",
}
REGISTER = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.enableHiveSupport().getOrCreate()
for statement in (
    "CREATE DATABASE raw",
    "CREATE DATABASE shop",
    f"CREATE TABLE raw.orders USING parquet LOCATION '{sys.argv[1]}'",
    "MSCK REPAIR TABLE raw.orders",
):
    spark.sql(statement)
"""
LOOK = """
import sys, sysconfig
from importlib.metadata import PackageNotFoundError, version

try:
    versions = ", ".join(f"{name} {version(name)}" for name in sys.argv[1:])
except PackageNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed there")
print(sys.executable, sysconfig.get_path("scripts"), versions, sep="\\n")
"""


class Unusable(Exception):
    """An interpreter whose environment cannot run the tool."""


@dataclass(frozen=True)
class Tool:
    """What it needs, its project, and what it is told for a range of days."""

    name: str
    needs: tuple[str, ...]
    files: dict[str, str]
    arguments: Callable[[date, date], tuple[str, ...]]
    """From the first day and the last one."""


TOOLS = (
    Tool(
        "dbt",
        ("dbt-core", "dbt-spark", "pyspark"),
        DBT,
        lambda first, last: (
            *("run", "--profiles-dir", ".", "--event-time-start", first.isoformat()),
            *("--event-time-end", (last + timedelta(1)).isoformat()),
        ),
    ),
    # It takes a range only outside of production, which has every day up to now.
    Tool(
        "sqlmesh",
        ("sqlmesh", "pyspark"),
        SQLMESH,
        lambda first, last: (
            *("plan", "bench", "--auto-apply", "--no-prompts"),
            *("--start", first.isoformat(), "--end", last.isoformat()),
        ),
    ),
)


@dataclass(frozen=True)
class Rival:
    """A tool of an environment, and its project in a folder."""

    tool: Tool
    python: str
    scripts: str
    versions: str

    @property
    def name(self) -> str:
        return self.tool.name

    def make_project(self, folder: Path, orders: Path, first: date) -> None:
        """Write the project, and register the source in its metastore."""
        place = folder / self.name
        for name, text in self.tool.files.items():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("FIRST", first.isoformat()))
        (place / "spark-defaults.conf").write_text("spark.ui.enabled false\n")
        command = [self.python, "-c", REGISTER, str(orders)]
        answer = subprocess.run(
            command, cwd=place, env=surroundings(), capture_output=True, text=True
        )
        if answer.returncode:
            raise SystemExit(f"{self.name} cannot register its source:\n{answer.stderr}")
        shutil.copytree(place, folder / f"{self.name}_fresh")

    def forget(self, folder: Path) -> None:
        """Bring the project back to before its first run: tables, metastore and state."""
        shutil.rmtree(folder / self.name)
        shutil.copytree(folder / f"{self.name}_fresh", folder / self.name)

    def command(self, first: date, days: int) -> tuple[str, ...]:
        program = str(Path(self.scripts) / self.name)
        return program, *self.tool.arguments(first, first + timedelta(days - 1))

    def table(self, folder: Path) -> Path:
        """The one table that the tool has written."""
        warehouse = folder / self.name / "spark-warehouse"
        (table,) = {day.parent for day in warehouse.glob("*/*/order_date=*")}
        return table


def rival(tool: Tool, python: str) -> Rival:
    """The tool as that interpreter's environment has it."""
    try:
        command = [python, "-c", LOOK, *tool.needs]
        answer = subprocess.run(command, env=surroundings(), capture_output=True, text=True)
    except OSError as error:
        raise Unusable(f"--{tool.name} {python}: {error.strerror}") from error
    lines = answer.stdout.splitlines()
    if answer.returncode or len(lines) != 3:
        why = (answer.stderr.splitlines() or ["this is no Python"])[-1]
        raise Unusable(f"--{tool.name} {python}: {why} (it needs {', '.join(tool.needs)})")
    return Rival(tool, *lines)


def surroundings() -> dict[str, str]:
    """Environment variables for a rival: its own Spark, no reports to its makers."""
    ours = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME")
    return {
        **{name: value for name, value in os.environ.items() if name not in ours},
        "SPARK_CONF_DIR": ".",
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "true",
    }
