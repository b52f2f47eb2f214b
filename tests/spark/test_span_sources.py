"""A span read at once holds the rows that its windows hold one by one."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from setpoint import SetpointError, files, iceberg, parquet, source
from setpoint.model.ports import SpanPort
from setpoint.model.span import Span

_NUMBERS = itertools.count()
DAYS = "2026-04-01..2026-04-03"


def day(number: int) -> dt.date:
    return dt.date(2026, 4, number)


ROWS = [(number * 10 + n, day(number)) for number in range(1, 6) for n in range(2)]


@pytest.fixture
def database(lab: Any) -> Iterator[str]:
    name = f"spans{next(_NUMBERS)}"
    lab.spark.sql(f"CREATE DATABASE {name}")
    yield name
    lab.spark.sql(f"DROP DATABASE {name} CASCADE")


def made(lab: Any, kind: str, request: pytest.FixtureRequest) -> Any:
    """A source with five days of rows, below the folder `in` where it is made of files."""
    frame, place = lab.frame(ROWS, "id int, d date"), str(lab.root / "in")
    match kind:
        case "iceberg":
            catalog = request.getfixturevalue("lake").catalog
            ids, days = (pa.array(column) for column in zip(*ROWS, strict=True))
            rows = pa.table({"id": ids, "d": days})
            catalog.create_namespace_if_not_exists(("sales",))
            catalog.create_table(("sales", "source"), rows.schema).append(rows)
            return source(iceberg("sales.source"), time="d")
        case "hive":
            name = f"{request.getfixturevalue('database')}.t"
            writer = frame.write.partitionBy("d").format("parquet")
            writer.option("path", place).saveAsTable(name)
            return source(parquet(table=name), time="d")
        case "folders":
            frame.write.partitionBy("d").parquet(place)
            return source(files(place, format="parquet"), time="d")
    for number in range(1, 6):
        mine = [*(row for row in ROWS if row[1] == day(number)), (number, day(number % 5 + 1))]
        folder = f"{place}/{day(number).isoformat()}"
        lab.frame(mine, "id int, d date").coalesce(1).write.parquet(folder)
    timed = {"time": "d"} if kind == "timed paths" else {}
    return source(files(f"{place}/{{date}}", format="parquet"), **timed)


@pytest.mark.parametrize("kind", ["iceberg", "hive", "folders", "paths", "timed paths"])
def test_a_span_holds_what_its_windows_hold(
    lab: Any, request: pytest.FixtureRequest, kind: str
) -> None:
    """One look after the read serves all windows, and tells which of them has changed."""
    origin = made(lab, kind, request)
    job = lab.define(lambda window, rows=origin: rows, spans=True)
    found, windows = lab.bind(job).sources["rows"], lab.windows(job, DAYS)
    assert isinstance(found, SpanPort)
    pins, span = found.pin(windows), Span(tuple(windows))
    session = request.getfixturevalue("lake").spark if kind == "iceberg" else lab.spark
    read = sorted(tuple(row) for row in found.read_span(session, span, pins).collect())
    for window in windows:
        found.confirm(window, pins[window])
    alone = [found.read(session, window, pins[window]).collect() for window in windows]
    assert read == sorted(tuple(row) for rows in alone for row in rows)
    assert len(read) == {"paths": 9}.get(kind, 6)
    if kind == "iceberg":
        return
    found.read_span(lab.spark, span, pins)
    (part,) = (lab.root / "in").glob("*2026-04-02/*.parquet")
    part.unlink()
    found.confirm(windows[0], pins[windows[0]])
    with pytest.raises(SetpointError, match="SP-R"):
        found.confirm(windows[1], pins[windows[1]])
    found.confirm(windows[2], pins[windows[2]])
