"""`setpoint check` as people and programs meet it."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import setpoint.errors
from setpoint.cli.check import column_names
from setpoint.cli.main import main
from setpoint.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """
from pyspark.sql import DataFrame
from setpoint import Window, delta, pipeline, source, unique

@pipeline(
    every="day",
    target=delta("warehouse/orders", partition_by="d"),
    audits=[unique("order_id", "d")],
)
def orders(window: Window, raw: DataFrame = source(delta("lake"), time="d")) -> DataFrame:
    return raw
"""


def orders(n: int, day: int = 25) -> pa.Table:
    return pa.table({"order_id": list(range(n)), "d": [dt.date(2026, 4, day)] * n})


def doubled(path: str) -> None:
    write_deltalake(path, orders(180), partition_by=["d"])
    write_deltalake(path, orders(250), mode="append")


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = main(["check", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_duplicates_are_told_to_a_person(
    spark: SparkSession, project_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text says what was looked at, what was found, where, and what to do."""
    doubled("orders")
    assert main(["check", "orders", "--key", "order_id", "--time", "d", "--every", "day"]) == 1
    text = capsys.readouterr().out
    assert text.splitlines()[:3] == [
        "orders  Delta version 1, 430 rows, 2 files; partitioned by d (day)",
        "key       order_id: 250 distinct",
        "time      d, every day: 1 window",
    ]
    assert "duplicates  430 rows, 250 distinct keys: 180 surplus rows, identical in all" in text
    assert "  2026-04-25   430      180\n" in text
    assert "  Next: Rewrite the affected windows" in text


def test_the_same_is_told_to_a_program(
    spark: SparkSession, project_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The envelope holds the figures of each finding and of each window."""
    doubled("orders")
    words = ("delta:orders", "--key", "order_id", "--time", "d", "--every", "day", "--sample", "2")
    code, body = answer(capsys, *words)
    assert (code, body["ok"], body["schema"]) == (1, False, "setpoint.check/1")
    data = body["data"]
    assert (data["table"], data["kind"], data["rows"]) == ("delta:orders", "delta", 430)
    (finding,) = data["findings"]
    assert (finding["kind"], finding["surplus_rows"]) == ("duplicates", 180)
    assert len(finding["examples"]) == 2
    assert data["windows"] == [{"window": "2026-04-25", "rows": 430, "surplus": 180}]


def test_a_clean_table_ends_with_zero(
    spark: SparkSession, project_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No findings: exit code 0, and the table is as it was."""
    write_deltalake("orders", orders(5))
    before = sorted(path.stat().st_mtime_ns for path in Path("orders").rglob("*"))
    assert main(["check", "./orders", "--key", "order_id"]) == 0
    assert capsys.readouterr().out.endswith("no findings\n")
    assert sorted(path.stat().st_mtime_ns for path in Path("orders").rglob("*")) == before


def test_a_pipeline_brings_key_time_and_grain(
    spark: SparkSession, project_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipeline's name is enough; the next step is a command that repairs the window."""
    Path("setpoint.toml").write_text('[pipelines]\npaths = ["flows.py"]\n')
    Path("flows.py").write_text(PIPELINE)
    code, body = answer(capsys, "orders")
    assert (code, body["error"]["code"]) == (2, "SP-R01")
    doubled("warehouse/orders")
    code, body = answer(capsys, "orders")
    assert code == 1
    (finding,) = body["data"]["findings"]
    assert finding["key"] == ["order_id", "d"]
    assert finding["next"] == "setpoint run orders --window 2026-04-25 --force"


def test_history_is_judged_where_no_java_exists(project_dir: Path) -> None:
    """Without a key, a table whose log tells enough is checked without a JVM."""
    for turn in range(6):
        write_deltalake(
            "t",
            orders(3),
            mode="overwrite",
            partition_by=["d"],
            predicate="d = '2026-04-25'" if turn else None,
        )
    environment = {
        **os.environ,
        "PATH": "",
        "JAVA_HOME": str(project_dir / "none"),
        "PYTHONPATH": str(Path(setpoint.errors.__file__).parents[1]),
    }
    words = [sys.executable, "-m", "setpoint.cli.main", "check", "t", "--every", "hour", "--json"]
    ended = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 1, ended.stderr
    found = [finding["kind"] for finding in json.loads(ended.stdout)["data"]["findings"]]
    assert found == ["coarse_partition", "repeated_overwrites"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["t"], "SP-C01"),
        (["t", "--time", "d"], "SP-C01"),
        (["t", "--key", "order_id,"], "SP-C01"),
        (["t", "--key", "order_id", "--sample", "-1"], "SP-C01"),
        (["t", "--key", "order_id", "--sample", "x"], "SP-C01"),
        (["t", "--key", "nope"], "SP-T02"),
        (["t", "--time", "nope", "--every", "day"], "SP-R02"),
        (["t", "--time", "d", "--every", "fortnight"], "SP-D02"),
        (["t", "--time", "d", "--every", "day", "--timezone", "Mars"], "SP-W04"),
        (["nowhere", "--key", "a"], "SP-R01"),
        (["no/where", "--key", "a"], "SP-R01"),
        (["parquet:nowhere", "--key", "a"], "SP-R01"),
        (["delta:.", "--key", "a"], "SP-R01"),
        (["", "--key", "a"], "SP-R01"),
    ],
)
def test_a_wrong_call_is_told_in_one_line(
    project_dir: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: str
) -> None:
    """Exit code 2, a stable code, no stack trace, and no JVM to find out."""
    write_deltalake("t", orders(3))
    assert main(["check", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(code)
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ("a",)),
        ("a, b", ("a", "b")),
        ("a.b,c d", ("a.b", "c d")),
        ("`a,b`,c", ("a,b", "c")),
        ("`a``b`", ("a`b",)),
        ("a`b", ("a`b",)),
        ("a,a", ("a",)),
    ],
)
def test_column_names_are_read_as_written(text: str, names: tuple[str, ...]) -> None:
    """Commas separate names; between backticks a name is taken as it is."""
    assert column_names(text) == names


@pytest.mark.parametrize("text", ["", ",", "a,", ",a", "a,,b", " "])
def test_an_empty_name_is_refused(text: str) -> None:
    """A key with a hole in it is a slip of the pen, not a column."""
    with pytest.raises(UsageError):
        column_names(text)
