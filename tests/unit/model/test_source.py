"""Declaring an input: what bounds it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from setpoint import DefinitionError, Window, delta, files, jdbc, rows, source
from setpoint.model.source import Late

CSV = files("in/*.csv", schema="id int")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("in/{date}/x.csv", "in/2026-04-25/x.csv"),
        ("in/{start:%Y/%m/%d}/*.csv", "in/2026/04/25/*.csv"),
        ("in/{start:%H}-{end:%d}.csv", "in/00-26.csv"),
        ("in/{other}/{}.csv", "in/{other}/{}.csv"),
        ("in/{date.__class__}/x.csv", "in/{date.__class__}/x.csv"),
    ],
)
def test_a_path_takes_the_windows_times(path: str, found: str) -> None:
    """And nothing but these: a path is no place for expressions."""
    made = files(path, schema="id int")
    assert made.paths_of(Window.parse("2026-04-25", timezone="Europe/Berlin")) == (found,)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: source(CSV), "needs one of time="),
        (lambda: source(CSV, time="d", whole=True), "only one"),
        (lambda: source(files("in/{date}.csv", schema="id int"), whole=True), "in its address"),
        (lambda: source("lake/orders", time="d"), "cannot be read"),
        (lambda: source(CSV, time="d", late="restate"), "late="),
        (lambda: source(CSV, time="d", late="restate(0)"), "late="),
        (lambda: source(CSV, time="d", time_is="wall"), "time_is="),
        (lambda: source(CSV, time="d", partitions=0), "partitions="),
        (lambda: files("in/data"), "format is not known"),
        (lambda: files("in/a.csv", "in/b.json", schema="id int"), "format is not known"),
        (lambda: files("in/a.csv"), "need schema="),
        (lambda: files(""), "where paths belong"),
        (lambda: jdbc(connection="x"), "either a table or query="),
        (lambda: rows("no function", schema="id int"), "needs a function"),
    ],
)
def test_a_source_that_cannot_be_repeated_is_refused(make: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says) as caught:
        make()
    assert caught.value.code == "SP-D07"


def test_policies_for_late_rows() -> None:
    made = [source(delta("x"), time="d", late=text).late for text in ("", "restate(3)", "fail")]
    assert made == [Late(), Late("restate", 3), Late("fail")]
    assert [str(item) for item in made] == ["restate", "restate(3)", "fail"]


def test_the_format_follows_from_the_suffix() -> None:
    assert files("a.jsonl", "b.JSON.gz", schema="id int").format == "json"
    assert files("a.parquet").format == "parquet"
