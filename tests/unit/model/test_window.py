from __future__ import annotations

import copy
import datetime as dt
import pickle
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setpoint.errors import UsageError
from setpoint.model.grain import MINUTE_COUNTS, Grain
from setpoint.model.window import Window

UTC = dt.timezone.utc


def at(
    year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0
) -> dt.datetime:
    return dt.datetime(year, month, day, hour, minute, second, tzinfo=UTC)


HOUR = dt.timedelta(hours=1)
GRAINS = [Grain("minute", n) for n in MINUTE_COUNTS]
GRAINS += [Grain("hour"), Grain("day"), Grain("week"), Grain("month")]
ZONES = [
    "UTC",
    "Africa/Cairo",  # midnight is skipped
    "Africa/Casablanca",  # the clock changes around Ramadan
    "Africa/Monrovia",  # offsets with seconds until 1972
    "America/Havana",  # midnight occurs twice
    "America/Juneau",  # repeated a day in 1867
    "America/New_York",
    "America/Sao_Paulo",  # midnight was skipped until 2018
    "America/St_Johns",  # put back over midnight, at 00:01, until 2010
    "America/Toronto",  # 23:30 to 00:30 in 1919
    "Asia/Beirut",
    "Asia/Kathmandu",  # 45 minutes
    "Asia/Pyongyang",  # changes by half an hour in 2015 and 2018
    "Australia/Lord_Howe",  # summer time is half an hour
    "Europe/Berlin",
    "Pacific/Apia",  # skipped 2011-12-30
    "Pacific/Chatham",
    "Pacific/Kwajalein",  # skipped a day in 1993, a day of 47 hours in 1969
]
zones = st.sampled_from(ZONES)
grains = st.sampled_from(GRAINS)
# Instants near a change of the clock matter most and are rare among all instants.
CHANGES = [
    ("Africa/Cairo", at(2024, 4, 25, 22)),
    ("America/Havana", at(2026, 11, 1, 5)),
    ("America/Sao_Paulo", at(2018, 11, 4, 3)),
    ("America/St_Johns", at(2010, 11, 7, 2, 31)),
    ("America/Toronto", at(1919, 3, 31, 4, 30)),
    ("Asia/Pyongyang", at(2015, 8, 14, 15)),
    ("Asia/Pyongyang", at(2018, 5, 4, 15)),
    ("Australia/Lord_Howe", at(2026, 4, 4, 15)),
    ("Australia/Lord_Howe", at(2026, 10, 3, 15, 30)),
    ("Europe/Berlin", at(2026, 3, 29, 1)),
    ("Europe/Berlin", at(2026, 10, 25, 1)),
    ("Pacific/Apia", at(2011, 12, 30, 10)),
    ("Pacific/Kwajalein", at(1969, 9, 30, 13)),
    ("America/Juneau", at(1867, 10, 19, 0, 31, 13)),
]


@st.composite
def moments(draw: st.DrawFn) -> tuple[dt.datetime, str]:
    """An instant and a zone: half of them anywhere, half within two days of a clock change."""
    if draw(st.booleans()):
        first, last = (at(year, 1, 1).replace(tzinfo=None) for year in (1584, 9998))
        return draw(st.datetimes(first, last, timezones=st.just(UTC))), draw(zones)
    zone, change = draw(st.sampled_from(CHANGES))
    seconds = draw(st.integers(-172_800, 172_800))
    return change + dt.timedelta(seconds=seconds), zone


def utc(moment: dt.datetime) -> dt.datetime:
    return moment.astimezone(UTC)


def code_of(text: object, every: str | None = None, timezone: str = "UTC") -> str:
    with pytest.raises(UsageError) as error:
        Window.parse(text, every, timezone)  # type: ignore[arg-type]
    assert len(str(error.value)) < 400
    assert "\n" not in str(error.value)
    assert error.value.next
    return error.value.code


@settings(max_examples=300)
@given(moments(), grains)
def test_containing_and_id_round_trip(moment: tuple[dt.datetime, str], grain: Grain) -> None:
    """The window at an instant contains it and is the one that its id names."""
    instant, zone = moment
    window = Window.containing(instant, grain, zone)
    assert utc(window.start) <= instant < utc(window.end)
    assert window.contains(instant)
    assert not window.contains(window.end)
    assert Window.parse(window.id, grain, zone) == window
    assert Window.containing(window.start, grain, zone) == window
    assert ":" not in window.slug


