"""Black boxes on lakes: Parquet, Delta and Iceberg, written by scripts and by a real Spark job."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from setpoint.cli.main import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW = "2026-04-25"
DELTA = """
import datetime as dt, sys
import pyarrow as pa
from deltalake import write_deltalake
day = dt.date.fromisoformat(sys.argv[1])
rows = pa.table({"id": list(range(5)), "d": [day] * 5})
if sys.argv[3] == "append":
    write_deltalake(sys.argv[2], rows, mode="append")
else:
    write_deltalake(sys.argv[2], rows, mode="overwrite", predicate=f"d = '{day}'")
"""
ICEBERG = """
import datetime as dt, sys
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
day = dt.date.fromisoformat(sys.argv[1])
catalog = SqlCatalog("lake", uri="sqlite:///warehouse/_catalog.sqlite", warehouse=f"file://{sys.argv[2]}")
rows = pa.table({"id": list(range(5)), "d": [day] * 5})
table = catalog.load_table("sales.orders")
if sys.argv[3] == "append":
    table.append(rows)
else:
    table.overwrite(rows, overwrite_filter=f"d = '{day}'")
"""
# A day is emptied, then filled file by file.
FILES = """
import os, shutil, sys
import pyarrow as pa, pyarrow.parquet as pq
folder = f"{sys.argv[2]}/d={sys.argv[1]}"
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
for n in range(3):
    pq.write_table(pa.table({"id": [n]}), f"{folder}/.part-{n}.parquet")
for n in range(3):
    os.rename(f"{folder}/.part-{n}.parquet", f"{folder}/part-{n}.parquet")
"""
# What a JVM costs is start-up: one job, two tables, one of them appended to.
SPARK = """
import sys
from pyspark.sql import SparkSession, functions as F
window, appended, replaced = sys.argv[1:4]
options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.extraJavaOptions", options)
    .config("spark.sql.sources.partitionOverwriteMode", "dynamic")
    .getOrCreate()
)
rows = spark.range(20, numPartitions=2).withColumn("d", F.lit(window).cast("date"))
rows.write.mode("overwrite").partitionBy("d").parquet(replaced)
rows.write.mode("append").partitionBy("d").parquet(appended)
"""


def prove(
    script: str, capsys: pytest.CaptureFixture[str], words: str, *options: str
) -> tuple[int, dict[str, dict[str, Any]]]:
    Path("job.py").write_text(script)
    given = ["--command", f"{sys.executable} job.py {{window}} {words}", "--window", WINDOW]
    code = main(["prove", *given, "--json", *options])
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert "data" in answer, answer
    (proof,) = answer["data"]["proofs"]
    return code, {result["experiment"]: result for result in proof["results"]}


def content(root: Path) -> dict[str, tuple[str, int]]:
    """Every file with its bytes and its time."""
    return {
        str(path.relative_to(root)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("how", ["append", "overwrite"])
def test_delta(
    project_dir: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    """In place: an append doubles the day, an overwrite of the day does not; both are undone."""
    write_deltalake("lake", pa.table({"id": [7], "d": [pa.scalar("2026-04-01").cast(pa.date32())]}))
    before = content(Path("lake"))
    only = ("--only", "twice,killed") if how == "append" else ("--only", "twice,neighbours")
    code, found = prove(DELTA, capsys, f"lake {how}", "--table", "o=delta:lake", "--yes", *only)
    if how == "append":
        assert (code, found["twice"]["detail"]["cause"]) == (1, "appended")
        assert found["twice"]["difference"]["rows_found"] == 11
        assert found["killed"]["state"] == "failed"
    else:
        assert (code, {r["state"] for r in found.values()}) == (0, {"passed"})
    assert content(Path("lake")) == before
    assert DeltaTable("lake").version() == 0


def test_files_that_appear_one_by_one(
    project_dir: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a copy of a folder: the same bytes in the end need no Spark job to be compared."""
    Path("t/d=2026-04-01").mkdir(parents=True)
    pq.write_table(pa.table({"id": [7]}), "t/d=2026-04-01/a.parquet")
    before = content(Path("t"))
    code, found = prove(
        FILES, capsys, "{t}", "--table", "t=parquet:t", "--only", "twice,neighbours"
    )
    assert (code, {r["state"] for r in found.values()}) == (0, {"passed"})
    assert content(Path("t")) == before


def test_iceberg(
    project_dir: Path,
    spark: SparkSession,
    has_iceberg_connector: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The catalog points to what it pointed to, and no file is left behind."""
    if not has_iceberg_connector:
        pytest.skip("the Iceberg connector's jars are not cached")
    from pyiceberg.catalog.sql import SqlCatalog

    Path("warehouse").mkdir()
    place = project_dir / "w"
    catalog = SqlCatalog(
        "lake", uri="sqlite:///warehouse/_catalog.sqlite", warehouse=f"file://{place}"
    )
    catalog.create_namespace("sales")
    schema = pa.schema([("id", pa.int64()), ("d", pa.date32())])
    table = catalog.create_table("sales.orders", schema)
    table.append(pa.table({"id": [7], "d": [None]}, schema=schema))
    before = (content(place), table.metadata_location)
    asked = ("--table", "o=iceberg:lake.sales.orders", "--yes")

    code, found = prove(ICEBERG, capsys, f"{place} append", *asked, "--only", "twice")
    assert (code, found["twice"]["detail"]["cause"]) == (1, "appended")
    assert found["twice"]["difference"]["rows_found"] == 11

    code, found = prove(ICEBERG, capsys, f"{place} overwrite", *asked, "--only", "twice")
    assert (code, found["twice"]["state"]) == (0, "passed")
    assert (content(place), catalog.load_table("sales.orders").metadata_location) == before


def test_a_spark_job(
    project_dir: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table that is appended to doubles, the one whose partition is overwritten does not."""
    asked = ("--table", "replaced=parquet:b", "--table", "appended=parquet:a")
    code, found = prove(SPARK, capsys, "{appended} {replaced}", *asked, "--only", "twice")
    assert code == 1
    assert found["twice"]["table"] == "appended"
    assert found["twice"]["difference"]["repeated"] == 20
    assert "tables" not in found["twice"]["detail"]
    assert not Path("a").exists()
    assert not Path("b").exists()
