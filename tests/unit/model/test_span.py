"""Spans: windows that follow each other, and what they refuse to be."""

from __future__ import annotations

import datetime as dt

import pytest

from setpoint import Span, Window, logical_time
from setpoint.errors import SetpointError
from setpoint.model.moment import during
from setpoint.model.ranges import parse_windows
from setpoint.model.slice import SliceRule


def span(text: str, every: str = "day", timezone: str = "UTC") -> Span:
    return Span(parse_windows(text, every, timezone))


def test_a_span_goes_from_its_first_window_to_its_last() -> None:
    found = span("2026-04-01..2026-04-03")
    assert (found.id, len(found)) == ("2026-04-01..2026-04-03", 3)
    assert found.start.date() == dt.date(2026, 4, 1)
    assert found.end.date() == dt.date(2026, 4, 4)
    assert found.contains(dt.datetime(2026, 4, 3, 23, tzinfo=dt.timezone.utc))
    assert not found.contains(found.end)
    assert span("2026-04-01").id == "2026-04-01"


def test_a_gap_another_grain_and_nothing_are_no_spans() -> None:
    day, hour = Window.parse("2026-04-01"), Window.parse("2026-04-02T00")
    for windows in ((), (day, Window.parse("2026-04-03")), (day, hour), (day, day)):
        with pytest.raises(ValueError, match=r"window|follow"):
            Span(windows)


def test_clock_changes_leave_no_gap() -> None:
    assert len(span("2026-03-28..2026-03-30", timezone="Europe/Berlin")) == 3
    assert len(span("2026-10-25T00..2026-10-25T05", "hour", "Europe/Berlin")) == 7


@pytest.mark.parametrize("name", ["day", "date"])
def test_a_span_has_no_one_date(name: str) -> None:
    with pytest.raises(SetpointError) as told:
        getattr(span("2026-04-01..2026-04-02"), name)
    assert told.value.code == "SP-D11"


def test_a_span_has_no_one_logical_time() -> None:
    with during(span("2026-04-01..2026-04-02")), pytest.raises(SetpointError) as told:
        logical_time()
    assert told.value.code == "SP-N02"


def test_the_slice_of_a_span_is_that_of_its_windows_together() -> None:
    days = span("2026-04-01..2026-04-03")
    by_date, by_name = SliceRule("d", "date"), SliceRule("d", "string")
    assert by_date.predicate(days) == "`d` >= DATE'2026-04-01' AND `d` < DATE'2026-04-04'"
    assert by_name.predicate(days) == "`d` IN ('2026-04-01', '2026-04-02', '2026-04-03')"
    assert by_date.only_value(days) is None
    assert by_date.only_value(span("2026-04-01")) == "2026-04-01"
    assert by_name.holds(days, "2026-04-02")
    assert not by_name.holds(days, "2026-04-04")
    assert by_name.overlaps(days, "2026-04-03", "2026-04-09")
    assert not by_name.overlaps(days, "2026-04-04", "2026-04-09")
