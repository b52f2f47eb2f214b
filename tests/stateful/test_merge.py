"""Random merges in random order, with repeats, against a model in memory.

The model is one line: under each key the greatest row ever merged counts, and is absent if it
was a removal. Greatest by sequence, then removals first, then by the total order of rows.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from setpoint import Merge, delta, publish
from setpoint.spark.contents import hash_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[int, int, "str | None"]

SCHEMA = (
    T.StructType().add("id", T.IntegerType()).add("seq", T.LongType()).add("status", T.StringType())
)
IDS, SEQUENCES, STATUSES = (1, 2, 3), (1, 2, 3), ("new", "paid", None, "gone")
WRITE = Merge(key="id", sequence_by="seq", delete_when="status = 'gone'")

rows = st.tuples(st.sampled_from(IDS), st.sampled_from(SEQUENCES), st.sampled_from(STATUSES))
batches = st.lists(st.lists(rows, max_size=5), min_size=2, max_size=3)


@st.composite
def histories(draw: Any) -> list[tuple[int, list[Row]]]:
    """Windows with their batches, in any order, some of them again."""
    chosen = list(enumerate(draw(batches)))
    order = draw(st.permutations(chosen))
    return [*order, *draw(st.lists(st.sampled_from(chosen), max_size=1))]


@pytest.fixture(scope="module")
def order(spark: SparkSession) -> dict[Row, int]:
    """The place of every possible row in the total order, as Spark computes it."""
    possible = list(product(IDS, SEQUENCES, STATUSES))
    frame = spark.createDataFrame(possible, SCHEMA).selectExpr("*", f"{hash_sql(SCHEMA)} AS place")
    return {(row["id"], row["seq"], row["status"]): row["place"] for row in frame.collect()}


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="setpoint-"))
    monkeypatch.chdir(folder)
    yield folder
    shutil.rmtree(folder)


def expected(history: list[tuple[int, list[Row]]], order: dict[Row, int]) -> list[Row]:
    best: dict[int, tuple[Any, Row]] = {}
    for row in (row for _, batch in history for row in batch):
        rank = (row[1], row[2] == "gone", order[row])
        if row[0] not in best or rank > best[row[0]][0]:
            best[row[0]] = (rank, row)
    return sorted((row for _, row in best.values() if row[2] != "gone"), key=repr)


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories())
def test_any_order_with_repeats_gives_the_greatest_rows(
    spark: SparkSession, order: dict[Row, int], place: Path, history: list[tuple[int, list[Row]]]
) -> None:
    """The table depends on what was merged, not on when or how often."""
    target = Path(tempfile.mkdtemp(dir=place)) / "out"
    for number, batch in history:
        frame = spark.createDataFrame(batch, SCHEMA)
        publish(frame, target=delta(str(target)), window=f"2026-04-{number + 10}", write=WRITE)
    stored = DeltaTable(str(target)).to_pyarrow_table().to_pylist()
    found = sorted(((row["id"], row["seq"], row["status"]) for row in stored), key=repr)
    assert found == expected(history, order)
