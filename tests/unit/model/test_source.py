"""Declaring an input: what bounds it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from setpoint import DefinitionError, Window, delta, files, jdbc, land, postgres, rows, source
from setpoint.model.origin import sharing_address
from setpoint.model.source import Late

CSV = files("in/*.csv", schema="id int")
DATED = files("in/{date}.csv", schema="id int")


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
        (lambda: source(CSV, time="d", outside="note"), "has outside="),
        (lambda: source(DATED, outside="note"), "has outside="),
        (lambda: source(DATED, time="d", outside="drop"), "neither"),
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


def listed(window: Window) -> list[tuple[int]]:
    return [(1,)]


@pytest.mark.parametrize(
    "origin",
    [postgres("t"), jdbc("t", connection="x"), rows(listed, schema="id int")],
)
def test_late_rows_are_an_error_only_where_they_can_be_told(origin: Any) -> None:
    """Without a probe nobody knows of them, nor once they are landed."""
    with pytest.raises(DefinitionError, match=r"SP-D07.*cannot tell") as caught:
        source(origin, whole=True, late="fail")
    assert "land it" in caught.value.next.lower()
    assert source(origin, whole=True, late="ignore").late == Late("ignore")
    with pytest.raises(DefinitionError, match=r"SP-D07.*land"):
        source(land(origin), whole=True, late="fail")
    assert source(origin, whole=True, late="fail", probe="SELECT 1").late == Late("fail")


def test_the_database_is_part_of_what_a_run_reads() -> None:
    """Another connection is another database, whatever its probe answers; a password is not."""

    def by_jdbc(connection: str = "a", **options: str) -> Any:
        return source(jdbc("t", connection=connection, options=options), whole=True).definition()

    assert by_jdbc() != by_jdbc("b")
    assert by_jdbc() != by_jdbc(customSchema="id STRING")
    assert by_jdbc(password="old") == by_jdbc(password="new")
    made = [
        source(postgres(table, connection=connection), whole=True).definition()
        for table, connection in (("t", "test"), ("t", "prod"), ("u", "test"))
    ]
    assert made[0] != made[1] != made[2] != made[0]


def test_the_format_follows_from_the_suffix() -> None:
    assert files("a.jsonl", "b.JSON.gz", schema="id int").format == "json"
    assert files("a.parquet").format == "parquet"


def test_rows_outside_of_a_file_that_names_the_window_are_refused_unless_said_otherwise() -> None:
    """What nobody else reads is not dropped; what may come again for another window is noted."""
    fetched = rows(lambda window: [], schema="id int, d date")
    assert source(DATED, time="d").outside == "refuse"
    assert source(land(DATED), time="d").outside == "refuse"
    assert source(DATED, time="d", outside="note").outside == "note"
    assert source(fetched, time="d").outside == "note"
    assert source(fetched, time="d", outside="refuse").outside == "refuse"


@pytest.mark.parametrize(
    ("path", "every", "window", "first", "last"),
    [
        ("in/{date}", "day", "2026-04-25", "2026-04-25", "2026-04-25"),
        ("in/{date}", "hour", "2026-04-25T10", "2026-04-25T00", "2026-04-25T23"),
        ("in/{start:%Y-%m}", "day", "2026-04-25", "2026-04-01", "2026-04-30"),
        ("in/{start:%Y-%m-%dT%H}", "hour", "2026-10-25T02+0200", None, "2026-10-25T02+0100"),
    ],
)
def test_windows_that_share_an_address(
    path: str, every: str, window: str, first: str | None, last: str
) -> None:
    chosen = Window.parse(window, every=every, timezone="Europe/Berlin")
    shared = sharing_address(files(f"{path}.csv", schema="id int").named_by, chosen)
    assert shared is not None
    assert shared.windows[0].id.startswith(first or window)
    assert shared.windows[-1].id.startswith(last)


def test_an_address_that_never_changes_is_shared_without_end() -> None:
    made = files("in/{start:x}.csv", schema="id int")
    assert sharing_address(made.named_by, Window.parse("2026-04-25")) is None
