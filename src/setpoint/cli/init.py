"""`setpoint init`: a project that runs, in a folder of the user's choice."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from setpoint.cli.output import Output
from setpoint.errors import UsageError

CONFIG = """\
# What is not set has a default. `setpoint doctor` tells what is missing.
[pipelines]
paths = ["pipelines"]

[spark]
# master = "local[4]"           # default: a local session tuned for this machine
# remote = "sc://host:15002"    # or a Spark Connect server

[ledger]
# url = "env:LEDGER_URL"        # postgresql://user@host/db; default: .setpoint/ledger.db
"""

PIPELINE = '''\
"""A first pipeline: one row per customer and day."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from setpoint import Overwrite, Window, delta, not_null, pipeline, source, unique


@pipeline(
    every="day",
    target=delta("warehouse/daily_customer_summary", partition_by="summary_date"),
    write=Overwrite(),
    audits=[unique("summary_date", "customer_id"), not_null("total")],
)
def daily_customer_summary(
    window: Window,
    orders: DataFrame = source(delta("lake/orders"), time="order_date"),
) -> DataFrame:
    """One row per customer and day."""
    return (
        orders.groupBy("customer_id")
        .agg(F.count("*").alias("order_count"), F.sum("amount").alias("total"))
        .withColumn("summary_date", window.date)
    )
'''

SAMPLE = '''\
"""Writes a small lake/orders table to try the pipeline on: python make_sample.py"""

from datetime import date, timedelta
from decimal import Decimal

import pyarrow as pa
from deltalake import write_deltalake

FIRST, DAYS, ORDERS = date(2026, 4, 20), 7, 1_000

days = [FIRST + timedelta(days=day) for day in range(DAYS) for _ in range(ORDERS)]
numbers = range(DAYS * ORDERS)
orders = pa.table(
    {
        "order_id": pa.array(numbers, pa.int64()),
        "customer_id": pa.array([number % 97 for number in numbers], pa.int64()),
        "amount": pa.array([Decimal(n % 5_000) / 100 for n in numbers], pa.decimal128(12, 2)),
        "order_date": pa.array(days, pa.date32()),
    }
)
write_deltalake("lake/orders", orders, mode="overwrite", partition_by=["order_date"])
print(f"lake/orders holds {orders.num_rows:,} orders of {DAYS} days")
'''

IGNORED = ".setpoint/\nlake/\nwarehouse/\nspark-warehouse/\n"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", default=".", help="default: this folder")


def execute(options: argparse.Namespace, output: Output) -> int:
    root = Path(options.folder)
    files = {
        root / "setpoint.toml": CONFIG,
        root / "pipelines" / "daily_customer_summary.py": PIPELINE,
        root / "make_sample.py": SAMPLE,
    }
    for file in files:
        if file.exists():
            raise UsageError(
                "SP-C09",
                f"{file} already exists.",
                state="Nothing was written.",
                next="Choose an empty folder, or remove the file.",
            )
    try:
        for file, text in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        ignore = root / ".gitignore"
        if not ignore.exists():
            ignore.write_text(IGNORED, encoding="utf-8")
            files[ignore] = IGNORED
    except OSError as error:
        raise UsageError(
            "SP-C09",
            f"The project could not be written to {root}: {error}.",
            state="Files that were already written are left in place.",
            next="Check the folder and its permissions.",
        ) from error
    written = [str(file) for file in files]
    steps = [
        *([shlex.join(["cd", options.folder])] if options.folder != "." else []),
        "python make_sample.py",
        "setpoint run daily_customer_summary --window 2026-04-25",
        "setpoint status",
    ]
    lines = ["Wrote " + ", ".join(written), "Next:", *(f"  {step}" for step in steps)]
    output.answer({"files": written, "next": steps}, lines)
    return 0
