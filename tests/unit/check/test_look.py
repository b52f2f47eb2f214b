"""What a check tells from files and logs alone: no session, no JVM."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from setpoint.check.findings import FindingKind, Sighting, gaps, lone_windows
from setpoint.check.look import Question, Report, check
from setpoint.check.partitions import partition_time, window_starting
from setpoint.errors import UsageError
from setpoint.model.grain import Grain
from setpoint.model.ranges import parse_windows
from setpoint.model.window import Window
from setpoint.sources.existing import open_table
from setpoint.targets.delta.storage import Storage

DAY, HOUR = Grain("day"), Grain("hour")
ROOT = Path(__file__).parents[3]


class NoEngine:
    """An engine that must not be asked: these checks need no rows."""

    def session(self, connectors: frozenset[str]) -> Any:
        raise AssertionError("a session was asked for")

    def pinned(self, session: Any) -> AbstractContextManager[None]:
        raise AssertionError("a session was asked for")


def look(path: Path, **question: Any) -> Report:
    table = open_table(str(path), None, Storage.at(str(path)))
    return check(table, Question(**question), NoEngine())


def rows_of(day: int, first: int = 0, n: int = 3) -> pa.Table:
    return pa.table(
        {
            "id": list(range(first, first + n)),
            "d": pa.array([dt.date(2026, 4, day)] * n, pa.date32()),
        }
    )


def overwritten(path: Path, times: int, day: int = 25) -> None:
    """A daily partition that is replaced as a whole, again and again."""
    for turn in range(times):
        write_deltalake(
            path,
            rows_of(day, first=turn * 10),
            mode="overwrite",
            partition_by=["d"],
            predicate=f"d = '2026-04-{day}'" if turn else None,
        )


def moment(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.timezone.utc)  # type: ignore[arg-type,misc]


def kinds(report: Report) -> list[str]:
    return [finding.kind for finding in report.findings]


def test_an_hourly_writer_of_a_daily_partition_is_found_in_the_log(tmp_path: Path) -> None:
    """24 overwrites of one daily partition: the partition is too coarse and 23 hours are lost."""
    overwritten(tmp_path / "t", 24)
    report = look(tmp_path / "t", every=HOUR)
    assert kinds(report) == ["coarse_partition", "repeated_overwrites"]
    coarse, repeated = report.findings
    assert coarse.figures["windows_per_partition"] == 24
    assert repeated.figures["most_overwrites"] == 24
    assert repeated.examples[0]["partition"] == "2026-04-25"
    assert "2026-04-25 was overwritten 24 times" in repeated.message


def test_overwrites_are_found_when_the_table_is_said_to_be_daily(tmp_path: Path) -> None:
    """A daily pipeline writes a partition once; 24 overwrites are somebody else's rhythm."""
    overwritten(tmp_path / "t", 24)
    assert kinds(look(tmp_path / "t", time="d", every=DAY)) == ["repeated_overwrites"]


def test_a_few_retries_are_no_finding(tmp_path: Path) -> None:
    """A daily partition that was written again now and then is as it should be."""
    overwritten(tmp_path / "t", 3)
    report = look(tmp_path / "t", time="d", every=DAY)
    assert report.findings == ()
    assert report.rows == 3
    assert [(w.window, w.rows) for w in report.windows] == [("2026-04-25", 3)]


def test_a_commit_that_never_got_its_name_is_no_write(tmp_path: Path) -> None:
    """A writer of Delta that was killed leaves one beside the log, often half of it."""
    overwritten(tmp_path / "t", 2)
    (tmp_path / "t/_delta_log/00000000000000000002.json#1").write_text('{"add": {"pa')
    report = look(tmp_path / "t", time="d", every=DAY)
    assert (report.findings, report.rows) == ((), 3)


def test_appends_are_no_overwrites(tmp_path: Path) -> None:
    """Adding to a partition often loses nothing."""
    for turn in range(8):
        write_deltalake(tmp_path / "t", rows_of(25, turn * 10), mode="append", partition_by=["d"])
    assert kinds(look(tmp_path / "t", every=DAY)) == []


def test_an_overwrite_of_part_of_a_partition_keeps_the_rest(tmp_path: Path) -> None:
    """A predicate on a column that is not a partition column is no overwrite of the partition."""
    path = tmp_path / "t"
    write_deltalake(path, rows_of(25), partition_by=["d"])
    for _ in range(8):
        write_deltalake(
            path, rows_of(25, 0, 1), mode="overwrite", predicate="d = '2026-04-25' AND id = 0"
        )
    assert kinds(look(path, every=DAY)) == []