@settings(max_examples=300)
@given(moments(), grains)
def test_next_and_previous_are_inverse(moment: tuple[dt.datetime, str], grain: Grain) -> None:
    """Neighbours touch, are ordered, have other ids, and lead back to where one came from."""
    instant, zone = moment
    window = Window.containing(instant, grain, zone)
    after, before = window.next(), window.previous()
    assert utc(before.end) == utc(window.start)
    assert utc(window.end) == utc(after.start)
    assert before < window < after
    assert len({before.id, window.id, after.id}) == 3
    assert after.previous() == window == before.next()


@settings(max_examples=200)
@given(moments(), grains, grains)
def test_nesting_holds_on_the_clock(
    moment: tuple[dt.datetime, str], inner: Grain, outer: Grain
) -> None:
    """Where one grain nests in another, no window of it crosses a bound of the other's."""
    instant, zone = moment
    small = Window.containing(instant, inner, zone)
    large = Window.containing(instant, outer, zone)
    if inner.nests_in(outer):
        assert utc(large.start) <= utc(small.start) < utc(small.end) <= utc(large.end)


@settings(max_examples=200)
@given(moments(), grains)
def test_latest_complete(moment: tuple[dt.datetime, str], grain: Grain) -> None:
    """The latest complete window has ended, and the one after it has not."""
    now, zone = moment
    window = Window.latest_complete(now, grain, zone)
    assert utc(window.end) <= now < utc(window.next().end)


def test_latest_complete_at_the_very_end() -> None:
    """A window is complete at the instant at which it ends."""
    midnight = at(2026, 4, 26)
    assert Window.latest_complete(midnight, "day").id == "2026-04-25"
    assert Window.latest_complete(midnight - HOUR, "day").id == "2026-04-24"


@pytest.mark.parametrize(
    ("text", "every", "start", "end"),
    [
        ("2026-04-25", None, at(2026, 4, 25), at(2026, 4, 26)),
        ("2026-04-25T13", None, at(2026, 4, 25, 13), at(2026, 4, 25, 14)),
        ("2026-04-25T13:15", "15m", at(2026, 4, 25, 13, 15), at(2026, 4, 25, 13, 30)),
        ("2026-04-25T23:40", "20m", at(2026, 4, 25, 23, 40), at(2026, 4, 26)),
        ("2026-W17", None, at(2026, 4, 20), at(2026, 4, 27)),
        ("2026-W53", None, at(2026, 12, 28), at(2027, 1, 4)),
        ("2027-W01", None, at(2027, 1, 4), at(2027, 1, 11)),
        ("2025-W01", None, at(2024, 12, 30), at(2025, 1, 6)),
        ("2026-04", None, at(2026, 4, 1), at(2026, 5, 1)),
        ("2026-12", None, at(2026, 12, 1), at(2027, 1, 1)),
        ("2028-02", None, at(2028, 2, 1), at(2028, 3, 1)),
        ("2028-02-29", None, at(2028, 2, 29), at(2028, 3, 1)),
    ],
)  # fmt: skip
def test_ids(text: str, every: str | None, start: dt.datetime, end: dt.datetime) -> None:
    """Each shape of id names its window, and the window prints the same id."""
    window = Window.parse(text, every)
    assert window.start == start
    assert window.end == end
    assert window.id == str(window) == text
    assert window.day == start.date()


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "2026", "2026-4-25", "2026-13", "2026-00", "2026-02-29", "2027-W53", "2026-W00",
        "2026-04-25T24", "2026-04-25T13:60", "2026-04-25\n", "\n2026-04-25", "../2026-04-25",
        "2026-04-25/../..", "２０２６-04-25", "٢٠٢٦-04-25", "2026-04-25 ", "2026-04-25T13:15:00",
        "2026-04-25Z", "2026-04-25+0000", "-026-04-25", "0000-01-01", "0000-W01", "0001-01-01",
        "0206-04-25", "9999-12-31", "9999-12", "9999-W52", "2026-04-25\x00", "1" * 10_000,
        "2026-04-25T13+9999", "2026-w17", None, 20260425, ["2026-04-25"],
    ],
)  # fmt: skip
def test_what_is_not_an_id(text: object) -> None:
    """Garbage, hostile text and years without windows are refused with SP-W01 in one line."""
    assert code_of(text) == "SP-W01"


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("2026-04-25T13:15", None),
        ("2026-04-25T13:10", "15m"),
        ("2026-04-25T13", "day"),
        ("2026-04-25", "hour"),
        ("2026-04-25T13", "15m"),
        ("2026-04-25T13:00", "hour"),
        ("2026-W17", "day"),
        ("2026-04", "week"),
    ],
)
def test_id_of_another_grain(text: str, every: str | None) -> None:
    """An id that is well formed but does not fit the grain is refused with SP-W02."""
    assert code_of(text, every) == "SP-W02"


