"""Files as a source: which ones a window reads, and what becomes of their values."""

from __future__ import annotations

import datetime as dt
import gzip
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.spark.test_repeatable_reads import (
    DAY,
    NEXT,
    SCHEMA,
    read,
    reading,
    stored,
    write,
)

from setpoint import (
    DefinitionError,
    PermanentError,
    RefusedError,
    SetpointError,
    Window,
    delta,
    files,
    land,
    rows,
    source,
)
from setpoint.flow.chunk import run_chunk
from setpoint.flow.run import plan_windows, refusal_of
from setpoint.model.source import Source
from setpoint.sources.files import FilesSource
from setpoint.sources.listing import find
from setpoint.spark.bad_lines import number_of


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("in/*.csv", ["in/a.csv"]),
        ("in/**/*.csv", ["in/a.csv", "in/x/b.csv", "in/x/y/c.csv"]),
        ("in/x", ["in/x/b.csv", "in/x/y/c.csv"]),
        ("in/?", ["in/x/b.csv", "in/x/y/c.csv"]),
        ("in/[ax]*", ["in/a.csv", "in/x/b.csv", "in/x/y/c.csv"]),
        ("in/[!a]/*.csv", ["in/x/b.csv"]),
        ("in/link/*.csv", ["in/link/z.csv"]),
        ("in/[[]q]/*", ["in/[q]/d.txt"]),
        ("in/none*", []),
    ],
)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_pattern_means_the_same_everywhere(
    tmp_path: Path, pattern: str, found: list[str], scheme: str
) -> None:
    """On a disk and in a store: `*` stays within a name, unfinished files are passed over."""
    names = ["in/a.csv", "in/x/b.csv", "in/x/y/c.csv", "in/[q]/d.txt", "in/_temporary/0/e.csv"]
    for name in [*names, "in/x/_f.csv", "in/.g.csv", "other/z.csv"]:
        write(tmp_path / name, "1")
    os.symlink(tmp_path / "other", tmp_path / "in" / "link")
    os.symlink(tmp_path / "in", tmp_path / "other" / "up")  # a circle
    place = f"{scheme}{tmp_path}/{pattern}"
    paths = [file.path.removeprefix(f"{scheme}{tmp_path}/") for file in find(place)]
    linked = [path for path in paths if "link" in path and "link" not in pattern]
    assert sorted(set(paths) - set(linked)) == found


@pytest.mark.parametrize(
    ("every", "timezone", "path", "window"),
    [
        ("hour", "UTC", "in/{date}/*.csv", "2026-04-25T13"),
        ("hour", "Europe/Berlin", "in/{start:%Y-%m-%dT%H}.csv", "2026-10-25T02+0100"),
    ],
)
def test_a_path_of_two_windows_is_refused(
    tmp_path: Path, every: str, timezone: str, path: str, window: str
) -> None:
    """Each window would publish all rows of the path: 24 copies of a day."""
    chosen = Window.parse(window, every=every, timezone=timezone)
    made = files(path, schema=SCHEMA)
    adapter = FilesSource("lake", Source(made), made, str(tmp_path), chosen.grain, timezone)
    with pytest.raises(DefinitionError, match=r"SP-D07.*same address"):
        adapter.pin([chosen])
    clipped = FilesSource("x", Source(made, "t"), made, str(tmp_path), chosen.grain, timezone)
    assert clipped.pin([chosen])


