from __future__ import annotations

import pytest

from setpoint.errors import DefinitionError
from setpoint.model.grain import Grain


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("day", "day"),
        ("hour", "hour"),
        ("week", "week"),
        ("month", "month"),
        ("15 minutes", "15 minutes"),
        ("15min", "15 minutes"),
        ("15m", "15 minutes"),
        ("1 minute", "1 minute"),
        ("minute", "1 minute"),
    ],
)
def test_spellings(text: str, canonical: str) -> None:
    """Every accepted spelling has one canonical text, which reads back as the same grain."""
    grain = Grain.parse(text)
    assert str(grain) == canonical
    assert Grain.parse(canonical) == grain
    assert Grain.parse(grain) is grain


@pytest.mark.parametrize("count", range(61))
def test_minutes_divide_the_hour(count: int) -> None:
    """Minutes are accepted if and only if they divide the hour and are fewer than its half."""
    if 1 <= count <= 30 and 60 % count == 0:
        assert Grain.parse(f"{count} minutes") == Grain("minute", count)
    else:
        with pytest.raises(DefinitionError):
            Grain.parse(f"{count} minutes")


@pytest.mark.parametrize(
    "text",
    ["daily", "hourly", "", "Day", " day", "day\n", "7m", "١٥m", "2 days", "year", "9" * 500, None],
)
def test_unknown_grain(text: str) -> None:
    """An unknown grain is refused with SP-D02, the allowed ones, and not the whole text."""
    with pytest.raises(DefinitionError) as error:
        Grain.parse(text)
    assert error.value.code == "SP-D02"
    assert "15, 20 or 30" in error.value.next
    assert len(str(error.value)) < 400


def test_constructor_refuses_what_parse_refuses() -> None:
    """A grain that could not be parsed cannot be constructed either."""
    with pytest.raises(DefinitionError):
        Grain("day", 2)
    with pytest.raises(DefinitionError):
        Grain("minute", 7)


@pytest.mark.parametrize(
    ("inner", "outer", "nests"),
    [
        ("day", "month", True),
        ("day", "week", True),
        ("week", "month", False),
        ("month", "week", False),
        ("month", "month", True),
        ("hour", "week", True),
        ("15m", "hour", True),
        ("15m", "day", True),
        ("15m", "month", True),
        ("15m", "30m", True),
        ("15m", "20m", False),
        ("20m", "15m", False),
        ("20m", "30m", False),
        ("12m", "20m", False),
        ("4m", "20m", True),
        ("hour", "15m", False),
        ("day", "hour", False),
    ],
)
def test_nesting(inner: str, outer: str, nests: bool) -> None:
    """A grain nests in another if each of its windows lies inside one window of the other."""
    assert Grain.parse(inner).nests_in(Grain.parse(outer)) is nests
