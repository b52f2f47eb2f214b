"""`setpoint keys` as people and programs meet it."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from setpoint.cli.main import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def orders(n: int, day: int = 25, status: str = "new") -> pa.Table:
    return pa.table(
        {
            "order_id": list(range(n)),
            "status": [status] * n,
            "d": [dt.date(2026, 4, day)] * n,
        }
    )


def test_a_key_is_told_to_a_person(
    spark: SparkSession, project_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns, keys and the verdict; exit code 0; the table is as it was."""
    write_deltalake("orders", orders(40))
    before = sorted(path.stat().st_mtime_ns for path in Path("orders").rglob("*"))
    assert main(["keys", "orders", "--time", "d"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "orders  Delta version 0, 40 rows"
    assert lines[2].split() == ["column", "type", "nulls", "distinct,", "about"]
    assert "unique    order_id" in lines
    assert lines[-2:] == [
        "order_id is a key: unique in 40 rows, no nulls.",
        "None of its values comes back in another day.",
    ]
    assert sorted(path.stat().st_mtime_ns for path in Path("orders").rglob("*")) == before


def test_a_given_key_that_is_none_ends_with_one(
    spark: SparkSession, project_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The envelope says what is wrong, what is better, and what comes back."""
    write_deltalake("orders", orders(30, 25), partition_by=["d"])
    write_deltalake("orders", orders(10, 26, "paid"), mode="append")
    words = ["keys", "delta:orders", "--key", "order_id", "--json", "--sample", "2"]
    assert main(words) == 1
    body = json.loads(capsys.readouterr().out)
    assert (body["ok"], body["schema"]) == (False, "setpoint.keys/1")
    data = body["data"]
    assert (data["key"]["surplus"], data["key"]["is_key"]) == (10, False)
    assert len(data["key"]["examples"]) == 2
    assert data["keys"][0] == {"columns": ["order_id", "d"], "distinct": 40, "good": True}
    assert data["stability"]["time"] == "d"
    assert data["stability"]["changing"] == {"status": 10}
    assert [row["status"] for row in data["stability"]["example"]] == ["new", "paid"]
    assert main(words[:4]) == 1
    text = capsys.readouterr().out
    assert "rows that share a key:" in text
    assert "a key that comes back:" in text
    assert 'Merge(key="order_id", sequence_by="d")' in text


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], "SP-C01"),
        (["t", "--key", "order_id,"], "SP-C01"),
        (["t", "--key", ""], "SP-C01"),
        (["t", "--sample", "x"], "SP-C01"),
        (["t", "--key", "nope"], "SP-T02"),
        (["t", "--time", "nope"], "SP-R02"),
        (["t", "--time", "d", "--every", "fortnight"], "SP-D02"),
        (["t", "--timezone", "Mars"], "SP-W04"),
        (["nowhere"], "SP-R01"),
        (["empty"], "SP-K02"),
    ],
)
def test_a_wrong_call_is_told_in_one_line(
    project_dir: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: str
) -> None:
    """Exit code 2, a stable code, no stack trace, and no JVM to find out."""
    write_deltalake("t", orders(3))
    write_deltalake("empty", orders(0))
    assert main(["keys", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(code)
    assert "Traceback" not in captured.err