def test_a_header_counts(lab: Any) -> None:
    """Columns go by the names of the header; another order is an error, not other values."""
    write(lab.root / "a.csv", "order_id,amount", "1,100")
    given = source(
        files("*.csv", schema="order_id long, amount long", options={"header": "true"}), whole=True
    )
    assert read(lab, given) == [(1, 100)]
    write(lab.root / "b.csv", "amount,order_id", "200,2")
    with pytest.raises(SetpointError, match=r"Header: amount, order_id Schema: order_id.*b\.csv"):
        lab.run(lab.define(lambda window, lake=given: lake.withColumn("d", window.date)))


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.25", "1.25"), ("1.250", "1.25"), ("-7", "-7.00"), ("1.5e2", "150.00"), ("", None)]
    + [(text, "SP-R01") for text in ("1.005", "2.999", "1e-3", "123456789.00", "one")],
)
def test_decimals_are_not_rounded(lab: Any, text: str, value: str | None) -> None:
    write(lab.root / "a.csv", f"{text},2026-04-25")
    given = source(files("a.csv", schema="amount decimal(8,2), d date"), time="d")
    if value == "SP-R01":
        with pytest.raises(
            RefusedError, match=r"SP-R01  The value .* of amount in /.*/a\.csv"
        ) as no:
            lab.run(reading(lab, given))
        assert repr(text) in no.value.what
        return
    assert read(lab, given) == [(None if value is None else Decimal(value), DAY)]


def test_folders_are_texts_and_dates_never_numbers(lab: Any) -> None:
    """What a value looks like in one window must not change the type of the column."""
    stored(lab.root / "lake" / "d=2026-04-25" / "code=007" / "x.parquet", id=[1])
    given = source(files("lake", format="parquet"), time="d")
    assert read(lab, given) == [(1, DAY, "007")]
    named = files("lake", format="parquet", schema="id long, code int")
    assert read(lab, source(named, time="d")) == [(1, DAY, 7)]


def test_a_folder_that_is_no_date_hides_no_other(lab: Any) -> None:
    stored(lab.root / "lake" / "d=2026-04-25" / "x.parquet", id=[1])
    stored(lab.root / "lake" / "d=2026-02-30" / "x.parquet", id=[2])
    assert read(lab, source(files("lake", format="parquet"), time="d")) == [(1, "2026-04-25")]


def test_folders_of_dates_read_as_moments_lose_no_row(lab: Any) -> None:
    """The schema says timestamp: the rows are clipped as moments, whatever their folder."""
    stored(lab.root / "lake" / "d=2026-04-25" / "x.parquet", id=[1])
    made = files("lake", format="parquet", schema="id long, d timestamp")
    found = read(
        lab,
        source(made, time="d"),
        "2026-04-24",
        timezone="America/New_York",
        target=delta("out", partition_by="d"),
    )
    assert [row[0] for row in found] == [1]


def test_a_window_without_a_folder_fails_or_is_empty_as_said(lab: Any) -> None:
    stored(lab.root / "lake" / "d=2026-04-25" / "x.parquet", id=[1])
    with pytest.raises(PermanentError, match=r"SP-R01.*2026-04-26"):
        read(lab, source(files("lake", format="parquet"), time="d"), "2026-04-26")
    quiet = source(files("lake", format="parquet", absent="empty"), time="d")
    assert read(lab, quiet, "2026-04-26") == []


def test_texts_that_are_no_windows_are_an_error(lab: Any) -> None:
    """Otherwise no window would ever hold their rows, and every one would look empty."""
    write(lab.root / "a.json", '{"id": 1, "t": "2026-04-25T10:00:00Z"}')
    given = source(files("a.json", schema="id int, t string"), time="t")
    with pytest.raises(Exception, match=r"SP-R02\|The column t of a\.json holds '2026-04-25T10:00"):
        read(lab, given)
    write(lab.root / "a.json", '{"id": 1, "t": "2026-04-25"}', '{"id": 2, "t": "2026-04-26"}')
    assert read(lab, given) == [(1, "2026-04-25")]


def test_another_pattern_is_another_run(lab: Any) -> None:
    """The same files by another path may have other columns."""
    stored(lab.root / "lake" / "region=EU" / "x.parquet", id=[1], d=[DAY])
    keys = []
    for path in ("lake/region=EU", "lake/region=*"):
        job = reading(lab, source(files(path, format="parquet"), time="d"))
        keys.append(lab.plan(job, "2026-04-25").run.key)
    assert keys[0] != keys[1]


