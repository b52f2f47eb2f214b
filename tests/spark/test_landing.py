"""Landing: what cannot be read again is kept once per window, and read from there."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import misbehaving_api as bad
from misbehaving_api import Api
from setpoint import by_cursor, delta, http, land, rows, source
from setpoint.errors import PermanentError, RefusedError, SetpointError
from setpoint.flow.recover import remains
from setpoint.flow.run import plan_latest
from setpoint.flow.steps import EVERY, How, Land
from setpoint.model.window import Window

DAY = dt.date(2026, 4, 25)
WINDOW = Window.parse("2026-04-25", every="day")
START = int(WINDOW.start.timestamp())
SCHEMA = "id string, amount decimal(10,2), created timestamp"


def listing(api: Api, **more: Any) -> Any:
    given = {
        "items": "data",
        "params": {"created[gte]": "{start:unix}", "created[lt]": "{end:unix}"},
        "pages": by_cursor("starting_after", more="has_more"),
        "schema": SCHEMA,
        "tries": 2,
    }
    return http(f"{api.url}/cursor", **{**given, **more})


def job_of(lab: Any, origin: Any, **how: Any) -> Any:
    """A pipeline that copies ids and amounts of its landed input."""

    def job(window: Any, payments: Any = source(origin, **how)) -> Any:
        from pyspark.sql import functions as F

        return payments.select(
            "id", F.col("amount").cast("double").alias("amount"), window.date.alias("d")
        )

    return lab.define(job)


def source_of(lab: Any, job: Any, name: str = "payments") -> Any:
    return lab.bind(job).sources[name]


def generations(lab: Any, job: Any) -> list[tuple[int, int]]:
    found = source_of(lab, job).generations(WINDOW)
    return [(item.generation, item.items) for item in found]


def read(lab: Any, job: Any, attempt: str = "a", name: str = "payments") -> list[tuple[Any, ...]]:
    """Land if needed, and read, without a publish."""
    port = source_of(lab, job, name)
    pinned = port.pin([WINDOW])[WINDOW]
    if pinned.version is None:
        pinned = port.land(lab.spark, WINDOW, attempt)
    return sorted(tuple(row) for row in port.read(lab.spark, WINDOW, pinned).collect())


def test_the_life_of_a_landed_api(lab: Any, api: Api) -> None:
    """Landed once; read from there; refreshed beside; published from what the receipt names."""
    api.fill(3, START)
    api.plan = [bad.status(429, Retry_After="0"), bad.status(500, Retry_After="0")]
    job = job_of(lab, land(listing(api)), time="created")
    lab.run(job, fault="landed@1:raise")
    asked = len(api.requests)
    assert asked == 4
    assert lab.rows() == [(f"ch_{n}", 100.0 + n, DAY) for n in range(3)]
    assert generations(lab, job) == [(1, 3)]

    api.items[0]["amount"] = 999
    assert lab.run(job).state == "unchanged"
    assert lab.run(job, restate=True).only_receipt
    assert len(api.requests) == asked

    lab.run(job, refresh=True, fault="landed@1:raise")
    assert len(api.requests) == asked + 2
    assert lab.rows()[0] == ("ch_0", 999.0, DAY)
    assert generations(lab, job) == [(1, 3), (2, 3)]
    version = lab.version()
    same = lab.run(job, refresh=True)
    assert (same.state, lab.version()) == ("unchanged", version)
    assert "landed anew" in same.reason
    assert generations(lab, job) == [(1, 3), (2, 3), (3, 3)]
    published = lab.state(job).receipt.inputs["payments"]["version"]
    assert published == 2
    assert (
        lab.bind(job)
        .sources["payments"]
        .pin_published(WINDOW, lab.state(job).receipt.inputs["payments"])
        .version
        == 2
    )


def test_a_landed_copy_is_a_delta_table_that_anybody_can_read(lab: Any, api: Api) -> None:
    """Its record is in its one commit, without secrets; unknown fields are kept."""
    api.fill(2, START)
    job = job_of(lab, land(listing(api, headers={"X-Version": "sk_test"})))
    assert [row[0] for row in read(lab, job)] == ["ch_0", "ch_1"]
    place = lab.root / "landing" / "job.payments" / "2026-04-25" / "g1"
    table = DeltaTable(str(place))
    assert table.version() == 0
    (first, _) = sorted(table.to_pyarrow_table().to_pylist(), key=str)
    assert json.loads(first["item"])["note"] == "ä 0"
    (commit,) = table.history()
    record = json.loads(commit["userMetadata"])["landing"]
    assert (record["items"], record["pages"], record["attempt"]) == (2, 1, "a")
    assert record["request"]["params"]["created[gte]"] == "{start:unix}"
    assert (record["start"], record["end"]) == (
        "2026-04-25T00:00:00+00:00",
        "2026-04-26T00:00:00+00:00",
    )
    assert "sk_test" not in commit["userMetadata"]


def test_a_refresh_that_died_is_published_by_the_next_run(lab: Any, api: Api) -> None:
    """The new generation is the window's input from the moment it is landed."""
    api.fill(1, START)
    job = job_of(lab, land(listing(api)), time="created")
    lab.run(job)
    api.items[0]["amount"] = 5
    with pytest.raises(SetpointError):
        lab.run(job, refresh=True, fault="landed:raise")
    asked = len(api.requests)
    assert lab.run(job).state == "published"
    assert lab.rows() == [("ch_0", 5.0, DAY)]
    assert len(api.requests) == asked

    # The copies are gone: what the window was published from cannot be read any more.
    for lost in ("g2", "g1"):
        shutil.rmtree(lab.root / "landing" / "job.payments" / "2026-04-25" / lost)
        with pytest.raises(PermanentError, match="was published from generation 2") as told:
            lab.run(job, force=True)
        assert (told.value.code, len(api.requests)) == ("SP-R05", asked)
        assert "--refresh" in told.value.next
    assert lab.rows() == [("ch_0", 5.0, DAY)]
    assert lab.run(job, refresh=True).state == "unchanged"
    assert len(api.requests) == asked + 1