def test_a_missing_day_is_a_gap(tmp_path: Path) -> None:
    """A day without a partition between two days with rows is named."""
    for day in (20, 21, 23, 24):
        write_deltalake(tmp_path / "t", rows_of(day), mode="append", partition_by=["d"])
    (finding,) = look(tmp_path / "t", time="d", every=DAY).findings
    assert finding.kind == "gaps"
    assert finding.examples == ({"window": "2026-04-22"},)


def test_an_empty_table_has_no_findings(tmp_path: Path) -> None:
    """No rows: nothing is doubled and nothing is missing."""
    write_deltalake(tmp_path / "t", rows_of(25, n=0), partition_by=["d"])
    report = look(tmp_path / "t", time="d", every=DAY)
    assert (report.findings, report.rows, report.windows) == ((), 0, ())


def test_an_empty_daily_table_is_too_coarse_for_hours(tmp_path: Path) -> None:
    """The schema alone tells that a date partition holds 24 hours."""
    write_deltalake(tmp_path / "t", rows_of(25, n=0), partition_by=["d"])
    assert kinds(look(tmp_path / "t", time="d", every=HOUR)) == ["coarse_partition"]


def test_parquet_folders_are_counted_from_their_footers(tmp_path: Path) -> None:
    """Hive-style folders tell windows and rows without Spark, and say that history is missing."""
    for day, n in ((24, 2), (25, 5)):
        pq.write_to_dataset(rows_of(day, n=n), tmp_path / "t", partition_cols=["d"])
    report = look(tmp_path / "t", time="d", every=DAY)
    assert [(w.window, w.rows) for w in report.windows] == [("2026-04-24", 2), ("2026-04-25", 5)]
    assert report.findings == ()
    assert "keeps no history" in report.notes[0]
    assert kinds(look(tmp_path / "t", every=HOUR)) == ["coarse_partition"]


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ({"keys": (("nope",),)}, "SP-T02"),
        ({"time": "nope", "every": DAY}, "SP-R02"),
        ({"every": DAY}, "SP-R02"),
    ],
)
def test_a_wrong_question_is_refused_without_spark(
    tmp_path: Path, question: dict[str, Any], code: str
) -> None:
    """A missing column, or partitions that tell no time, are found before a JVM is started."""
    write_deltalake(tmp_path / "t", rows_of(25))
    with pytest.raises(UsageError) as error:
        look(tmp_path / "t", **question)
    assert error.value.code == code


def _inside_delta(root: Path) -> Path:
    write_deltalake(root / "t", rows_of(25), partition_by=["d"])
    return root / "t" / "d=2026-04-25"


def _text_file(root: Path) -> Path:
    (root / "t").mkdir()
    (root / "t" / "a.csv").write_text("id\n1\n")
    return root / "t"


def _empty_folder(root: Path) -> Path:
    (root / "t").mkdir()
    return root / "t"


def _iceberg(root: Path) -> Path:
    (root / "t" / "metadata").mkdir(parents=True)
    (root / "t" / "metadata" / "v1.metadata.json").write_text("{}")
    return root / "t"


def _panics(root: Path) -> Path:
    (root / "a%b" / "_delta_log").mkdir(parents=True)
    return root / "a%b"