def test_moments_in_local_days(lab: Any) -> None:
    """Both ends of a day of 25 hours."""
    moments = ["2026-10-24T21:59:59Z", "2026-10-24T22:00:00Z", "2026-10-25T22:59:59Z"]
    write(
        lab.root / "a.json", *(f'{{"t": "{text}"}}' for text in [*moments, "2026-10-25T23:00:00Z"])
    )
    given = source(files("a.json", schema="t timestamp"), time="t")
    zone = {"timezone": "Europe/Berlin", "target": delta("out", partition_by="t")}
    found = [row[0] for row in read(lab, given, "2026-10-25", **zone)]
    first = dt.datetime(2026, 10, 24, 22, tzinfo=dt.timezone.utc)
    assert [moment.astimezone(dt.timezone.utc) for moment in found] == [
        first,
        first + dt.timedelta(hours=24, minutes=59, seconds=59),
    ]


EVENTS = "id int, d date"


def events(lab: Any, day: str, *lines: str) -> None:
    write(lab.root / "inbox" / f"events_{day}.csv", *lines)


def by_name(**how: Any) -> Any:
    made = files("inbox/events_{date}.csv", schema=EVENTS)
    return source(made, time="d", **how)


def test_rows_of_another_window_in_a_windows_file_are_not_dropped(lab: Any) -> None:
    """No other window reads the file: without the refusal its rows would be nowhere."""
    events(lab, "2026-04-25", "1,2026-04-25", "2,2026-04-24", "3,2026-04-27", "4,")
    job = reading(lab, by_name())
    assert (
        "d lies in the window, or else the run is refused"
        in lab.plan(job, str(DAY)).steps[0].describe()
    )
    with pytest.raises(RefusedError, match="SP-R08") as refused:
        lab.run(job)
    assert "of 4 rows 2 outside of 2026-04-25 by d" in refused.value.what
    assert "2026-04-24 in events_2026-04-25.csv" in refused.value.what
    assert "2026-04-27 in events_2026-04-25.csv" in refused.value.what
    assert "1 without d" in refused.value.what
    assert not lab.state(job).published
    events(lab, "2026-04-25", "1,2026-04-25")
    assert lab.run(job).notes == ()
    assert lab.rows() == [(1, DAY)]


def test_rows_that_are_left_out_are_counted_and_kept_in_the_ledger(lab: Any) -> None:
    events(lab, "2026-04-25", "1,2026-04-25", "2,2026-04-24")
    job = reading(lab, by_name(outside="note"))
    assert "other rows are left out with a note" in lab.plan(job, str(DAY)).steps[0].describe()
    outcome = lab.run(job)
    assert lab.rows() == [(1, DAY)]
    note = (
        "lake: of 2 rows 1 outside of 2026-04-25 by d (2026-04-24 in events_2026-04-25.csv), "
        "left out"
    )
    assert outcome.notes == (note,)
    assert lab.world().ledger.notes(outcome.attempt) == [note]


@pytest.mark.parametrize("spans", [False, True])
def test_a_chunk_tells_each_window_what_it_leaves_out(lab: Any, spans: bool) -> None:
    """The windows without strays are published together, the refused one says why."""
    for number, day in enumerate(("2026-04-25", "2026-04-26", "2026-04-27"), 1):
        events(lab, day, f"{number},{day}")
    events(lab, "2026-04-26", "2,2026-04-26", "9,2026-04-25")
    job = reading(lab, by_name(outside="note"), spans=spans)
    ended = chunk(lab, job, "2026-04-25..2026-04-27")
    assert [len(end.outcome.notes) for end in ended] == [0, 1, 0]
    assert lab.rows() == [(1, DAY), (2, NEXT), (3, NEXT + dt.timedelta(days=1))]
    strict = reading(lab, by_name(), spans=spans, target=delta("strict", partition_by="d"))
    ended = chunk(lab, strict, "2026-04-25..2026-04-27")
    assert [getattr(end.error, "code", None) for end in ended] == [None, "SP-R08", None]
    assert [row[0] for row in lab.rows("strict")] == [1, 3]


