"""The slice: one rule for clipping, checking, replacing and telling."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpoint.errors import DefinitionError
from setpoint.model.grain import Grain
from setpoint.model.ranges import covering
from setpoint.model.slice import SliceRule, typed
from setpoint.model.window import Window

UTC = dt.timezone.utc
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]
INSTANTS = st.datetimes(
    dt.datetime.fromisoformat("2000-01-01"), dt.datetime.fromisoformat("2040-01-01")
)
GRAINS = ["15 minutes", "hour", "day", "week", "month"]


def rule(kind: str, every: str = "day", timezone: str = "UTC") -> SliceRule:
    return SliceRule.of("p", kind, Grain.parse(every), timezone)


@pytest.mark.parametrize("every", ["hour", "15 minutes"])
def test_a_date_cannot_tell_hours_apart(every: str) -> None:
    """An hourly window on a date column would own the rows of 23 others."""
    with pytest.raises(DefinitionError) as caught:
        rule("date", every)
    assert caught.value.code == "SP-D04"


@pytest.mark.parametrize(
    ("kind", "every", "timezone"),
    [
        ("double", "day", "UTC"),
        ("boolean", "day", "UTC"),
        ("binary", "day", "UTC"),
        ("timestamp_ntz", "hour", "Europe/Berlin"),
        ("integer", "15 minutes", "UTC"),
        ("long", "week", "UTC"),
        ("integer", "hour", "Europe/Berlin"),
    ],
)
def test_types_that_cannot_name_a_window_are_refused(kind: str, every: str, timezone: str) -> None:
    """Refused at once, not when rows have been lost."""
    with pytest.raises(DefinitionError) as caught:
        rule(kind, every, timezone)
    assert caught.value.code == "SP-D03"


@given(
    instant=INSTANTS,
    every=st.sampled_from(GRAINS),
    timezone=st.sampled_from(ZONES),
)
def test_every_instant_belongs_to_exactly_one_window(
    instant: dt.datetime, every: str, timezone: str
) -> None:
    """Of three windows in a row the middle one owns it, by value, by statistics and by index."""
    moment = instant.replace(tzinfo=UTC)
    window = Window.containing(moment, every, timezone)
    near = [window.previous(), window, window.next()]
    timed = rule("timestamp", every, timezone)
    assert [timed.holds(item, moment) for item in near] == [False, True, False]
    assert timed.index(near)(moment) == window
    assert [timed.overlaps(item, moment, moment) for item in near] == [False, True, False]
    named = rule("string", every, timezone)
    assert [named.holds(item, window.id) for item in near] == [False, True, False]
    if every in ("day", "week", "month"):
        dated = rule("date", every, timezone)
        day = moment.astimezone(window.start.tzinfo).date()
        assert [dated.holds(item, day) for item in near] == [False, True, False]


@given(
    instant=INSTANTS,
    every=st.sampled_from(GRAINS),
    timezone=st.sampled_from(ZONES),
)
def test_the_bounds_of_neighbours_meet(instant: dt.datetime, every: str, timezone: str) -> None:
    """Half-open: where one slice ends the next begins, on changing clocks too."""
    window = Window.containing(instant.replace(tzinfo=UTC), every, timezone)
    timed = rule("timestamp", every, timezone)
    assert timed.bounds(window)[1] == timed.bounds(window.next())[0]
    assert not timed.holds(window, timed.bounds(window)[1])
    assert timed.holds(window, timed.bounds(window)[0])


@pytest.mark.parametrize("every", ["day", "week", "month"])
@pytest.mark.parametrize(
    ("timezone", "day"),
    [
        ("America/Sao_Paulo", "2018-11-04"),  # begins at 01:00
        ("Africa/Cairo", "2023-04-28"),
        ("Asia/Beirut", "2026-03-29"),
        ("America/Sao_Paulo", "2018-02-18"),  # the hour before it came twice
        ("America/St_Johns", "2010-11-07"),  # begins a minute before that hour comes again
        ("Pacific/Apia", "2011-12-30"),  # never came
    ],
)
def test_a_local_time_belongs_to_the_window_of_its_date(
    timezone: str, day: str, every: str
) -> None:
    """One window owns it even if the clock never showed it, or showed it twice."""
    midnight = dt.datetime.fromisoformat(day)
    around = midnight.replace(tzinfo=UTC)
    near = covering(around - dt.timedelta(40), around + dt.timedelta(40), every, timezone)
    local, dated = rule("timestamp_ntz", every, timezone), rule("date", every, timezone)
    for quarter in range(-200, 200):
        time = midnight + quarter * dt.timedelta(minutes=15)
        (owner,) = (window for window in near if local.holds(window, time))
        assert [owner] == [window for window in near if dated.holds(window, time.date())]
        assert [owner] == [window for window in near if _selects(dated, window, time.date())]
        assert local.index(near)(time) == owner
        if every == "day" and (timezone, str(time.date())) != ("Pacific/Apia", "2011-12-30"):
            assert owner.id == str(time.date())


def _selects(dated: SliceRule, window: Window, day: dt.date) -> bool:
    """Whether the condition on a date, as it is written, holds for a day."""
    ends = [dt.date.fromisoformat(text) for text in re.findall("'(.*?)'", dated.predicate(window))]
    return ends[0] <= day < ends[1] if ends[1:] else day == ends[0]


def test_null_and_strange_values_belong_to_nobody() -> None:
    """A null partition is never replaced."""
    window = Window.parse("2026-04-25", every="day")
    for kind in ("date", "timestamp", "string", "integer"):
        assert not rule(kind).holds(window, None)
    assert not rule("string").holds(window, "2026-04-25 ")


def test_missing_statistics_may_hold_anything() -> None:
    """A file that does not tell its bounds is never taken for somebody else's."""
    window = Window.parse("2026-04-25", every="day")
    before, after = dt.date(2026, 4, 24), dt.date(2026, 4, 26)
    dated = rule("date")
    assert dated.overlaps(window, None, None)
    assert dated.overlaps(window, before, None)
    assert dated.overlaps(window, None, after)
    assert dated.overlaps(window, before, after)
    assert not dated.overlaps(window, after, None)
    assert not dated.overlaps(window, None, before)