@pytest.mark.parametrize(
    "make", [_inside_delta, _text_file, _empty_folder, _iceberg, _panics, lambda root: root / "no"]
)
def test_what_is_no_table_is_refused(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    """A folder inside a Delta table, other formats and nothing at all are named, not guessed at."""
    with pytest.raises(UsageError) as error:
        look(make(tmp_path), every=DAY)
    assert error.value.code == "SP-R01"


@pytest.mark.parametrize(
    ("columns", "partitions", "unit"),
    [
        (["d"], [{"d": dt.date(2026, 4, 25)}], "day"),
        (["d"], [{"d": "2026-04-25"}, {"d": None}], "day"),
        (["d"], [{"d": 20260425}], "day"),
        (["d"], [{"d": "2026-04-25T13"}], "hour"),
        (["d"], [{"d": "2026-04"}], "month"),
        (["d"], [{"d": "2026-W17"}], "week"),
        (["dt", "hour"], [{"dt": "2026-04-25", "hour": "07"}], "hour"),
        (["year", "month", "day"], [{"year": "2026", "month": "04", "day": "5"}], "day"),
        (["region", "year", "month"], [{"region": "eu", "year": 2026, "month": 4}], "month"),
        (["t"], [{"t": moment(2026, 4, 25, 1)}, {"t": moment(2026, 4, 25, 2)}], "hour"),
        (["t"], [{"t": moment(2026, 4, 25)}, {"t": moment(2026, 4, 26)}], "day"),
        (["t"], [{"t": "2026-04-25 13:15:00"}, {"t": "2026-04-25 13:30:00"}], "15 minutes"),
        (["t"], [{"t": moment(2026, 4, 25)}], None),
        (["region"], [{"region": "eu"}], None),
        (["id"], [{"id": 4711}, {"id": 123456789}], None),
        (["d"], [{"d": "2026-04-25"}, {"d": "n/a"}], None),
        (["d"], [{"d": "2026-13-45"}], None),
        ([], [{}], None),
    ],
)
def test_the_unit_of_a_partition_follows_from_its_values(
    columns: list[str], partitions: list[dict[str, Any]], unit: str | None
) -> None:
    """Dates, ids, parts of dates and timestamps are recognised; anything else is left alone."""
    found = partition_time(columns, partitions, "UTC")
    assert (str(found.unit) if found else None) == unit


def test_weekends_and_nights_are_no_gaps() -> None:
    """A weekday or an hour that never holds rows is a pause; a single missing one is a gap."""
    working = [w for w in parse_windows("2026-04-01..2026-04-30", DAY) if w.start.weekday() < 5]
    assert gaps(dict.fromkeys(working, 1), lambda window: False, "", 5) == []
    missing = Window.parse("2026-04-15", DAY)
    filled = {window: 1 for window in working if window != missing}
    (finding,) = gaps(filled, lambda window: False, "", 5)
    assert finding.examples == ({"window": "2026-04-15"},)


def test_rows_decades_apart_do_not_make_gaps() -> None:
    """A stray row of 1970 is not the beginning of twenty thousand missing days."""
    windows = [Window.parse(text, DAY) for text in ("1970-01-01", "2026-04-24", "2026-04-25")]
    assert gaps(dict.fromkeys(windows, 1), lambda window: False, "", 5) == []


def sightings(*ids: str, rows: int = 5) -> list[Sighting]:
    return [Sighting(Window.parse(text, HOUR), None, rows) for text in ids]


def test_days_that_hold_the_last_hour_only_are_found() -> None:
    """Rows of hour 23 only, day after day: each hour has replaced the day."""
    (finding,), days = lone_windows(
        sightings("2026-04-24T23", "2026-04-25T23", "2026-04-26T11"), DAY, 5, coarse=True
    )
    assert finding.message.startswith("Day 2026-04-24 holds rows of hour 23 only")
    assert len(days) == 3


def test_dates_stored_as_midnight_are_no_lone_hours() -> None:
    """Rows at midnight only have no time of day: nothing can be said about hours."""
    midnights = sightings("2026-04-24T00", "2026-04-25T00")
    assert lone_windows(midnights, DAY, 5, coarse=True)[0] == []


def test_a_table_without_coarse_partitions_is_judged_by_its_other_days() -> None:
    """A nightly stamp on every day is a habit; one hour among full days is a loss."""
    nightly = sightings("2026-04-23T02", "2026-04-24T02", "2026-04-25T02")
    assert lone_windows(nightly, DAY, 5, coarse=False)[0] == []
    full = [f"2026-04-{day}T{hour:02d}" for day in (23, 24) for hour in range(24)]
    (finding,), _ = lone_windows(sightings(*full, "2026-04-25T23"), DAY, 5, coarse=False)
    assert finding.examples == ({"period": "2026-04-25", "window": "2026-04-25T23", "rows": 5},)


def test_starts_follow_the_clock_of_a_zone() -> None:
    """A start on the clock is a local one, an instant is not; beyond the calendar is nothing."""
    midnight = int(dt.datetime(2026, 4, 25, tzinfo=dt.timezone.utc).timestamp())
    local = window_starting(midnight, True, DAY, "Europe/Berlin")
    instant = window_starting(midnight - 7200, False, HOUR, "Europe/Berlin")
    assert local is not None
    assert instant is not None
    assert (local.id, instant.id) == ("2026-04-25", "2026-04-25T00")
    assert window_starting(10**15, False, DAY, "UTC") is None
    assert window_starting(None, False, DAY, "UTC") is None


def test_every_kind_of_finding_is_documented() -> None:
    """The reference page names each kind of finding."""
    page = (ROOT / "docs" / "reference" / "check.md").read_text(encoding="utf-8")
    for kind in FindingKind.__args__:  # type: ignore[attr-defined]
        assert f"`{kind}`" in page
