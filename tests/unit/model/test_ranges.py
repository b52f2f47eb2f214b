from __future__ import annotations

import datetime as dt
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setpoint.errors import UsageError
from setpoint.model.grain import MINUTE_COUNTS, Grain
from setpoint.model.ranges import covering, parse_windows, windows_between
from setpoint.model.window import Window

UTC = dt.timezone.utc


def at(
    year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0
) -> dt.datetime:
    return dt.datetime(year, month, day, hour, minute, second, tzinfo=UTC)


GRAINS = [Grain("minute", n) for n in MINUTE_COUNTS]
GRAINS += [Grain("hour"), Grain("day"), Grain("week"), Grain("month")]
# A zone with the UTC instant of one of its unusual changes of the clock, and an ordinary one.
CHANGES = [
    ("UTC", at(2028, 2, 29)),
    ("Africa/Cairo", at(2024, 4, 25, 22)),
    ("America/Havana", at(2026, 11, 1, 5)),
    ("America/St_Johns", at(2010, 11, 7, 2, 31)),
    ("America/Toronto", at(1919, 3, 31, 4, 30)),
    ("Asia/Kathmandu", at(1985, 12, 31, 18, 30)),
    ("Asia/Pyongyang", at(2018, 5, 4, 15)),
    ("Australia/Lord_Howe", at(2026, 4, 4, 15)),
    ("Australia/Lord_Howe", at(2026, 10, 3, 15, 30)),
    ("Europe/Berlin", at(2026, 3, 29, 1)),
    ("Europe/Berlin", at(2026, 10, 25, 1)),
    ("Pacific/Apia", at(2011, 12, 30, 10)),
    ("Pacific/Kwajalein", at(1969, 9, 30, 13)),
]


def utc(moment: dt.datetime) -> dt.datetime:
    return moment.astimezone(UTC)


def ids(windows: tuple[Window, ...]) -> list[str]:
    return [window.id for window in windows]


def code_of(text: str, every: str) -> str:
    with pytest.raises(UsageError) as error:
        parse_windows(text, every)
    return error.value.code


@settings(max_examples=200)
@given(
    st.sampled_from(CHANGES),
    st.sampled_from(GRAINS),
    st.floats(0, 1),
    st.integers(1, 120),
)
def test_ranges_are_disjoint_ordered_and_cover(
    change: tuple[str, dt.datetime], grain: Grain, share: float, length: int
) -> None:
    """The windows of any interval touch without overlap, cover it exactly, and differ in id."""
    zone, instant = change
    # `length` windows, of which `share` lie before the change of the clock.
    span = length * dt.timedelta(minutes=grain.nominal_minutes)
    start = instant - share * span
    end = start + span
    windows = covering(start, end, grain, zone)
    assert utc(windows[0].start) <= start < utc(windows[0].end)
    assert utc(windows[-1].start) < end <= utc(windows[-1].end)
    for left, right in pairwise(windows):
        assert utc(left.end) == utc(right.start)
        assert left < right
    assert all(window.duration > dt.timedelta() for window in windows)
    assert len(set(ids(windows))) == len(windows)
    assert windows_between(windows[0], windows[-1]) == windows
    assert parse_windows(f"{windows[0].id}..{windows[-1].id}", grain, zone) == windows


def test_items_and_lists() -> None:
    """A list gives its windows in order of time and once each."""
    assert ids(parse_windows("2026-04-25", "day")) == ["2026-04-25"]
    assert ids(parse_windows("2026-04-30..2026-05-02", "day")) == [
        "2026-04-30",
        "2026-05-01",
        "2026-05-02",
    ]
    mixed = "2026-05-02, 2026-04-30..2026-05-01,2026-05-01 .. 2026-05-02"
    assert ids(parse_windows(mixed, "day")) == ["2026-04-30", "2026-05-01", "2026-05-02"]


@pytest.mark.parametrize(
    ("text", "every", "zone", "first", "last", "count"),
    [
        ("2026-04..2026-05", "day", "UTC", "2026-04-01", "2026-05-31", 61),
        ("2026-04-25", "hour", "UTC", "2026-04-25T00", "2026-04-25T23", 24),
        ("2026-03-29", "hour", "Europe/Berlin", "2026-03-29T00", "2026-03-29T23", 23),
        ("2026-10-25", "hour", "Europe/Berlin", "2026-10-25T00", "2026-10-25T23", 25),
        ("2026-W17", "day", "UTC", "2026-04-20", "2026-04-26", 7),
        ("2026-04-25T13", "15m", "UTC", "2026-04-25T13:00", "2026-04-25T13:45", 4),
        ("2026-04-20..2026-04", "day", "UTC", "2026-04-20", "2026-04-30", 11),
        ("2028-02", "day", "UTC", "2028-02-01", "2028-02-29", 29),
        ("2026-W52..2027-W01", "week", "UTC", "2026-W52", "2027-W01", 3),
        ("2011-12", "day", "Pacific/Apia", "2011-12-01", "2011-12-31", 30),
        ("9998-12", "day", "UTC", "9998-12-01", "9998-12-31", 31),
    ],
)
def test_coarser_ids_stand_for_their_windows(
    text: str, every: str, zone: str, first: str, last: str, count: int
) -> None:
    """A coarser id expands to all windows of the pipeline's grain that lie in it."""
    windows = parse_windows(text, every, zone)
    assert (windows[0].id, windows[-1].id, len(windows)) == (first, last, count)


@pytest.mark.parametrize(
    ("text", "every", "code"),
    [
        ("", "day", "SP-W01"),
        ("2026-04-25,", "day", "SP-W01"),
        ("2026-04-25..", "day", "SP-W03"),
        ("..2026-04-25", "day", "SP-W03"),
        ("2026-04-25..2026-04-26..2026-04-27", "day", "SP-W01"),
        ("2026-04-25...2026-04-26", "day", "SP-W01"),
        ("2026-04-25\n,2026-04-26", "day", "SP-W01"),
        ("2026-04-26..2026-04-25", "day", "SP-W03"),
        ("2026-05..2026-04-30", "day", "SP-W03"),
        ("2026-04-25T13", "day", "SP-W02"),
        ("2026-04", "week", "SP-W02"),
        ("2026-04-25T13:10", "15m", "SP-W02"),
        ("1600-01..9000-01", "1 minute", "SP-W03"),
    ],
)
def test_refusals(text: str, every: str, code: str) -> None:
    """What is not a list of windows of the grain, in order and of bearable length, is refused."""
    assert code_of(text, every) == code


def test_windows_between_needs_one_grain_and_zone() -> None:
    """Windows of different pipelines do not make a range."""
    day = Window.parse("2026-04-25")
    for other in (Window.parse("2026-04"), Window.parse("2026-04-26", None, "Asia/Tokyo")):
        with pytest.raises(UsageError, match="one grain"):
            windows_between(day, other)
    with pytest.raises(UsageError, match="ends before"):
        windows_between(day, day.previous())
    assert windows_between(day, day) == (day,)


def test_covering_an_empty_or_reversed_interval() -> None:
    """Nothing covers an interval without instants; a reversed one is refused."""
    noon = at(2026, 4, 25, 12)
    assert covering(noon, noon, "day") == ()
    assert ids(covering(noon, noon + dt.timedelta(hours=12), "day")) == ["2026-04-25"]
    assert len(covering(noon, noon + dt.timedelta(hours=13), "day")) == 2
    with pytest.raises(UsageError, match="ends before"):
        covering(noon, noon - dt.timedelta(hours=1), "day")
