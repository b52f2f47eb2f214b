"""Every grain on every kind of partition column, on clocks that change."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from setpoint import DefinitionError, RefusedError, UsageError, Window, delta, source
from setpoint.flow.backfill import Request, plan_backfill
from setpoint.flow.execution import Execution

UTC = dt.timezone.utc
MINUTES = "15 minutes"


def at(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=UTC)


LOCAL = dt.datetime.fromisoformat("2026-04-25T13:01")
CASES = [
    ("hour", "2026-04-25T13", "2026-04-25T14", "timestamp", at(2026, 4, 25, 13, 59, 59, 999999)),
    ("hour", "2026-04-25T13", "2026-04-25T12", "timestamp", at(2026, 4, 25, 13)),
    (MINUTES, "2026-04-25T13:15", "2026-04-25T13:30", "timestamp", at(2026, 4, 25, 13, 29, 59)),
    (MINUTES, "2026-04-25T13:15", "2026-04-25T13:00", "timestamp", at(2026, 4, 25, 13, 15)),
    ("day", "2026-04-25", "2026-04-26", "timestamp", at(2026, 4, 25, 23, 59, 59, 500000)),
    ("hour", "2026-04-25T13", "2026-04-25T14", "timestamp_ntz", LOCAL),
    ("week", "2026-W17", "2026-W18", "date", dt.date(2026, 4, 26)),
    ("month", "2026-04", "2026-05", "date", dt.date(2026, 4, 30)),
    ("day", "2026-04-25", "2026-04-26", "date", dt.date(2026, 4, 25)),
    ("hour", "2026-04-25T13", "2026-04-25T14", "string", "2026-04-25T13"),
    (MINUTES, "2026-04-25T13:15", "2026-04-25T13:30", "string", "2026-04-25T13:15"),
    ("week", "2026-W17", "2026-W18", "string", "2026-W17"),
    ("month", "2026-04", "2026-05", "string", "2026-04"),
    ("day", "2026-04-25", "2026-04-26", "int", 20260425),
    ("month", "2026-04", "2026-05", "bigint", 202604),
]


def neighbour_value(kind: str, window: Window) -> Any:
    if kind == "string":
        return window.id
    if kind in ("int", "bigint"):
        return int(window.id.replace("-", ""))
    if kind == "date":
        return window.day
    return window.start if kind == "timestamp" else window.start.replace(tzinfo=None)


@pytest.mark.parametrize(("every", "here", "there", "kind", "value"), CASES)
def test_a_window_owns_its_slice_and_nothing_else(
    lab: Any, every: str, here: str, there: str, kind: str, value: Any
) -> None:
    """Publishing, replacing and emptying a window leaves the neighbouring window's file alone."""
    place = delta("out", partition_by="p")
    schema = f"id int, p {kind}"
    other = neighbour_value(kind, Window.parse(there, every=every))
    lab.run(lab.job([(9, other)], schema, every=every, target=place), there)
    neighbour = lab.live()
    for rows in ([(1, value)], [(2, value), (3, value)], []):
        lab.run(lab.job(rows, schema, every=every, target=place), here)
        assert sorted(row[0] for row in lab.rows()) == sorted([9, *(row[0] for row in rows)])
        assert neighbour.items() <= lab.live().items()
    again = lab.job([], schema, every=every, target=place)
    assert lab.run(again, here).state == "unchanged"
    values = {row[0]: row[1] for row in lab.rows()}
    assert values[9] == other


@pytest.mark.parametrize("where", ["definition", "existing table", "returned type"])
def test_an_hourly_pipeline_on_a_date_partition_is_refused(lab: Any, where: str) -> None:
    """Replacing a day's partition for one hour would wipe the other 23: nothing is written."""
    day = dt.date(2026, 4, 25)
    place = delta("out", partition_by="d")
    if where == "existing table":
        lab.run(lab.job([(1, day)], "id int, d date", target=place))
    if where == "definition":
        place = delta("out", partition_by="d", partition_every="day")
        with pytest.raises(DefinitionError) as caught:
            lab.job([(1, day)], "id int, d date", every="hour", target=place)
    else:
        hourly = lab.job([(1, day)], "id int, d date", every="hour", target=place)
        with pytest.raises(DefinitionError) as caught:
            lab.run(hourly, "2026-04-25T13")
    assert caught.value.code == "SP-D04"
    if where == "existing table":
        assert (lab.version(), lab.rows()) == (0, [(1, day)])
    else:
        assert not DeltaTable.is_deltatable(str(lab.root / "out"))
        assert lab.stages() == []