def test_a_refresh_without_a_window_is_for_the_restated_windows_too(lab: Any) -> None:
    """A window that runs because of late rows lands its other inputs anew, as was asked for."""
    early, late = WINDOW.day, WINDOW.next()
    lake = str(lab.root / "lake")
    write_deltalake(lake, pa.table({"id": [1], "d": [early]}))
    orders = source(delta("lake"), time="d", late="restate(1)")
    rates = source(land(rows(lambda window: [(1.0,)], schema="rate double")))

    def job(window: Any, orders: Any = orders, rates: Any = rates) -> Any:
        return orders

    made = lab.define(job)
    lab.run(made, WINDOW.id)
    how, world = How(refresh=EVERY), lab.world()

    def landing() -> list[tuple[str, bool]]:
        plans = plan_latest(lab.bind(made), late, world, parameters={}, how=how)
        return [(p.run.window.id, isinstance(p.steps[0], Land)) for p in plans]

    assert landing() == [(late.id, True)]
    write_deltalake(lake, pa.table({"id": [2], "d": [early]}), mode="append")
    assert landing() == [(WINDOW.id, True), (late.id, True)]


def test_nothing_is_landed_by_a_listing_that_fails(lab: Any, api: Api) -> None:
    """Neither a generation nor a file."""
    api.fill(3, START)
    api.plan = [None, *[bad.status(500, Retry_After="0")] * 2]
    job = job_of(lab, land(listing(api)))
    with pytest.raises(SetpointError) as told:
        read(lab, job)
    assert told.value.code == "SP-H01"
    assert list((lab.root / "landing").rglob("*.parquet")) == []
    assert len(read(lab, job)) == 3


