"""What a function of rows may return for a column."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from setpoint.sources.values import fits

DAY = dt.date(2026, 4, 25)
NOON = dt.datetime(2026, 4, 25, 12)  # noqa: DTZ001
STRUCT = pa.struct([("a", pa.int64())])
MAP = pa.map_(pa.string(), pa.int32())


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, pa.int64()),
        (1, pa.int64()),
        (1, pa.float64()),
        (1.5, pa.float64()),
        (Decimal("1.5"), pa.decimal128(10, 2)),
        (1, pa.decimal128(10, 2)),
        (True, pa.bool_()),
        ("a", pa.string()),
        (b"a", pa.binary()),
        (DAY, pa.date32()),
        (NOON, pa.timestamp("us", "UTC")),
        (NOON, pa.timestamp("us")),
        ([1, None], pa.list_(pa.int64())),
        ({"a": 1}, STRUCT),
        ({}, STRUCT),
        ({"k": 1}, MAP),
    ],
)
def test_a_value_of_the_type_fits(value: Any, kind: Any) -> None:
    """And whatever Arrow makes of it without a loss."""
    assert fits(value, kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.0, pa.int64()),
        (True, pa.int64()),
        ("1", pa.int64()),
        ("1", pa.float64()),
        (1.5, pa.decimal128(10, 2)),
        (1, pa.bool_()),
        (1, pa.string()),
        ("a", pa.binary()),
        (NOON, pa.date32()),
        (1, pa.date32()),
        (DAY, pa.timestamp("us", "UTC")),
        (1777075200, pa.timestamp("us", "UTC")),
        (NOON.replace(tzinfo=dt.timezone.utc), pa.timestamp("us")),
        ([1.5], pa.list_(pa.int64())),
        ("ab", pa.list_(pa.string())),
        ({"a": "x"}, STRUCT),
        ({"b": 1}, STRUCT),
        ({"k": 1.5}, MAP),
    ],
)
def test_a_value_that_would_have_to_be_bent_does_not(value: Any, kind: Any) -> None:
    """Arrow would cut it, or take it for something else."""
    assert not fits(value, kind)