def test_a_timestamp_partition_of_whole_days_refuses_an_hourly_pipeline(lab: Any) -> None:
    """Rows of 13:00 that carry their day as a timestamp lie outside the window of 13:00."""
    place = delta("out", partition_by="p")
    hourly = lab.job([(1, at(2026, 4, 25))], "id int, p timestamp", every="hour", target=place)
    with pytest.raises(RefusedError) as caught:
        lab.run(hourly, "2026-04-25T13")
    assert caught.value.code == "SP-O02"


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2026-03-29", at(2026, 3, 28, 23), at(2026, 3, 29, 22)),
        ("2026-10-25", at(2026, 10, 24, 22), at(2026, 10, 25, 23)),
    ],
)
def test_days_on_which_the_clock_changes_are_cut_exactly(
    lab: Any, text: str, first: dt.datetime, last: dt.datetime
) -> None:
    """The 23- and the 25-hour day hold their first and last microsecond and no more."""
    berlin: dict[str, Any] = {"target": delta("out", partition_by="p"), "timezone": "Europe/Berlin"}
    tick = dt.timedelta(microseconds=1)
    inside = [(1, first), (2, last - tick)]
    lab.run(lab.job(inside, "id int, p timestamp", **berlin), text)
    assert sorted(row[0] for row in lab.rows()) == [1, 2]
    for stray in (first - tick, last):
        with pytest.raises(RefusedError):
            lab.run(lab.job([(3, stray)], "id int, p timestamp", **berlin), text)
    lab.run(lab.job([(4, first)], "id int, p timestamp", **berlin), text)
    assert [row[0] for row in lab.rows()] == [4]


@pytest.mark.parametrize("kind", ["timestamp", "string"])
def test_an_hour_that_occurs_twice_is_two_slices(lab: Any, kind: str) -> None:
    """Both hours called 02 of an autumn night are published, replaced and kept apart."""
    berlin: dict[str, Any] = {"target": delta("out", partition_by="p"), "timezone": "Europe/Berlin"}
    hours = {"2026-10-25T02+0200": at(2026, 10, 25, 0), "2026-10-25T02+0100": at(2026, 10, 25, 1)}
    schema = f"id int, p {kind}"
    for number, (text, start) in enumerate(hours.items()):
        value = start if kind == "timestamp" else text
        lab.run(lab.job([(number, value)], schema, every="hour", **berlin), text)
    assert sorted(row[0] for row in lab.rows()) == [0, 1]
    text, start = next(iter(hours.items()))
    value = start if kind == "timestamp" else text
    lab.run(lab.job([(7, value)], schema, every="hour", **berlin), text)
    assert sorted(row[0] for row in lab.rows()) == [1, 7]


HOSTILE = ["a b", "a/b", "100%", "a%2Fb", "ä€𐍈", "x=y", "#?&+", "[a]{b}*", "it's", None, "00123"]


def test_extra_partition_columns_with_hostile_values(lab: Any) -> None:
    """Blanks, slashes, percent signs, other scripts and nulls come back as they went in."""
    place = delta("out", partition_by=("d", "region"))
    day, schema = dt.date(2026, 4, 25), "id int, d date, region string"
    rows = [(number, day, region) for number, region in enumerate(HOSTILE)]
    job = lab.job(rows, schema, target=place)
    lab.run(job)
    assert lab.rows() == sorted(rows, key=repr)
    assert lab.state(job).receipt.files is not None
    assert lab.run(job).state == "unchanged"
    other = [(100, dt.date(2026, 4, 26), "a/b")]
    lab.run(lab.job(other, schema, target=place), "2026-04-26")
    lab.run(lab.job(rows[:2], schema, target=place))
    assert lab.rows() == sorted([*rows[:2], *other], key=repr)


