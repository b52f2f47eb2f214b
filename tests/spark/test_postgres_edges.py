"""PostgreSQL where Spark and the table do not mean the same by a value, end to end."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from setpoint import InsertNew, Merge, RefusedError, postgres, unique

LOWER = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
OUT = postgres("out", connection="test")


@pytest.fixture
def lab(postgres_lab: Any) -> Any:
    return postgres_lab


def test_a_moment_that_the_column_rounds_into_the_next_window_is_refused(lab: Any, db: Any) -> None:
    """Otherwise every run would publish it once more."""
    db.all("CREATE TABLE out (id int, ts timestamptz(0))")
    late = dt.datetime(2026, 4, 25, 23, 59, 59, 700_000, tzinfo=dt.timezone.utc)
    target = postgres("out", connection="test", time="ts")
    job = lab.job([(1, late)], "id int, ts timestamp", target=target)
    with pytest.raises(RefusedError, match=r"SP-O02.*ts \(timestamp\(0\) with time zone\)"):
        lab.run(job)
    assert db.all("SELECT * FROM out") == []
    whole = lab.job([(1, late.replace(microsecond=0))], "id int, ts timestamp", target=target)
    assert [lab.run(whole).state for _ in range(2)] == ["published", "unchanged"]


def test_a_key_in_two_spellings_is_one_key_for_the_merge_and_for_the_audit(
    lab: Any, db: Any
) -> None:
    """Spark takes the texts of a uuid for two keys, the column for one."""
    db.all("CREATE TABLE out (id uuid, v text, seq bigint)")
    columns = "id string, v string, seq long"
    rows = [(LOWER.upper(), "new", 2), (LOWER, "old", 1)]
    write = Merge(key="id", sequence_by="seq")
    assert lab.run(lab.job(rows, columns, target=OUT, write=write)).state == "published"
    assert db.all("SELECT v, seq FROM out") == [("new", 2)]
    db.all("CREATE TABLE events (key uuid, id uuid)")
    events = [("b" * 32, LOWER), ("c" * 32, LOWER.upper())]
    job = lab.job(
        events,
        "key string, id string",
        target=postgres("events", connection="test"),
        write=InsertNew(key="key"),
        audits=[unique("id")],
    )
    with pytest.raises(RefusedError, match=r"SP-A01.*unique\(id\)"):
        lab.run(job)
    assert db.all("SELECT * FROM events") == []