def chunk(lab: Any, job: Any, text: str) -> list[Any]:
    bound, world = lab.bind(job), lab.world()
    plans = plan_windows(bound, lab.windows(job, text), world, parameters={})
    return sorted(run_chunk(bound, plans, world), key=lambda end: end.window)


def test_hours_that_share_the_file_of_a_day_leave_nothing_out(lab: Any) -> None:
    """A row of another hour is read by that hour's window; one of another day by none."""
    made = files("inbox/{date}.csv", schema="id int, t timestamp")
    write(lab.root / "inbox" / "2026-04-25.csv", "1,2026-04-25T10:00:00Z", "2,2026-04-25T11:30:00Z")
    job = reading(lab, source(made, time="t"), every="hour", target=delta("out", partition_by="t"))
    assert lab.run(job, "2026-04-25T10").notes == ()
    assert [row[0] for row in lab.rows()] == [1]
    write(lab.root / "inbox" / "2026-04-25.csv", "1,2026-04-25T10:00:00Z", "2,2026-04-26T11:30:00Z")
    with pytest.raises(RefusedError, match=r"2026-04-25T00\.\.2026-04-25T23"):
        lab.run(job, "2026-04-25T10")


def test_folders_of_other_windows_below_a_windows_path_are_not_passed_over(lab: Any) -> None:
    stored(lab.root / "inbox" / "2026-04-25" / "d=2026-04-25" / "x.parquet", id=[1])
    stored(lab.root / "inbox" / "2026-04-25" / "d=2026-04-24" / "y.parquet", id=[2])
    made = files("inbox/{date}", format="parquet")
    with pytest.raises(RefusedError, match=r"SP-R08.*of 2 files 1 outside.*d=2026-04-24/y.parquet"):
        lab.run(reading(lab, source(made, time="d")))


def test_files_without_the_window_in_their_path_are_clipped_as_they_were(lab: Any) -> None:
    """Beside a path that names the window: what every window reads is no stray."""
    write(lab.root / "all.csv", "7,2026-04-26", "8,2026-04-25")
    events(lab, "2026-04-25", "1,2026-04-25")
    made = files("inbox/events_{date}.csv", "all.csv", schema=EVENTS)
    assert lab.run(reading(lab, source(made, time="d"))).notes == ()
    assert [row[0] for row in lab.rows()] == [1, 8]


def test_a_function_that_returns_rows_of_other_windows_is_noted(lab: Any) -> None:
    def returned(window: Window) -> list[tuple[Any, ...]]:
        return [(1, window.day), (2, NEXT + dt.timedelta(days=3))]

    given = rows(returned, schema=EVENTS)
    outcome = lab.run(reading(lab, source(given, time="d")))
    assert outcome.notes == ("lake: of 2 rows 1 outside of 2026-04-25 by d (2026-04-29), left out",)
    assert lab.rows() == [(1, DAY)]
    with pytest.raises(RefusedError, match="SP-R08"):
        lab.run(reading(lab, source(given, time="d", outside="refuse")), force=True)


def test_what_is_left_out_of_a_landed_copy_is_told_by_every_run_that_reads_it(lab: Any) -> None:
    """The copy is all that is ever read again."""
    events(lab, "2026-04-25", "1,2026-04-25", "2,2026-04-24")
    made = land(files("inbox/events_{date}.csv", schema=EVENTS))
    with pytest.raises(RefusedError, match="SP-R08"):
        lab.run(reading(lab, source(made, time="d")))
    job = reading(lab, source(made, time="d", outside="note"))
    for force in (False, True):
        (note,) = lab.run(job, force=force).notes
        assert "of 2 rows 1 outside of 2026-04-25" in note
    assert lab.rows() == [(1, DAY)]