def test_an_empty_listing_is_a_generation(lab: Any, api: Api) -> None:
    """No items is what the API said; it is not asked again."""
    job = job_of(lab, land(listing(api)), time="created")
    assert read(lab, job) == []
    assert read(lab, job) == []
    assert len(api.requests) == 1


def items(api: Api, *found: dict[str, Any]) -> None:
    """What the API answers, whatever it is asked."""
    api.answer = lambda path, params: ({"data": list(found), "has_more": False}, {})  # type: ignore[method-assign]


def clipped(
    lab: Any, api: Api, schema: str, window: Window = WINDOW, **more: Any
) -> tuple[list[str], tuple[str, ...]]:
    """The ids that a read of landed items gives for a window, and what it notes."""

    landed = land(listing(api, schema=schema, **more))

    def job(window: Any, payments: Any = source(landed, time="at")) -> Any:
        return payments

    made = lab.define(
        job,
        every=str(window.grain),
        target=delta("out", time="at"),
        timezone=window.timezone,
        name=f"job_{len(api.requests)}",
    )
    port = source_of(lab, made)
    port.pin([window])
    pinned = port.land(lab.spark, window, "a")
    frame = port.read(lab.spark, window, pinned)
    remarks = port.remarks(lab.spark, {window: pinned})[window]
    return sorted(row.id for row in frame.collect()), remarks.notes


def test_rows_outside_of_the_window_are_left_out_and_told(lab: Any, api: Api) -> None:
    """An API that ignores its bounds does not bring rows of other days."""
    api.fill(3, START + 86_400 - 60)
    api.keeps_bounds = False
    job = job_of(lab, land(listing(api)), time="created")
    outcome = lab.run(job)
    assert [row[0] for row in lab.rows()] == ["ch_0"]
    assert "of 3 items 2 outside of 2026-04-25 by created" in " ".join(outcome.notes)
    strict = job_of(lab, land(listing(api)), time="created", outside="refuse")
    with pytest.raises(RefusedError, match="SP-R08"):
        lab.run(strict, force=True)


def test_what_the_clip_leaves_out_is_counted_by_the_clip(lab: Any, api: Api) -> None:
    """Also a date that the schema makes a time, and an item without a time."""
    items(api, {"id": "a", "at": "2026-04-25"}, {"id": "b"}, {"id": "c", "at": START + 7200})
    york = Window.parse("2026-04-25", timezone="America/New_York")
    found, notes = clipped(lab, api, "id string, at timestamp", york)
    assert found == []
    (note,) = notes
    assert note.startswith("payments: of 3 items 2 outside of 2026-04-25 by at (")
    assert note.endswith("and 1 without at, left out")
    found, notes = clipped(lab, api, "id string, at timestamp", york, params={})
    assert (found, notes) == ([], ("payments: of 3 items 1 without at, left out",))


def test_a_day_cut_from_a_moment_is_that_of_the_pipelines_time_zone(lab: Any, api: Api) -> None:
    """What an API gives for a local day is in that day, its first hours too."""
    items(
        api,
        {"id": "first", "at": "2026-04-24T22:30:00Z"},
        {"id": "last", "at": "2026-04-25T14:59:59-07:00"},
        {"id": "plain", "at": "2026-04-25"},
        {"id": "local", "at": "2026-04-25T23:59:59"},
        {"id": "next", "at": "2026-04-26T00:00:00+02:00"},
    )
    berlin = Window.parse("2026-04-25", timezone="Europe/Berlin")
    found, notes = clipped(lab, api, "id string, at date", berlin)
    assert found == ["first", "last", "local", "plain"]
    assert "of 5 items 1 outside" in notes[0]


