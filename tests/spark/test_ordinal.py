"""The window of a row, as Spark computes it: the same as Python says, at every edge."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pyspark.sql import functions as F

from setpoint.model.grain import Grain
from setpoint.model.ranges import parse_windows
from setpoint.model.slice import SliceRule
from setpoint.spark import ordinal
from setpoint.spark.ordinal import window_ordinal

MICROSECOND = dt.timedelta(microseconds=1)
CASES = [
    ("date", "day", "UTC", "2026-02-26..2026-03-02"),
    ("date", "month", "UTC", "2025-12..2026-03"),
    ("timestamp", "day", "UTC", "2026-02-26..2026-03-02"),
    ("timestamp", "day", "Europe/Berlin", "2026-03-27..2026-03-31"),
    ("timestamp", "hour", "Europe/Berlin", "2026-10-24T22..2026-10-25T05"),
    ("timestamp", "month", "America/New_York", "2026-02..2026-05"),
    ("timestamp_ntz", "week", "UTC", "2026-W10..2026-W13"),
    ("string", "hour", "UTC", "2026-03-01T00..2026-03-01T03"),
    ("integer", "day", "UTC", "2026-02-26..2026-03-02"),
]


def values_of(rule: SliceRule, window: Any) -> list[Any]:
    """The first and the last value that a window owns."""
    if rule.by_name:
        name = rule.only_value(window)
        return [name if rule.kind == "string" else int(name or 0)]
    first, end = rule.bounds(window)
    return [first, end - (dt.timedelta(days=1) if rule.kind == "date" else MICROSECOND)]


@pytest.mark.parametrize("most_units", [100_000, 1])
@pytest.mark.parametrize(("kind", "every", "timezone", "text"), CASES)
def test_spark_and_python_agree_on_the_window(
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    every: str,
    timezone: str,
    text: str,
    most_units: int,
) -> None:
    monkeypatch.setattr(ordinal, "_MOST_UNITS", most_units)
    windows = parse_windows(text, Grain.parse(every), timezone)
    rule = SliceRule.of("a b", kind, Grain.parse(every), timezone)
    place = window_ordinal(rule, windows)
    given = [(n, value) for n, window in enumerate(windows) for value in values_of(rule, window)]
    name = {"integer": "int"}.get(kind, kind)
    frame = lab.frame(given, f"number int, `a b` {name}")
    found = frame.select("number", F.expr(place.sql).alias("w")).collect()
    assert [place.owner(row["w"]) for row in found] == [windows[row["number"]] for row in found]
    assert len({row["w"] for row in found}) == len(windows)