@pytest.mark.parametrize(
    ("kind", "every", "text", "expected"),
    [
        ("date", "day", "2026-04-25", "`p` = DATE'2026-04-25'"),
        ("date", "month", "2026-04", "`p` >= DATE'2026-04-01' AND `p` < DATE'2026-05-01'"),
        (
            "timestamp",
            "hour",
            "2026-04-25T13",
            "`p` >= TIMESTAMP'2026-04-25 13:00:00+00:00' AND "
            "`p` < TIMESTAMP'2026-04-25 14:00:00+00:00'",
        ),
        ("string", "week", "2026-W17", "`p` = '2026-W17'"),
        ("long", "month", "2026-04", "`p` = 202604"),
    ],
)
def test_the_predicate_reads_like_the_slice(
    kind: str, every: str, text: str, expected: str
) -> None:
    """The condition in the table's history is the condition that was checked."""
    assert rule(kind, every).predicate(Window.parse(text, every=every)) == expected


def test_a_column_name_cannot_break_out_of_the_predicate() -> None:
    """Backticks in a name are doubled."""
    odd = SliceRule.of("a`b", "date", Grain.parse("day"), "UTC")
    assert odd.predicate(Window.parse("2026-04-25", every="day")).startswith("`a``b` = ")


@pytest.mark.parametrize(
    "text", ["2026-04-25 13:00:00", "2026-04-25 13:00:00.5", "2026-04-25T13:00:00.000001Z"]
)
def test_partition_texts_become_instants(text: str) -> None:
    """Hive's and Delta's spellings, fractions of any length included."""
    value = typed("timestamp", text)
    assert value.tzinfo is not None
    assert value.replace(microsecond=0) == dt.datetime(2026, 4, 25, 13, tzinfo=UTC)