@pytest.mark.parametrize(
    ("name", "lines", "options", "says"),
    [
        (
            "a.csv",
            ["1,2026-04-25", "x,2026-04-25"],
            {},
            "Line 2 of {} does not fit the schema in id",
        ),
        ("a.csv", ["1,2026-04-25", "2,soon"], {}, "Line 2 of {} does not fit the schema in d"),
        (
            "a.csv",
            ["1;2026-04-25", "", "2;soon"],
            {"sep": ";"},
            "Line 3 of {} does not fit the schema in d",
        ),
        (
            "a.csv",
            ["1,2026-04-25", "2,2026-04-25,7"],
            {},
            "Line 2 of {} does not fit the schema, which has",
        ),
        ("a.json", ['{"id": 1}', '{"id": "x"}'], {}, "Line 2 of {} does not fit the schema in id"),
        ("a.json", ['{"id": 1}', "{id"], {}, "Line 2 of {} does not fit the schema, which has"),
    ],
)
def test_a_line_that_does_not_fit_is_named_with_its_file_and_column(
    lab: Any, name: str, lines: list[str], options: dict[str, str], says: str
) -> None:
    place = write(lab.root / name, *lines)
    write(lab.root / f"good-{name}", lines[0])
    made = files(f"*{name}", schema=EVENTS, options=options)
    with pytest.raises(RefusedError, match="SP-R01") as refused:
        lab.run(reading(lab, source(made, whole=True)))
    assert says.format(place) in refused.value.what
    assert lines[-1] in refused.value.what


def test_a_header_that_nobody_spoke_of_is_recognised(lab: Any) -> None:
    write(lab.root / "a.csv", "id,d", "1,2026-04-25")
    with pytest.raises(RefusedError, match=r"Line 1 of .* it is a header") as refused:
        lab.run(reading(lab, source(files("a.csv", schema=EVENTS), whole=True)))
    assert 'options={"header": "true"}' in refused.value.next


def test_a_column_that_nobody_uses_makes_a_line_no_better(lab: Any) -> None:
    """Whether a line fits must not depend on what the pipeline selects."""
    write(lab.root / "a.csv", "x,2026-04-25")

    def job(window: Any, lake: Any = source(files("a.csv", schema=EVENTS), whole=True)) -> Any:
        return lake.selectExpr("d", "1 AS one")

    with pytest.raises(RefusedError, match="in id"):
        lab.run(lab.define(job))


def test_a_line_of_a_packed_file_has_its_number(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("1,2\nx,2\n")
    assert number_of(str(tmp_path / "a.csv.gz"), "x,2") == 2
    assert number_of(str(tmp_path / "none.csv"), "x,2") is None


def test_a_file_that_is_not_there_is_found_by_the_plan(lab: Any) -> None:
    """Nobody waits for Spark to be told that; the other windows of a chunk are published."""
    job = reading(lab, by_name())
    bound = lab.bind(job)
    refusal = refusal_of(bound, lab.plan(job, str(DAY)))
    assert refusal is not None
    assert refusal.code == "SP-R01"
    assert "inbox/events_2026-04-25.csv" in refusal.what
    events(lab, "2026-04-26", "1,2026-04-26")
    ended = chunk(lab, job, "2026-04-25..2026-04-26")
    assert [getattr(end.error, "code", None) for end in ended] == ["SP-R01", None]
    assert lab.rows() == [(1, NEXT)]


def test_bad_lines_can_be_published_beside_the_good_ones(lab: Any) -> None:
    """As the page on sources shows: no line is lost, and none of them blocks a day."""
    events(lab, "2026-04-25", "1,2026-04-25", "x,2026-04-25", "3,2026-04-25")
    lines = source(
        files(
            "inbox/events_{date}.csv",
            schema="id int, d date, bad string",
            options={"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"},
        )
    )

    def good(window: Any, lines: Any = lines) -> Any:
        return lines.where("bad IS NULL").drop("bad")

    def aside(window: Any, lines: Any = lines) -> Any:
        return lines.where("bad IS NOT NULL").select("bad").withColumn("d", window.date)

    lab.run(lab.define(good))
    lab.run(lab.define(aside, name="aside", target=delta("bad", partition_by="d")))
    assert lab.rows() == [(1, DAY), (3, DAY)]
    assert lab.rows("bad") == [("x,2026-04-25", DAY)]
