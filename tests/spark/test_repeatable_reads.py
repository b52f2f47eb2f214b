"""Sources that are read the same way twice: pinned, clipped, looked at again; late rows."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from pyiceberg.types import DecimalType, LongType, StringType

from setpoint import (
    PermanentError,
    RefusedError,
    SetpointError,
    TransientError,
    Window,
    delta,
    files,
    iceberg,
    parquet,
    postgres,
    rows,
    source,
)
from setpoint.flow.run import plan_latest, refusal_of, run_window
from setpoint.flow.status import status

DAY, NEXT = dt.date(2026, 4, 25), dt.date(2026, 4, 26)
SCHEMA = "id int, d date"


def reading(lab: Any, given: Any, **rest: Any) -> Any:
    """A pipeline that publishes what it reads."""

    def copied(window: Window, lake: Any = given) -> Any:
        return lake

    return lab.define(copied, **rest)


def port(lab: Any, given: Any, **rest: Any) -> Any:
    return lab.bind(reading(lab, given, **rest)).sources["lake"]


def read(lab: Any, given: Any, window: str = "2026-04-25", **rest: Any) -> list[tuple[Any, ...]]:
    adapter = port(lab, given, **rest)
    (chosen,) = lab.windows(reading(lab, given, **rest), window)
    frame = adapter.read(lab.spark, chosen, adapter.pin([chosen])[chosen])
    return sorted(tuple(row) for row in frame.collect())


def fingerprints(lab: Any, given: Any, **rest: Any) -> list[str]:
    windows = [Window.parse(str(day)) for day in (DAY, NEXT)]
    pinned = port(lab, given, **rest).pin(windows)
    return [pinned[window].fingerprint for window in windows]


def write(place: Path, *lines: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("".join(f"{line}\n" for line in lines))
    return place


def stored(place: Path, **columns: Any) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), place)


def test_a_path_names_the_window(lab: Any) -> None:
    """Each window reads its own files; a file of another day is none of its business."""
    inbox = lab.root / "inbox it's [1]"
    write(inbox / "2026-04-25" / "a b.csv", "1,2026-04-25", "2,2026-04-25")
    write(inbox / "2026-04-25" / "_unfinished.csv", "9,2026-04-25")
    write(inbox / "2026-04-26" / "a.csv", "3,2026-04-26")
    given = source(files("inbox it's [[]1]/{date}/*.csv", schema=SCHEMA))
    assert read(lab, given) == [(1, DAY), (2, DAY)]
    assert read(lab, given, "2026-04-26") == [(3, NEXT)]
    before = fingerprints(lab, given)
    write(inbox / "2026-04-26" / "b.csv", "4,2026-04-26")
    after = fingerprints(lab, given)
    assert (after[0] == before[0], after[1] == before[1]) == (True, False)
    with pytest.raises(PermanentError, match=r"SP-R01.*2026-04-27"):
        read(lab, given, "2026-04-27")
    quiet = source(files("inbox it's [[]1]/{date}/*.csv", schema=SCHEMA, absent="empty"))
    assert read(lab, quiet, "2026-04-27") == []


def test_a_folder_tells_the_window_by_its_value(lab: Any) -> None:
    """Folders like d=2026-04-25 are a column, and only those of the window are its files."""
    stored(lab.root / "lake" / "d=2026-04-25" / "x.parquet", id=[1, 2])
    stored(lab.root / "lake" / "d=2026-04-26" / "x.parquet", id=[3], more=["new"])
    given = source(files("lake", format="parquet"), time="d")
    assert read(lab, given) == [(1, DAY), (2, DAY)]
    assert read(lab, given, "2026-04-26") == [(3, "new", NEXT)]
    before = fingerprints(lab, given)
    stored(lab.root / "lake" / "d=2026-04-25" / "y.parquet", id=[4])
    after = fingerprints(lab, given)
    assert (after[0] == before[0], after[1] == before[1]) == (False, True)


def test_rows_are_clipped_where_files_hold_several_windows(lab: Any) -> None:
    """By local days, at the file, and with the columns of all files."""
    moments = [f"2026-04-{day}T{hour:02}:30:00Z" for day in (24, 25) for hour in (21, 22)]
    write(lab.root / "events.json", *(json.dumps({"t": moment}) for moment in moments))
    given = source(files("events.json", schema="t timestamp"), time="t")
    rows = read(lab, given, timezone="Europe/Berlin", target=delta("out", partition_by="t"))
    assert len(rows) == 2
    adapter = port(lab, given)
    window = Window.parse("2026-04-25")
    frame = adapter.read(lab.spark, window, adapter.pin([window])[window])
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "PushedFilters: [IsNotNull(t), GreaterThanOrEqual(t" in plan


def test_columns_do_not_depend_on_which_file_is_looked_at_first(lab: Any) -> None:
    stored(lab.root / "lake" / "a.parquet", id=[1])
    stored(lab.root / "lake" / "b.parquet", id=[2], more=["x"])
    given = source(files("lake/*.parquet"), whole=True)
    assert sorted(read(lab, given), key=repr) == [(1, None), (2, "x")]


def test_a_row_that_does_not_fit_its_schema_is_an_error(lab: Any) -> None:
    """Not a silent null."""
    write(lab.root / "in.csv", "1,2026-04-25", "one,2026-04-25")
    with pytest.raises(Exception, match="SP-R01"):
        read(lab, source(files("in.csv", schema=SCHEMA), time="d"))


@pytest.mark.parametrize("change", ["rewritten", "gone"])
def test_files_that_change_while_they_are_read_are_an_error(lab: Any, change: str) -> None:
    """The rows were staged, of before or after the change; none is published."""
    place = write(lab.root / "in.csv", "1,2026-04-25")
    given = source(files("in.csv", "also.csv", schema=SCHEMA), time="d")
    write(lab.root / "also.csv", "2,2026-04-25")

    def job(window: Window, lake: Any = given) -> Any:
        rows = lake.localCheckpoint()
        if change == "gone":
            place.unlink()
        else:
            write(place, "1,2026-04-25", "3,2026-04-25")
        return rows

    with pytest.raises(PermanentError, match=r"SP-R04.*in\.csv"):
        lab.run(lab.define(job))
    assert not (lab.root / "out" / "_delta_log").exists()


def test_files_are_published_once_and_again_when_they_change(lab: Any) -> None:
    place = write(lab.root / "in.csv", "1,2026-04-25")
    job = reading(lab, source(files("in.csv", schema=SCHEMA), time="d"))
    assert lab.run(job).state == "published"
    assert lab.run(job).state == "unchanged"
    write(place, "1,2026-04-25", "2,2026-04-25")
    assert lab.plan(job, "2026-04-25").reason == "the input lake changed"
    with pytest.raises(PermanentError, match="SP-R05"):
        lab.run(job, as_published=True)
    assert lab.run(job).receipt.rows == 2


def test_what_the_last_publish_has_read_is_read_again(lab: Any) -> None:
    """New rows came and the code changed: the new code, on the inputs of the old publish."""

    def arrive(*ids: int) -> None:
        rows = pa.table({"id": pa.array(ids, pa.int32()), "d": [DAY] * len(ids)})
        write_deltalake(str(lab.root / "lake"), rows, mode="append")

    def job(window: Window, lake: Any = source(delta("lake"), time="d"), factor: int = 1) -> Any:
        return lake.selectExpr(f"id * {factor} AS id", "d")

    made = lab.define(job)
    arrive(1)
    lab.run(made)
    arrive(2)
    assert lab.run(made, as_published=True).state == "unchanged"
    corrected = lab.run(made, as_published=True, parameters={"factor": 10})
    assert [row[0] for row in lab.rows()] == [10]
    assert corrected.receipt.inputs["lake"]["version"] == 0
    assert lab.run(made, parameters={"factor": 10}).receipt.inputs["lake"]["version"] == 1
    assert [row[0] for row in lab.rows()] == [10, 20]
    fresh = lab.define(job, target=delta("other", partition_by="d"), name="other")
    with pytest.raises(PermanentError, match=r"SP-R05.*no receipt"):
        lab.run(fresh, as_published=True)


def test_an_iceberg_source_is_pinned_to_a_snapshot(lab: Any, lake: Any) -> None:
    """Clipped by its files, unmoved by what is written meanwhile, read again as it was."""
    lake.catalog.create_namespace("sales")
    spark = lake.spark
    spark.sql("CREATE TABLE lake.sales.orders (id INT, d DATE) PARTITIONED BY (d)")
    spark.sql("INSERT INTO lake.sales.orders VALUES (1, DATE'2026-04-25'), (2, DATE'2026-04-26')")
    given = source(iceberg("sales.orders"), time="d")
    adapter, window = port(lab, given), Window.parse("2026-04-25")
    pinned = adapter.pin([window])[window]
    before = fingerprints(lab, given)
    spark.sql("INSERT INTO lake.sales.orders VALUES (3, DATE'2026-04-25')")
    after = fingerprints(lab, given)
    assert (after[0] == before[0], after[1] == before[1]) == (False, True)
    assert [row.id for row in adapter.read(lab.spark, window, pinned).collect()] == [1]
    assert read(lab, given) == [(1, DAY), (3, DAY)]
    assert pinned.rows == 1
    again = port(lab, given).pin_published(window, pinned.as_dict())
    assert [row.id for row in adapter.read(lab.spark, window, again).collect()] == [1]
    with pytest.raises(PermanentError, match=r"SP-R05.*expired"):
        adapter.pin_published(window, {"version": 1, "fingerprint": ""})
    with pytest.raises(RefusedError, match=r"SP-R02.*no column day"):
        port(lab, source(iceberg("sales.orders"), time="day")).pin([window])
    with pytest.raises(PermanentError, match="SP-R01"):
        port(lab, source(iceberg("sales.none"), time="d")).pin([window])


def test_a_table_of_the_metastore_is_looked_at_again(lab: Any) -> None:
    """Its partitions tell the windows; a change between the look and the stage is an error."""
    spark = lab.spark
    spark.sql("CREATE DATABASE repeatable")
    try:
        spark.sql("CREATE TABLE repeatable.t (id INT, d DATE) USING parquet PARTITIONED BY (d)")
        spark.sql("INSERT INTO repeatable.t VALUES (1, DATE'2026-04-25'), (2, DATE'2026-04-26')")
        given = source(parquet(table="repeatable.t"), time="d")
        assert read(lab, given) == [(1, DAY)]
        before = fingerprints(lab, given)
        adapter, window = port(lab, given), Window.parse("2026-04-25")
        pinned = adapter.pin([window])[window]
        adapter.confirm(window, pinned)
        spark.sql("INSERT INTO repeatable.t VALUES (3, DATE'2026-04-25')")
        after = fingerprints(lab, given)
        assert (after[0] == before[0], after[1] == before[1]) == (False, True)
        with pytest.raises(PermanentError, match="SP-R04"):
            adapter.confirm(window, pinned)
        assert read(lab, given) == [(1, DAY), (3, DAY)]
    finally:
        spark.sql("DROP DATABASE repeatable CASCADE")


def test_another_pipeline_is_a_source(lab: Any) -> None:
    """Its target is read, clipped on its own column; its name is the dependency."""
    first = lab.job([(1, 1.0, DAY), (2, 2.0, NEXT)][:1], name="first")
    given = source(first)
    assert (given.upstream, given.time, given.label) == ("first", "d", "first")
    lab.run(first)
    assert read(lab, given, target=delta("second", partition_by="d")) == [(1, 1.0, DAY)]


def late_rows(lab: Any, late: str) -> tuple[Any, Any]:
    """Five published days, then a row for the first and one for the last."""
    first = dt.date(2026, 4, 20)
    days = [first + dt.timedelta(days=number) for number in range(5)]

    def arrive(*arrivals: dt.date) -> None:
        rows = pa.table({"id": pa.array(range(len(arrivals)), pa.int32()), "d": list(arrivals)})
        write_deltalake(str(lab.root / "lake"), rows, mode="append", partition_by=["d"])

    arrive(*days)
    job = reading(lab, source(delta("lake"), time="d", late=late))
    for day in (days[0], days[4]):
        lab.run(job, str(day))
    arrive(days[0], days[4])
    return job, lambda day: lab.run(job, str(day))


@pytest.mark.parametrize(
    ("late", "old", "new"),
    [
        ("", "published", "published"),
        ("ignore", "unchanged", "unchanged"),
        ("restate(3)", "unchanged", "published"),
        ("fail", "SP-R06", "SP-R06"),
    ],
)
def test_late_rows_do_what_the_policy_says(lab: Any, late: str, old: str, new: str) -> None:
    job, run = late_rows(lab, late)
    shown = status(lab.bind(job), lab.world(), dt.datetime(2026, 4, 25, tzinfo=dt.timezone.utc))
    states = {item.window.id: (item.state, item.reason) for item in shown.windows}
    # A run without a window restates what its policy says, and begins no old window.
    (latest,) = lab.windows(job, "2026-04-25")
    plans = plan_latest(lab.bind(job), latest, lab.world(), parameters={})
    restated = ["2026-04-24"] if late == "restate(3)" else []
    assert [plan.run.window.id for plan in plans] == [*restated, "2026-04-25"]
    for day, wanted in ((dt.date(2026, 4, 20), old), (dt.date(2026, 4, 24), new)):
        state, reason = states[str(day)]
        if wanted.startswith("SP-"):
            assert (state, "+1" in reason) == ("stale", True)
            told = refusal_of(lab.bind(job), lab.plan(job, str(day)))
            assert told is not None
            assert told.code == wanted
            with pytest.raises(RefusedError, match=wanted):
                run(day)
            assert lab.run(job, str(day), force=True).state == "published"
            continue
        assert state == ("stale" if wanted == "published" else "done"), reason
        assert run(day).state == wanted
    if late == "ignore":
        assert "late rows of lake" in states["2026-04-20"][1]


def test_settings_that_hide_lost_files_do_not_count(lab: Any) -> None:
    """A session that ignores missing files would read a few rows less, and say nothing."""
    gone = lab.root / "lake" / "d=2026-04-25" / "b.parquet"
    stored(lab.root / "lake" / "d=2026-04-25" / "a.parquet", id=[1])
    stored(gone, id=[2])

    def job(window: Window, lake: Any = source(files("lake", format="parquet"), time="d")) -> Any:
        os.unlink(gone)
        return lake

    lab.spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(SetpointError, match=r"b\.parquet"):
            lab.run(lab.define(job))
    finally:
        lab.spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    assert not (lab.root / "out" / "_delta_log").exists()


def test_late_rows_that_come_after_the_plan_are_late(db: Any, postgres_lab: Any) -> None:
    """They are seen by the snapshot of the read, or by the next try: neither publishes them."""
    lab = postgres_lab
    db.all("CREATE TABLE orders (id int, d date); INSERT INTO orders VALUES (1, '2026-04-25')")
    given = source(
        postgres("orders", connection="test"),
        time="d",
        probe="SELECT count(*) FROM orders WHERE d >= {start} AND d < {end}",
        late="fail",
    )
    fails = write(lab.root / "fails")

    def job(window: Window, lake: Any = given, factor: int = 1) -> Any:
        if fails.read_text():
            write(fails)
            db.all("INSERT INTO orders VALUES (3, '2026-04-25')")
            raise TransientError("SP-S04", "The network was gone.")
        return lake.selectExpr(f"id * {factor} AS id", "d")

    made = lab.define(job)
    lab.run(made)
    planned = lab.plan(made, "2026-04-25", parameters={"factor": 10})
    db.all("INSERT INTO orders VALUES (2, '2026-04-25')")
    with pytest.raises(RefusedError, match=r"SP-R06.*lake has changed"):
        run_window(lab.bind(made), planned, lab.world())
    db.all("DELETE FROM orders WHERE id = 2")
    write(fails, "once")
    with pytest.raises(RefusedError, match="SP-R06"):
        lab.run(made, parameters={"factor": 10})
    assert lab.rows() == [(1, DAY)]


def test_an_input_that_cannot_tell_gives_the_same_rows_and_a_true_reason(lab: Any) -> None:
    """Nobody else published; late="ignore" does not even ask."""
    calls = write(lab.root / "calls")

    def give(window: Window) -> list[tuple[int, dt.date]]:
        write(calls, *calls.read_text().split(), "called")
        return [(1, DAY)]

    origin = rows(give, schema=SCHEMA)
    lab.run(reading(lab, source(origin, time="d")))
    again = lab.run(reading(lab, source(origin, time="d")))
    assert (again.state, again.reason) == ("unchanged", "the window already holds these rows")
    ignored = lab.run(reading(lab, source(origin, time="d", late="ignore")))
    assert (ignored.state, calls.read_text().count("called")) == ("unchanged", 2)
    assert ignored.reason == "lake is not read again, as its policy says"


def lake_of(lab: Any, **columns: Any) -> str:
    place = str(lab.root / "lake")
    write_deltalake(place, pa.table(columns), mode="append")
    return place


def test_other_columns_of_a_delta_table_are_another_input(lab: Any) -> None:
    """The files are the same, what is read from them is not."""
    given = source(delta("lake"), time="d")
    place = lake_of(lab, id=[1], d=[DAY])
    before = fingerprints(lab, given)
    DeltaTable(place).alter.add_columns([Field("more", PrimitiveType("string"))])
    after = fingerprints(lab, given)
    assert (after[0] == before[0], after[1] == before[1]) == (False, False)
    assert read(lab, given) == [(1, DAY, None)]


def test_renamed_columns_of_a_delta_table_are_another_input(lab: Any) -> None:
    """Files and statistics keep the old names: two columns that swapped theirs are told apart."""
    given, log = source(delta("lake"), time="d"), lab.root / "lake" / "_delta_log"
    lake_of(lab, d=[DAY], e=[NEXT])
    first = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    meta = next(action["metaData"] for action in first if "metaData" in action)

    def commit(version: int, **stored: str) -> None:
        """As the connector does it: ALTER TABLE ... RENAME COLUMN, with column mapping."""
        fields = [
            {
                "name": name,
                "type": "date",
                "nullable": True,
                "metadata": {
                    "delta.columnMapping.id": number,
                    "delta.columnMapping.physicalName": physical,
                },
            }
            for number, (name, physical) in enumerate(stored.items(), 1)
        ]
        configuration = {
            "delta.columnMapping.mode": "name",
            "delta.columnMapping.maxColumnId": "2",
        }
        schema = json.dumps({"type": "struct", "fields": fields})
        changed = {**meta, "schemaString": schema, "configuration": configuration}
        protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
        actions = [{"protocol": protocol}, {"metaData": changed}]
        write(log / f"{version:020}.json", *map(json.dumps, actions))

    commit(1, d="d", e="e")
    windows = [Window.parse(str(day)) for day in (DAY, NEXT)]
    before = port(lab, given).pin(windows)
    assert [before[window].rows for window in windows] == [1, 0]
    commit(2, d="e", e="d")
    after = port(lab, given).pin(windows)
    assert [after[window].rows for window in windows] == [0, 1]
    commit(3, d="d", f="e")
    renamed = port(lab, given).pin(windows)
    assert renamed[windows[0]].rows == 1
    assert renamed[windows[0]].fingerprint != before[windows[0]].fingerprint


def test_an_iceberg_table_is_read_with_its_columns_of_now(lab: Any, lake: Any) -> None:
    """And as published with those of then. The snapshot itself knows only those of then."""
    spark = lake.spark
    lake.catalog.create_namespace("sales")
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "net": [100, 200],
            "gross": [119, 238],
            "line": [{"a": 7}, None],
            "lines": [[{"a": 8}], []],
            "d": [DAY, DAY],
        }
    )
    table = lake.catalog.create_table("sales.orders", rows.schema)
    given, window = source(iceberg("sales.orders"), time="d"), Window.parse("2026-04-25")
    empty = port(lab, given)
    nothing = empty.pin([window])[window]
    table.append(rows)
    assert empty.read(spark, window, nothing).collect() == []
    with pytest.raises(PermanentError, match=r"SP-R05.*without a snapshot"):
        port(lab, given).pin_published(window, nothing.as_dict())
    adapter = port(lab, given)
    pinned = adapter.pin([window])[window]
    with table.update_schema() as change:
        change.rename_column("net", "swap")
    with table.update_schema() as change:
        change.rename_column("gross", "net")
        change.rename_column("line.a", "b")
        change.rename_column("lines.element.a", "b")
        change.add_column(("line", "c"), StringType())
        change.add_column("more", DecimalType(9, 2))
        change.update_column("id", LongType())
    with table.update_schema() as change:
        change.rename_column("swap", "gross")
        change.rename_column("d", "day")
    with pytest.raises(RefusedError, match=r"SP-R02.*no column d;"):
        port(lab, given).pin([window])
    now = port(lab, source(iceberg("sales.orders"), time="day"))
    newer = now.pin([window])[window]
    assert newer.fingerprint != pinned.fingerprint
    frame = now.read(spark, window, newer)
    assert frame.schema == spark.table("lake.sales.orders").schema
    expected = spark.table("lake.sales.orders").where("day = DATE'2026-04-25'")
    assert sorted(frame.collect(), key=repr) == sorted(expected.collect(), key=repr)
    assert sorted((row.id, row.net, row.gross) for row in frame.collect()) == [
        (1, 119, 100),
        (2, 238, 200),
    ]
    again = port(lab, given).pin_published(window, pinned.as_dict())
    then = port(lab, given).read(spark, window, again)
    assert sorted((row.id, row.net) for row in then.collect()) == [(1, 100), (2, 200)]
    with pytest.raises(PermanentError, match=r"SP-R05.*other columns"):
        port(lab, source(iceberg("sales.orders"), time="day")).pin_published(
            window, pinned.as_dict()
        )


def test_a_version_whose_files_were_removed_cannot_be_read_again(lab: Any) -> None:
    """VACUUM is noticed before anything is staged; files that live on are no reason."""
    given, window = source(delta("lake"), time="d"), Window.parse("2026-04-25")
    place = lake_of(lab, id=[1], d=[DAY])
    first = port(lab, given).pin([window])[window].as_dict()
    lake_of(lab, id=[2], d=[DAY])
    assert port(lab, given).pin_published(window, first).version == 0
    write_deltalake(place, pa.table({"id": [3], "d": [DAY]}), mode="overwrite")
    assert port(lab, given).pin_published(window, first).version == 0
    DeltaTable(place).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(PermanentError, match=r"SP-R05.*version 0.*1 of its files"):
        port(lab, given).pin_published(window, first)


NAMES: list[tuple[str, list[Any], str]] = [
    ("day", ["2026-04-25T10:00:00Z"], "refused"),
    ("day", [1777111200], "refused"),
    ("hour", [1777111200], "refused"),
    ("week", ["2026-04-25", "2026-04-26"], "refused"),
    ("day", ["2026-04-25", "unknown"], "refused"),
    ("day", ["2026-04-25", "2026-04", None], "read"),
    ("day", [20260425, 20260426], "read"),
    ("hour", ["2026-04-25T13", "2026-10-25T02+0100"], "read"),
]


@pytest.mark.parametrize(("every", "values", "then"), NAMES)
def test_a_column_of_other_things_than_names_of_windows_is_refused(
    lab: Any, every: str, values: list[Any], then: str
) -> None:
    """Its windows would all be empty, and look like results. The log tells, without a JVM."""
    lake_of(lab, name=values)
    job = reading(
        lab, source(delta("lake"), time="name"), every=every, target=delta("out", time="x")
    )
    window = Window.containing(dt.datetime(2026, 4, 25, tzinfo=dt.timezone.utc), job.every)
    adapter = lab.bind(job).sources["lake"]
    if then == "read":
        assert adapter.pin([window])
        return
    with pytest.raises(RefusedError, match=r"SP-R02.*not the name of a window"):
        adapter.pin([window])


def test_where_no_statistics_tell_a_few_rows_are_looked_at(lab: Any, lake: Any) -> None:
    """Iceberg cuts texts short, a metastore has no statistics, and Delta may lack them."""
    lake.catalog.create_namespace("sales")
    rows = pa.table({"id": [1], "at": ["2026-04-25T10:00:00Z"], "d": ["2026-04-25"]})
    lake.catalog.create_table("sales.orders", rows.schema).append(rows)
    bare = {"delta.dataSkippingNumIndexedCols": "0"}
    write_deltalake(str(lab.root / "bare"), rows, configuration=bare)
    lab.spark.sql("CREATE DATABASE named")
    try:
        lab.spark.sql(
            "CREATE TABLE named.t USING parquet PARTITIONED BY (number) AS "
            "SELECT '2026-04-25T10' AS at, '2026-04-25' AS d, 20260 AS number"
        )
        window, own = Window.parse("2026-04-25"), lake.spark
        for origin in (iceberg("sales.orders"), delta("bare"), parquet(table="named.t")):
            wrong, right = (port(lab, source(origin, time=name)) for name in ("at", "d"))
            with pytest.raises(RefusedError, match=r"SP-R02.*not the name of a window"):
                wrong.read(own, window, wrong.pin([window])[window])
            assert right.read(own, window, right.pin([window])[window]).count() == 1
        with pytest.raises(RefusedError, match=r"SP-R02.*number, of type integer, holds 20260,"):
            fingerprints(lab, source(parquet(table="named.t"), time="number"))
    finally:
        lab.spark.sql("DROP DATABASE named CASCADE")


def test_a_database_is_asked_for_the_ends_of_a_column_of_names(db: Any, postgres_lab: Any) -> None:
    """By its index, or else for a few rows, in the snapshot of the read."""
    db.all("CREATE TABLE t (id int, at text, d text); CREATE INDEX ON t (d)")
    db.all("INSERT INTO t VALUES (1, '2026-04-25 10:00', '2026-04-25'), (2, NULL, '2026-04-26')")
    given = postgres("t", connection="test")
    with pytest.raises(RefusedError, match=r"SP-R02.*holds '2026-04-25 10:00'"):
        port(postgres_lab, source(given, time="at")).read(
            postgres_lab.spark, Window.parse("2026-04-25"), None
        )
    adapter, window = port(postgres_lab, source(given, time="d")), Window.parse("2026-04-25")
    try:
        pinned = adapter.pin([window])[window]
        assert [row.id for row in adapter.read(postgres_lab.spark, window, pinned).collect()] == [1]
    finally:
        adapter.release(window)
    db.all("INSERT INTO t VALUES (3, NULL, 'yesterday')")
    with pytest.raises(RefusedError, match=r"SP-R02.*holds 'yesterday'"):
        adapter.read(postgres_lab.spark, window, pinned)
    adapter.release(window)
    probed = source(given, whole=True, probe="SELECT count(*) FROM t")
    before = fingerprints(postgres_lab, probed)
    db.all("ALTER TABLE t RENAME at TO noted")
    assert fingerprints(postgres_lab, probed) != before