@pytest.mark.parametrize(
    ("kind", "value", "window"),
    [
        ("long", START, WINDOW),
        ("long", START, Window.parse("2026-04-25T10")),
        ("long", START * 1000, WINDOW),
        ("string", "2026-04-25T10:00:00Z", WINDOW),
        ("string", "2026-04-25", Window.parse("2026-W17")),
    ],
)
def test_times_are_not_taken_for_the_ids_of_windows(
    lab: Any, api: Api, kind: str, value: Any, window: Window
) -> None:
    """All rows would be left out; the error shows one value and the way out."""
    items(api, {"id": "a", "at": value})
    with pytest.raises(RefusedError) as told:
        clipped(lab, api, f"id string, at {kind}", window)
    assert told.value.code == "SP-R02"
    assert f"example '{value}'" in told.value.what
    assert "timestamp" in told.value.next


def test_ids_of_windows_are_clipped_as_such(lab: Any, api: Api) -> None:
    """A text or a number that names the window."""
    items(api, {"id": "a", "at": "2026-04-25", "day": 20260425}, {"id": "b", "at": "2026-04-26"})
    assert clipped(lab, api, "id string, at string")[0] == ["a"]
    items(api, {"id": "a", "at": 20260425}, {"id": "b", "at": 20260426})
    found, notes = clipped(lab, api, "id string, at long")
    assert (found, len(notes)) == (["a"], 1)


def test_a_function_whose_times_are_texts_is_refused(lab: Any) -> None:
    """Its rows would be in no window either."""
    origin = rows(lambda window: [("a", "2026-04-25T10:00:00Z")], schema="id string, at string")
    port = source_of(lab, job_of(lab, origin, time="at"))
    with pytest.raises(RefusedError) as told:
        port.read(lab.spark, WINDOW, port.pin([WINDOW])[WINDOW])
    assert told.value.code == "SP-R02"


