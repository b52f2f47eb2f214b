"""Which windows of which pipelines a cascade takes, and what each of them needs."""

from __future__ import annotations

import datetime as dt
from typing import Any

from setpoint import Pipeline, Window, delta, pipeline, previous
from setpoint.flow.cascade import members_of
from setpoint.model.ranges import parse_windows

NOW = dt.datetime(2026, 5, 2, 12, tzinfo=dt.timezone.utc)


def named(name: str, every: str, **rest: Any) -> Pipeline:
    place = delta(name, partition_by="at")
    return pipeline(every=every, target=place, name=name, **rest)(lambda window: None)


PIPELINES = {
    "hours": named("hours", "hour"),
    "days": named("days", "day"),
    "months": named("months", "month"),
    "other": named("other", "day"),
    "late": named("late", "day", start="2026-04-30"),
}
GRAPH = {
    "hours": (),
    "days": ("hours",),
    "months": ("days", "other"),
    "other": (),
    "late": ("hours",),
}


def never(pipeline: Pipeline) -> tuple[Window, ...]:
    """No window of it was ever published."""
    return ()


def chosen(root: str, text: str, *directions: Any) -> dict[str, list[str]]:
    one = PIPELINES[root]
    windows = parse_windows(text, one.every, one.timezone)
    members = members_of(one, windows, PIPELINES, GRAPH, directions, NOW, never)
    return {m.pipeline.name: [window.id for window in m.windows] for m in members}


def test_downstream_goes_to_coarser_windows_that_are_over() -> None:
    """May is not over, so only April is a month; the neighbours are not touched."""
    found = chosen("hours", "2026-04-30T22..2026-05-01T01", "downstream")
    assert list(found) == ["hours", "days", "late", "months"]
    assert found["days"] == ["2026-04-30", "2026-05-01"]
    assert found["months"] == ["2026-04"]


def test_upstream_goes_to_all_that_a_window_reads() -> None:
    found = chosen("months", "2026-04", "upstream")
    assert list(found) == ["hours", "days", "other", "months"]
    assert len(found["hours"]) == 30 * 24
    assert len(found["days"]) == len(found["other"]) == 30


def test_windows_before_the_start_of_a_pipeline_do_not_exist() -> None:
    assert chosen("hours", "2026-04-29T22..2026-04-30T01", "downstream")["late"] == ["2026-04-30"]


def test_both_directions_meet_in_the_middle() -> None:
    found = chosen("days", "2026-04-30", "upstream", "downstream")
    assert {name: len(windows) for name, windows in found.items()} == {
        "hours": 24,
        "days": 1,
        "months": 1,
    }


def test_a_window_needs_those_that_lie_in_it() -> None:
    one = PIPELINES["hours"]
    windows = parse_windows("2026-04-30T22..2026-05-01T01", one.every)
    members = members_of(one, windows, PIPELINES, GRAPH, ["downstream"], NOW, never)
    needs = {m.pipeline.name: m.needs for m in members}
    by_day = {
        window.id: sorted(need.label for need in found) for window, found in needs["days"].items()
    }
    assert by_day == {
        "2026-04-30": ["hours[2026-04-30T22]", "hours[2026-04-30T23]"],
        "2026-05-01": ["hours[2026-05-01T00]", "hours[2026-05-01T01]"],
    }


def test_a_day_needs_the_same_day_of_another_pipeline_and_not_itself() -> None:
    graph = {**GRAPH, "late": ("other", "late")}
    one = PIPELINES["other"]
    windows = parse_windows("2026-04-30", one.every)
    members = members_of(one, windows, PIPELINES, graph, ["downstream"], NOW, never)
    needs = {m.pipeline.name: m.needs for m in members}
    (found,) = needs["late"].values()
    assert [need.label for need in found] == ["other[2026-04-30]"]


def test_a_pipeline_that_reads_itself_needs_its_window_before() -> None:
    """Whatever order is asked for: none of them goes on from nothing."""
    days = PIPELINES["days"]
    windows = parse_windows("2026-04-01..2026-04-03", days.every, days.timezone)
    graph = {**GRAPH, "days": ("days", "hours")}
    (member,) = members_of(days, windows, PIPELINES, graph, (), NOW, never)
    needs = {window.id: {need.label for need in found} for window, found in member.needs.items()}
    assert needs == {
        "2026-04-01": set(),
        "2026-04-02": {"days[2026-04-01]"},
        "2026-04-03": {"days[2026-04-02]"},
    }


def test_downstream_goes_on_with_the_later_windows_of_a_pipeline_that_reads_itself() -> None:
    """As far as they are published without a gap, and with what reads them in turn."""

    def carry(window: Window, before: Any = previous("n int")) -> None:
        return None

    place = delta("balance", partition_by="at")
    balance = pipeline(every="day", target=place, name="balance")(carry)
    pipelines = {name: PIPELINES[name] for name in ("hours", "months")} | {"balance": balance}
    graph = {"hours": (), "balance": ("balance", "hours"), "months": ("balance",)}
    held = parse_windows("2026-03-01..2026-04-02,2026-04-04", "day")
    hours = parse_windows("2026-03-30T22..2026-03-30T23", "hour")
    members = members_of(
        pipelines["hours"], hours, pipelines, graph, ["downstream"], NOW, lambda item: held
    )
    reasons = {m.pipeline.name: {w.id: m.reason(w) for w in m.windows} for m in members}
    assert reasons["balance"] == {
        "2026-03-30": "it reads hours",
        "2026-03-31": "it goes on from the window before",
        "2026-04-01": "it goes on from the window before",
        "2026-04-02": "it goes on from the window before",
    }
    assert reasons["months"] == {"2026-03": "it reads balance", "2026-04": "it reads balance"}
    needs = {w.id: {need.label for need in found} for w, found in members[1].needs.items()}
    assert needs["2026-04-02"] == {"balance[2026-04-01]"}
    held = parse_windows("2026-03-30..2026-04-01", "day")
    (alone,) = members_of(balance, held[:1], pipelines, graph, (), NOW, lambda item: held)
    assert alone.windows == [held[0]]
