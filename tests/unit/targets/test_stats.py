"""File statistics from footers: right, or left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpoint.targets.delta.stats import footer_stats


def stats_of(folder: Path, table: pa.Table, **options: Any) -> dict[str, Any]:
    file = folder / "file.parquet"
    pq.write_table(table, file, **options)
    body: dict[str, Any] = json.loads(footer_stats(pq.read_metadata(file)).as_json())
    return body


def test_bounds_cover_all_row_groups(tmp_path: Path) -> None:
    """The least of all groups and the greatest of all groups, nulls added up."""
    column = pa.array([5, 9, None, 1, 2, None, 7, None])
    stats = stats_of(tmp_path, pa.table({"a": column}), row_group_size=2)
    assert (stats["minValues"]["a"], stats["maxValues"]["a"]) == (1, 9)
    assert (stats["nullCount"]["a"], stats["numRecords"]) == (3, 8)


def test_a_group_of_nulls_does_not_hide_the_others(tmp_path: Path) -> None:
    """It has no bounds and needs none."""
    stats = stats_of(tmp_path, pa.table({"a": pa.array([None, None, 3])}), row_group_size=2)
    assert (stats["minValues"]["a"], stats["maxValues"]["a"]) == (3, 3)


def test_a_file_without_statistics_tells_its_rows_only(tmp_path: Path) -> None:
    """No statistics are better than wrong ones."""
    stats = stats_of(tmp_path, pa.table({"a": [1, 2]}), write_statistics=False)
    assert stats["numRecords"] == 2
    assert "a" not in stats.get("minValues", {})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_floats_that_json_cannot_hold_give_no_bound(tmp_path: Path, value: float) -> None:
    """The JSON stays valid, and no reader skips the file for a wrong bound."""
    stats = stats_of(tmp_path, pa.table({"a": [1.0, value], "b": [1, 2]}))
    most = stats["maxValues"].get("a")
    assert most is None or value < most or value != value


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


@given(values=st.lists(texts, min_size=1, max_size=6))
def test_bounds_of_texts_cover_every_value(
    tmp_path_factory: pytest.TempPathFactory, values: list[str]
) -> None:
    """However long and in whatever script; compared byte by byte, as readers do."""
    stats = stats_of(tmp_path_factory.mktemp("t"), pa.table({"a": values}))
    least, most = stats["minValues"].get("a"), stats["maxValues"].get("a")
    for value in values:
        data = value.encode()
        assert least is None or least.encode() <= data
        assert most is None or most.encode() >= data


def test_only_the_first_columns_are_indexed(tmp_path: Path) -> None:
    """A wide table does not blow up its log."""
    stats = stats_of(tmp_path, pa.table({f"c{n}": [n] for n in range(40)}))
    assert len(stats["minValues"]) == 32


def test_nested_columns_are_nested_objects(tmp_path: Path) -> None:
    """As Delta spells them; lists and maps have no bounds."""
    table = pa.table({"s": [{"a": 1, "b": {"c": "x"}}], "l": [[1, 2]]})
    stats = stats_of(tmp_path, table)
    assert stats["minValues"]["s"] == {"a": 1, "b": {"c": "x"}}
    assert "l" not in stats["minValues"]