def test_hostile_partition_values_in_a_source(lab: Any) -> None:
    """A source whose folders are escaped is read file by file without losing one."""
    place = delta("lake", partition_by=("d", "region"))
    day, schema = dt.date(2026, 4, 25), "id int, d date, region string"
    rows = [(number, day, region) for number, region in enumerate(HOSTILE)]
    lab.run(lab.job(rows, schema, target=place))

    def copied(window: Window, lake: Any = source(delta("lake"), time="d")) -> Any:
        return lake

    lab.run(lab.define(copied, name="copied"))
    assert lab.rows() == sorted(rows, key=repr)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("boolean", True), ("double", 0.1), ("decimal(9,2)", "12.50"), ("bigint", -5)],
)
def test_extra_partition_columns_of_other_types(lab: Any, kind: str, value: Any) -> None:
    """The value in the log is the value in the row."""
    value = Decimal(value) if isinstance(value, str) else value
    place = delta("out", partition_by=("d", "x"))
    day = dt.date(2026, 4, 25)
    job = lab.job([(1, day, value), (2, day, None)], f"id int, d date, x {kind}", target=place)
    lab.run(job)
    assert lab.rows() == [(1, day, value), (2, day, None)]


@pytest.mark.parametrize("name", ["with blank", "ünï", "a=b", "it's", "100%"])
def test_a_table_below_an_odd_folder(lab: Any, name: str) -> None:
    """Folders are taken literally, whatever characters they hold."""
    day = dt.date(2026, 4, 25)
    place = delta(f"{name}/out", partition_by="d")
    for rows in ([(1, day)], [(2, day)]):
        lab.run(lab.job(rows, "id int, d date", target=place))
        assert lab.rows(f"{name}/out") == rows


@pytest.mark.parametrize("name", ["100%25", "hash#tag", "what?"])
def test_a_folder_that_deltalake_misreads_is_refused(lab: Any, name: str) -> None:
    """A root that reads like a URL would be taken for another place: nothing is written."""
    place = delta(f"{name}/out", partition_by="d")
    with pytest.raises(UsageError):
        lab.run(lab.job([(1, dt.date(2026, 4, 25))], "id int, d date", target=place))
    assert not (lab.root / name).exists()


def test_local_times_that_the_clock_never_showed_or_showed_twice(lab: Any) -> None:
    """Alone, in one call, in one chunk: a row is in the window of its date, and there once."""
    zone, days = "America/Sao_Paulo", "2018-02-17..2018-02-18,2018-11-03..2018-11-04"
    held = source(delta("in"), time="at")
    by_date = delta("dated", partition_by="d")
    by_time = delta("timed", partition_by="at")
    ways = [(by_date, True, 1), (by_time, False, 9), (by_date, False, 9), (by_time, True, 9)]
    for number, (target, spans, longest) in enumerate(ways):
        rows = [
            (number, dt.datetime.fromisoformat(f"{day}T{time}"))
            for day, times in {
                "2018-02-17": ["22:40", "23:00", "23:00"],  # 23:00 to 23:59 came twice
                "2018-02-18": ["00:00", "00:20", "01:00"],
                "2018-11-03": ["22:40", "23:00", "23:40"],
                "2018-11-04": ["00:00", "00:40", "01:00"],  # began at 01:00
            }.items()
            for time in times
        ]
        frame = lab.frame(rows, "id int, at timestamp_ntz").coalesce(1)
        frame.write.format("delta").mode("overwrite").save(str(lab.root / "in"))
        job = lab.define(
            lambda window, rows=held: rows.withColumn("d", F.to_date("at")),
            target=target,
            name="dated" if target is by_date else "timed",
            timezone=zone,
            spans=spans,
        )
        world, asked = lab.world(), Request(only=("all",), longest=longest)
        windows = lab.windows(job, days)
        plan = plan_backfill(lab.bind(job), world, world.now(), asked, {}, windows)
        ended = list(Execution(plan, world).run())
        assert [end.outcome and end.outcome.receipt.rows for end in ended] == [3] * 4
        assert sorted(row[:2] for row in lab.rows(job.name)) == rows