@pytest.mark.parametrize(
    "timezone",
    ["Mars/Olympus", "", "America", "../etc/passwd", "/etc/localtime", "localtime",
     "right/Europe/Berlin", "UTC\n", "UTC\x00", "x" * 5000, None],
)  # fmt: skip
def test_unknown_zone(timezone: str) -> None:
    """A zone that is unknown, or that depends on the machine, is refused with SP-W04."""
    assert code_of("2026-04-25", None, timezone) == "SP-W04"


def test_time_without_zone() -> None:
    """A datetime without a zone is refused, because guessing one shifts the window."""
    with pytest.raises(UsageError, match="no time zone"):
        Window.containing(at(2026, 4, 25).replace(tzinfo=None), "day")


def test_days_of_23_and_25_hours() -> None:
    """A day lasts from midnight to midnight on the local clock, whatever time passes."""
    short = Window.parse("2026-03-29", "day", "Europe/Berlin")
    long = Window.parse("2026-10-25", "day", "Europe/Berlin")
    assert short.duration == 23 * HOUR
    assert long.duration == 25 * HOUR
    assert short.next().start.hour == long.next().start.hour == 0


def test_hour_that_occurs_twice() -> None:
    """The two hours have distinct ids, starts, keys, and the bare id is refused as ambiguous."""
    first = Window.parse("2026-10-25T02+0200", "hour", "Europe/Berlin")
    second = Window.parse("2026-10-25T02+0100", "hour", "Europe/Berlin")
    assert (first.id, second.id) == ("2026-10-25T02+0200", "2026-10-25T02+0100")
    assert first.next() == second
    assert first != second
    assert len({first, second}) == 2
    assert first < second <= second
    assert utc(first.start) + HOUR == utc(second.start)
    assert first.duration == second.duration == HOUR
    with pytest.raises(UsageError, match=r"T02\+0200 or 2026-10-25T02\+0100") as error:
        Window.parse("2026-10-25T02", "hour", "Europe/Berlin")
    assert error.value.code == "SP-W01"
    quarter = Window.parse("2026-10-25T02:45+0200", "15m", "Europe/Berlin")
    assert quarter.next().id == "2026-10-25T02:00+0100"
    assert quarter.next().slug == "2026-10-25T0200+0100"


def test_offset_is_accepted_where_it_is_not_needed() -> None:
    """A right offset is accepted on any hour and left out of the id; a wrong one is refused."""
    window = Window.parse("2026-04-25T13+0200", "hour", "Europe/Berlin")
    assert window.id == "2026-04-25T13"
    assert code_of("2026-04-25T13+0100", "hour", "Europe/Berlin") == "SP-W01"


def test_what_the_clock_skipped() -> None:
    """Hours and days that the local clock never showed have no window."""
    assert code_of("2026-03-29T02", "hour", "Europe/Berlin") == "SP-W01"
    assert code_of("2026-03-29T02:15", "15m", "Europe/Berlin") == "SP-W01"
    assert Window.parse("2026-03-29T01", "hour", "Europe/Berlin").next().id == "2026-03-29T03"
    assert code_of("2011-12-30", "day", "Pacific/Apia") == "SP-W01"
    assert Window.parse("2011-12-29", "day", "Pacific/Apia").next().id == "2011-12-31"


