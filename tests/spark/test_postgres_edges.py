"""PostgreSQL where Spark and the table do not mean the same by a value, end to end."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from setpoint import InsertNew, Merge, RefusedError, postgres, unique
from setpoint.project.config import Config
from setpoint.project.wiring import Project

LOWER = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
OUT = postgres("out", connection="test")
_NUMBERS = itertools.count()

Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def url(postgres_url: str) -> str:
    name = f"edges{next(_NUMBERS)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return postgres_url.replace("/postgres?", f"/{name}?", 1)


@pytest.fixture
def ask(url: str) -> Ask:
    """The test's database, asked without setpoint."""

    def answer(query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute(query.encode())
            return found.fetchall() if found.description else []

    return answer


@pytest.fixture
def lab(lab: Any, url: str, project_dir: Path) -> Iterator[Any]:
    config = Config(
        root=project_dir, ledger="sqlite:///.setpoint/ledger.db", connections={"test": url}
    )
    with Project(config, tell=lab.told.append, warn=lab.told.append) as project:
        lab.project = project
        yield lab


def test_a_moment_that_the_column_rounds_into_the_next_window_is_refused(
    lab: Any, ask: Ask
) -> None:
    """Otherwise every run would publish it once more."""
    ask("CREATE TABLE out (id int, ts timestamptz(0))")
    late = dt.datetime(2026, 4, 25, 23, 59, 59, 700_000, tzinfo=dt.timezone.utc)
    target = postgres("out", connection="test", time="ts")
    job = lab.job([(1, late)], "id int, ts timestamp", target=target)
    with pytest.raises(RefusedError, match=r"SP-O02.*ts \(timestamp\(0\) with time zone\)"):
        lab.run(job)
    assert ask("SELECT * FROM out") == []
    whole = lab.job([(1, late.replace(microsecond=0))], "id int, ts timestamp", target=target)
    assert [lab.run(whole).state for _ in range(2)] == ["published", "unchanged"]


def test_a_key_in_two_spellings_is_one_key_for_the_merge_and_for_the_audit(
    lab: Any, ask: Ask
) -> None:
    """Spark takes the texts of a uuid for two keys, the column for one."""
    ask("CREATE TABLE out (id uuid, v text, seq bigint)")
    columns = "id string, v string, seq long"
    rows = [(LOWER.upper(), "new", 2), (LOWER, "old", 1)]
    write = Merge(key="id", sequence_by="seq")
    assert lab.run(lab.job(rows, columns, target=OUT, write=write)).state == "published"
    assert ask("SELECT v, seq FROM out") == [("new", 2)]
    ask("CREATE TABLE events (key uuid, id uuid)")
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
    assert ask("SELECT * FROM events") == []