@pytest.mark.parametrize(
    ("value", "schema", "name"),
    [
        ('"12"', "id string, x long", "x (bigint)"),
        ("1.5", "id string, x long", "x (bigint)"),
        ("5000000000", "id string, x int", "x (int)"),
        ("1.999", "id string, x decimal(10,2)", "x (decimal(10,2))"),
        ('"soon"', "id string, x timestamp", "x (timestamp)"),
        ("1777075200000", "id string, x timestamp", "x (timestamp)"),
        ("1777075200000000", "id string, x timestamp", "x (timestamp)"),
        ("[1777075200000000]", "id string, x array<timestamp>", "x[] (timestamp)"),
        ('{"y": "z"}', "id string, x struct<y:int>", "a value inside of a field"),
        ('{"y": 1.005}', "id string, x struct<y:decimal(10,2)>", "x.y (decimal(10,2))"),
        ("[1.5, 1.005]", "id string, x array<decimal(10,2)>", "x[] (decimal(10,2))"),
        (
            '{"a": [{"y": 1777075200000}]}',
            "id string, x map<string, array<struct<y:timestamp>>>",
            "x[][].y (timestamp)",
        ),
        ('{"y": "2026-04-25T00:30:00+02:00"}', "id string, x struct<y:date>", "x.y (date)"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_that_names_the_item(
    lab: Any, api: Api, value: str, schema: str, name: str
) -> None:
    """Never a silent null; and a better schema reads the same landed copy."""
    api.plan = [bad.body(f'{{"data": [{{"id": "ch_7", "x": {value}}}], "has_more": false}}')]
    job = job_of(lab, land(listing(api, schema=schema)))
    port = source_of(lab, job)
    frame = port.read(lab.spark, WINDOW, port.land(lab.spark, WINDOW, "a"))
    with pytest.raises(Exception, match="ch_7") as told:
        frame.collect()
    from setpoint.spark.failures import explain

    error = explain(told.value, "staging")
    assert (error.code, type(error)) == ("SP-H05", RefusedError)
    assert f": {name}." in error.what
    assert error.state.endswith("What was landed is kept.")
    assert read(lab, job_of(lab, land(listing(api, schema="id string, x string"))))[0][0] == "ch_7"
    assert len(api.requests) == 1


def test_values_that_fit_are_read(lab: Any, api: Api) -> None:
    """Times are whole seconds or ISO texts; nulls and missing fields are nulls."""
    items = [
        '{"id": "a", "t": 1777075200, "m": 1.5, "n": {"x": 1.50}, "l": [1.25, null]}',
        '{"id": "b", "t": "2026-04-25T02:00:00.25+02:00", "m": "2.50", "n": null}',
        '{"id": "c"}',
    ]
    api.plan = [bad.body(f'{{"data": [{", ".join(items)}], "has_more": false}}')]
    schema = (
        "id string, t timestamp, m decimal(10,2), n struct<x:decimal(3,1)>, l array<decimal(5,2)>"
    )
    job = job_of(lab, land(listing(api, schema=schema)))
    port = source_of(lab, job)
    frame = port.read(lab.spark, WINDOW, port.land(lab.spark, WINDOW, "a"))
    found = sorted(
        frame.selectExpr("id", "string(t)", "string(m)", "string(n.x)", "string(l)").collect()
    )
    assert [tuple(row) for row in found] == [
        ("a", "2026-04-25 00:00:00", "1.50", "1.5", "[1.25, null]"),
        ("b", "2026-04-25 00:00:00.25", "2.50", None, None),
        ("c", None, None, None, None),
    ]


def test_a_copy_that_answers_another_question_is_refused(lab: Any, api: Api) -> None:
    """The error says what changed and names --refresh; --as-published still reads it."""
    api.fill(2, START)
    first = job_of(lab, land(listing(api)))
    read(lab, first)
    recorded = source_of(lab, first).pin([WINDOW])[WINDOW].as_dict()
    other = job_of(lab, land(listing(api, params={"status": "paid"})), whole=True)
    with pytest.raises(PermanentError) as told:
        read(lab, other)
    assert told.value.code == "SP-H06"
    assert "params changed" in told.value.what
    assert "--refresh" in told.value.next
    port = source_of(lab, other)
    # Not even a receipt of this very copy makes the window unchanged.
    assert port.pin([WINDOW])[WINDOW].fingerprint != recorded["fingerprint"]
    assert port.read(lab.spark, WINDOW, port.pin_published(WINDOW, recorded)).count() == 2
    port.land(lab.spark, WINDOW, "b")
    assert len(read(lab, other)) == 2


def test_what_is_not_there_any_more_cannot_be_read_as_published(lab: Any, api: Api) -> None:
    """A generation that is gone, or another one under its number, is refused."""
    job = job_of(lab, land(listing(api)))
    read(lab, job)
    port = source_of(lab, job)
    recorded = port.pin([WINDOW])[WINDOW].as_dict()
    for wrong in ({**recorded, "version": 7}, {**recorded, "fingerprint": "x"}, {}):
        with pytest.raises(PermanentError) as told:
            port.pin_published(WINDOW, wrong)
        assert told.value.code == "SP-R05"


def test_a_landed_file_that_is_gone_is_told_with_its_repair(lab: Any, api: Api) -> None:
    """Not as a source that cannot be read: the copy is ours, and the origin can be asked anew."""
    items(api, {"id": "ch_1", "created": 1777075200})
    job = job_of(lab, land(listing(api)))
    read(lab, job)
    for file in (lab.root / "landing").rglob("*.parquet"):
        file.unlink()
    with pytest.raises(PermanentError, match=r"SP-H07.*generation 1 of payments") as told:
        read(lab, job)
    assert "--refresh" in told.value.next


def test_a_mutable_table_is_landed_through_its_own_source(lab: Any) -> None:
    """A lookup that others change is what it was when the window was first run."""
    place = str(lab.root / "accounts")
    write_deltalake(place, pa.table({"id": ["a"], "amount": [1.0]}))
    job = job_of(lab, land(delta("accounts"), name="accounts"), whole=True)
    assert read(lab, job) == [("a", 1.0)]
    before = source_of(lab, job).pin([WINDOW])[WINDOW]
    write_deltalake(place, pa.table({"id": ["b"], "amount": [2.0]}), mode="overwrite")
    assert read(lab, job) == [("a", 1.0)]
    assert source_of(lab, job).land(lab.spark, WINDOW, "b").version == 1
    port = source_of(lab, job)
    port.pin([WINDOW])
    after = port.land(lab.spark, WINDOW, "c")
    assert (before.version, after.version) == (1, 2)
    assert before.fingerprint != after.fingerprint
    assert read(lab, job) == [("b", 2.0)]
    assert (lab.root / "landing" / "accounts" / "2026-04-25" / "g2").is_dir()
    assert source_of(lab, job).leftovers() == []


def test_rows_of_a_function_are_landed(lab: Any) -> None:
    """The function is called once per generation; the same rows have the same fingerprint."""
    calls: list[str] = []

    def rates(window: Window) -> Any:
        calls.append(window.id)
        return sorted([("a", 1.0), ("b", 2.0)], reverse=len(calls) > 1)

    job = job_of(lab, land(rows(rates, schema="id string, amount double")))
    assert read(lab, job) == read(lab, job) == [("a", 1.0), ("b", 2.0)]
    assert calls == ["2026-04-25"]
    port = source_of(lab, job)
    first = port.pin([WINDOW])[WINDOW]
    assert port.land(lab.spark, WINDOW, "b").fingerprint == first.fingerprint
    assert len(calls) == 2


def test_a_type_that_cannot_be_landed_is_refused_before_anything_is_written(lab: Any) -> None:
    """The landed copy is a Delta table, which has no times of day."""
    origin = rows(lambda window: [("a", dt.time(1))], schema="id string, t time(6)")
    with pytest.raises(RefusedError, match="cannot be landed") as told:
        read(lab, job_of(lab, land(origin)))
    assert told.value.code == "SP-H07"
    assert not list(lab.root.rglob("*.parquet"))


def test_rows_that_are_not_landed_are_read_on_every_run(lab: Any, shelf: Any) -> None:
    """The same rows publish nothing; other rows are published; other code makes it stale."""
    held = shelf([("a", 1.0), ("b", None)])

    def current(window: Window) -> Any:
        return iter(held.rows)

    job = job_of(lab, rows(current, schema="id string, amount double"))
    lab.run(job)
    version = lab.version()
    same = lab.run(job)
    assert (same.state, lab.version()) == ("unchanged", version)
    held.rows = [{"amount": 3.0, "id": "a"}]
    assert lab.run(job).state == "published"
    assert lab.rows() == [("a", 3.0, DAY)]

    def changed(window: Window) -> Any:
        return [row for row in held.rows if row]

    other = job_of(lab, rows(changed, schema="id string, amount double"))
    assert other.code != job.code
    assert "the code" in lab.plan(other, "2026-04-25").reason
    landed = job_of(lab, land(rows(changed, schema="id string, amount double")))
    assert landed.code == other.code


def test_recover_removes_what_a_dead_attempt_left_where_inputs_land(lab: Any, api: Api) -> None:
    """Files of an attempt that ended go; those of one that nobody knows stay until they are old."""
    api.fill(2, START)
    job = job_of(lab, land(listing(api)))
    with pytest.raises(SetpointError):
        lab.run(job, fault="resolved:raise")
    bound, world = lab.bind(job), lab.world()
    (dead, *_) = world.ledger.attempts("job", limit=None)
    for attempt in (dead.attempt_id, "stranger"):
        folder = lab.root / "landing" / "job.payments" / "2026-04-25" / "g1" / attempt
        folder.mkdir(parents=True)
        (folder / "items-1.parquet").write_bytes(b"half a file")
    assert len(read(lab, job)) == 2
    hours = dt.timedelta(hours=24)
    found = {item.leftover.attempt: item for item in remains(bound, world, [], older_than=hours)}
    assert {name: item.removable for name, item in found.items()} == {
        dead.attempt_id: True,
        "stranger": False,
    }
    one = found[dead.attempt_id]
    one.drop(one.leftover.location)
    assert [item.attempt for item in lab.bind(job).sources["payments"].leftovers()] == ["stranger"]
    assert len(read(lab, job)) == 2


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": (None, "NoneType, not rows"),
    "a text": ("ab", "str, not rows"),
    "a dict": ({"id": 1}, "dict, not rows"),
    "no row": ([None], "NoneType as row 1"),
    "too few": ([(1, 2.0)], "2 values as row 1, for 4 columns"),
    "another name": ([{"id": 1, "x": 2.0, "t": None, "dd": DAY}], "without d and with dd"),
    "a text for a number": ([(1, 1.0, None, DAY), ("2", 1.0, None, DAY)], "'2' as id of row 2"),
    "a fraction": ([(1.5, 1.0, None, DAY)], "1.5 as id of row 1"),
    "a number for a time": ([(1, 1.0, 1777075200, DAY)], "1777075200 as t of row 1"),
    "a null": ([(None, 1.0, None, DAY)], "a null in id, which is NOT NULL"),
    "an Arrow table": (pa.table({"id": ["x"]}), "a table without x, t, d"),
    "an Arrow type": (
        pa.table({"id": ["x"], "x": [1.0], "t": [None], "d": [DAY]}),
        "a table that does not fit",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_rows_that_do_not_fit_are_refused(lab: Any, name: str) -> None:
    """The error names the row, the column and the value."""
    returned, words = WRONG[name]
    origin = rows(lambda window: returned, schema="id long not null, x double, t timestamp, d date")
    with pytest.raises(RefusedError) as told:
        read_rows(lab, origin)
    assert told.value.code == "SP-H08"
    assert words in told.value.what


def read_rows(lab: Any, origin: Any) -> list[tuple[Any, ...]]:
    port = source_of(lab, job_of(lab, origin))
    pinned = port.pin([WINDOW])[WINDOW]
    return [tuple(row) for row in port.read(lab.spark, WINDOW, pinned).collect()]


def test_rows_may_be_an_arrow_table_in_any_order_of_columns(lab: Any) -> None:
    """Columns go by name, and types that lose nothing are converted."""
    table = pa.table({"amount": pa.array([1, 2]), "id": ["a", "b"]})
    origin = rows(lambda window: table, schema="id string, amount double")
    assert read_rows(lab, origin) == [("a", 1.0), ("b", 2.0)]


def test_a_function_that_fails_is_told_in_its_own_words(lab: Any) -> None:
    """The line of the user's file, and no stack trace."""

    def broken(window: Window) -> Any:
        yield (1,)
        raise KeyError("rate")

    with pytest.raises(PermanentError, match=r"broken.*failed at test_landing.py:\d+: KeyError"):
        read_rows(lab, rows(broken, schema="id long"))


def test_where_landed_copies_lie_is_a_setting(lab: Any, api: Api, tmp_path: Path) -> None:
    """An absolute path, and a window whose id has a sign in it."""
    from setpoint.project.wiring import Project

    config = replace(lab.project.config, landing=str(tmp_path / "else where"))
    window = Window.parse("2026-10-25T02+0100", every="hour", timezone="Europe/Berlin")

    landed = source(land(listing(api)))

    def job(window: Any, größe: Any = landed) -> Any:
        return größe

    made = lab.define(
        job, every="hour", target=delta("out", time="created"), timezone="Europe/Berlin"
    )
    with Project(config) as project:
        port: Any = project.bind(made).sources["größe"]
        api.fill(1, int(window.start.timestamp()))
        pinned = port.land(lab.spark, window, "a")
        assert port.read(lab.spark, window, pinned).count() == 1
        assert port.pin([window])[window].version == 1
    (place,) = (tmp_path / "else where").iterdir()
    assert place.name.startswith("job.gr__e-") or place.name.startswith("job.gr_e-")
