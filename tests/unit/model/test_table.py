"""Naming tables: what delta(...) takes and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from setpoint.errors import DefinitionError
from setpoint.model.table import delta


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"path": "a", "table": "b"},
        {"path": ""},
        {"path": "  "},
        {"path": "a\x00b"},
        {"table": ""},
        {"path": "a", "partition_by": ["d", "d"]},
        {"path": "a", "partition_by": ["d", ""]},
        {"path": "a", "evolve": "drop"},
    ],
)
def test_what_names_no_table_is_refused(arguments: dict[str, Any]) -> None:
    """At definition, with a code."""
    with pytest.raises(DefinitionError) as caught:
        delta(**arguments)
    assert caught.value.code == "SP-D01"


def test_the_first_partition_column_is_the_slice() -> None:
    """Further columns only divide the slice."""
    assert delta("a", partition_by=("d", "region")).slice_column == "d"
    assert delta("a", time="t").slice_column == "t"
    assert delta("a").slice_column is None


def test_secrets_are_not_shown() -> None:
    """Storage options hold keys; a table's text does not."""
    assert "hunter2" not in repr(delta("a", storage_options={"secret": "hunter2"}))


def test_what_a_publish_writes_is_in_the_definition() -> None:
    """Partitioning is; where the table lies and how it is reached is not."""
    one = delta("a", partition_by="d").definition()
    assert one == delta("b", partition_by="d", storage_options={"k": "v"}).definition()
    assert one != delta("a", partition_by="e").definition()
    assert one != delta("a", time="d").definition()