def test_half_hour_summer_time() -> None:
    """On Lord Howe Island the hours around a change are shorter, without overlap or hole."""
    zone = "Australia/Lord_Howe"
    back = Window.parse("2026-04-05T01+1100", "hour", zone)
    assert back.duration == HOUR
    assert back.next().id == "2026-04-05T01+1030"
    assert back.next().duration == HOUR / 2
    assert back.next().next().id == "2026-04-05T02"
    forward = Window.parse("2026-10-04T02", "hour", zone)
    assert (forward.start.hour, forward.start.minute) == (2, 30)
    assert forward.duration == HOUR / 2
    assert forward.previous().id == "2026-10-04T01"
    assert Window.parse("2026-10-04", "day", zone).duration == 23.5 * HOUR


@pytest.mark.parametrize(
    ("zone", "day", "starts", "hours"),
    [
        ("America/Sao_Paulo", "2018-11-04", "01:00", 23),
        ("Africa/Cairo", "2024-04-26", "01:00", 23),
        ("Asia/Beirut", "2026-03-29", "01:00", 23),
        ("America/Toronto", "1919-03-31", "00:30", 23.5),
        ("America/Havana", "2026-11-01", "00:00", 25),
        ("America/St_Johns", "2010-11-07", "00:00", 25),
        ("Asia/Pyongyang", "2015-08-14", "00:00", 24.5),
        ("Pacific/Kwajalein", "1969-09-30", "00:00", 47),
    ],
)
def test_midnight_skipped_or_shown_twice(zone: str, day: str, starts: str, hours: float) -> None:
    """A day starts at the first instant at which the local clock shows it."""
    window = Window.parse(day, "day", zone)
    assert f"{window.start:%H:%M}" == starts
    assert window.start.fold == 0
    assert window.duration == hours * HOUR
    assert window.day.isoformat() == window.id == day


def test_ends_of_time() -> None:
    """Beyond the first and the last window there is a clear error, not an overflow."""
    for instant in (dt.datetime.min.replace(tzinfo=UTC), dt.datetime.max.replace(tzinfo=UTC)):
        for zone in ("UTC", "Pacific/Apia", "America/New_York"):
            with pytest.raises(UsageError, match="no window"):
                Window.containing(instant, "day", zone)
    eastern = dt.timezone(dt.timedelta(hours=14))
    with pytest.raises(UsageError, match="no window"):
        Window.containing(dt.datetime.min.replace(tzinfo=eastern), "day")
    with pytest.raises(UsageError, match="9998"):
        Window.parse("9998-12-31").next()
    with pytest.raises(UsageError, match="1583"):
        Window.parse("1583-01").previous()


def test_equality_is_by_instants_grain_and_zone() -> None:
    """Equal bounds are not enough: grain and zone belong to what a window is."""
    utc_hour = Window.parse("2026-04-25T13")
    assert utc_hour == Window.parse("2026-04-25T13", "hour")
    assert utc_hour != Window.parse("2026-04-25T15", "hour", "Europe/Berlin")
    assert utc_hour != Window.parse("2026-04-25T13:00", "30m")
    assert utc_hour != "2026-04-25T13"
    with pytest.raises(TypeError):
        assert utc_hour < "2026-04-25T14"


def test_copies_are_equal() -> None:
    """A window survives pickling and copying, also in the second of two equal hours."""
    window = Window.parse("2026-10-25T02+0100", "hour", "Europe/Berlin")
    assert pickle.loads(pickle.dumps(window)) == copy.deepcopy(window) == window
    assert pickle.loads(pickle.dumps(window)).id == window.id


def test_repr_is_short() -> None:
    """The repr names id, grain, and the zone where it is not UTC."""
    assert repr(Window.parse("2026-04-25")) == "Window(2026-04-25, day)"
    berlin = Window.parse("2026-W17", None, "Europe/Berlin")
    assert repr(berlin) == "Window(2026-W17, week, Europe/Berlin)"


def test_import_is_light() -> None:
    """Importing windows imports neither pyspark nor any other installed package."""
    script = (
        "import sys; before = set(sys.modules); import setpoint.model.window;"
        "new = {name.partition('.')[0].lstrip('_') for name in set(sys.modules) - before};"
        "names = {name.lstrip('_') for name in sys.stdlib_module_names} | {'setpoint', 'org'};"
        "print([name for name in new - names if not name.startswith('sysconfigdata')])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
