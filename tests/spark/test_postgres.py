"""PostgreSQL as a destination: the promise on a real server, pattern by pattern."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from setpoint import (
    DeleteInsert,
    InsertNew,
    Merge,
    RefusedError,
    Replace,
    TransientError,
    UsageError,
    not_null,
    pipeline,
    postgres,
    sql,
    unique,
)
from setpoint.project.config import Config
from setpoint.project.wiring import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = dt.date(2026, 4, 25)
AFTER = DAY + dt.timedelta(1)
A = [(1, 1.5, DAY), (2, 2.5, DAY)]
B = [(1, 9.0, DAY), (3, 3.0, DAY), (4, 4.0, DAY)]
ORDERS = "id int, status string, seq long"
BY_DAY = postgres("out", connection="test", time="d")
TABLE = postgres("out", connection="test")
_NUMBERS = itertools.count()


@dataclass
class Database:
    """A database of one test's own, looked at without setpoint."""

    url: str

    def all(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(query.encode())
            return found.fetchall() if found.description else []

    def rows(self, table: str = "out") -> list[tuple[Any, ...]]:
        return sorted(self.all(f"SELECT * FROM {table}"), key=repr)

    def versions(self, table: str = "out") -> list[tuple[Any, ...]]:
        """The row versions: every update, and every row written again, shows."""
        return sorted(self.all(f"SELECT ctid::text, xmin::text, xmax::text FROM {table}"))

    def stages(self) -> list[str]:
        found = self.all(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE nspname = 'setpoint' AND relname LIKE 'stage%'"
        )
        return [name for (name,) in found]


@pytest.fixture
def db(postgres_url: str) -> Database:
    name = f"test{next(_NUMBERS)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return Database(postgres_url.replace("/postgres?", f"/{name}?", 1))


@pytest.fixture
def lab(lab: Any, db: Database, project_dir: Path) -> Iterator[Any]:
    """The suite's laboratory with the test's database as the connection `test`."""
    config = Config(
        root=project_dir, ledger="sqlite:///.setpoint/ledger.db", connections={"test": db.url}
    )
    with Project(config, tell=lab.told.append, warn=lab.told.append) as project:
        lab.project = project
        yield lab


def merge(**rest: Any) -> Merge:
    return Merge(key="id", sequence_by="seq", **rest)


def test_one_run_and_three_runs_leave_the_same_state(lab: Any, db: Database) -> None:
    """The second and the third run find the window done: no new row version, no receipt."""
    job = lab.job(A, target=BY_DAY)
    assert lab.run(job).state == "published"
    before = db.versions()
    assert db.rows() == sorted(A)
    assert [lab.run(job).state for _ in range(2)] == ["unchanged", "unchanged"]
    assert db.versions() == before
    assert db.all("SELECT generation FROM setpoint.receipts") == [(1,)]
    assert db.stages() == []


def test_changed_rows_replace_the_slice_and_no_other_row(lab: Any, db: Database) -> None:
    """Row versions of the other window are the same before and after."""
    lab.run(lab.job([(9, 9.0, AFTER)], target=BY_DAY), "2026-04-26")
    other = db.versions("out WHERE d = '2026-04-26'")
    lab.run(lab.job(A, target=BY_DAY))
    lab.run(lab.job(B, target=BY_DAY))
    assert db.rows() == sorted([*B, (9, 9.0, AFTER)])
    assert db.versions("out WHERE d = '2026-04-26'") == other
    job = lab.job([], target=BY_DAY)
    assert lab.run(job).state == "published"
    assert db.rows() == [(9, 9.0, AFTER)]
    assert lab.run(job).state == "unchanged"


def test_new_run_key_with_the_same_rows_renews_the_receipt_alone(lab: Any, db: Database) -> None:
    lab.run(lab.job(A, target=BY_DAY))
    before = db.versions()
    job = lab.job(list(reversed(A)), target=BY_DAY)
    assert lab.run(job).only_receipt
    assert db.versions() == before
    assert lab.state(job).generation == 2
    assert lab.run(job).state == "unchanged"
    assert db.stages() == []


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO out VALUES (7, 7.0, '2026-04-25')",
        "UPDATE out SET amount = 0 WHERE id = 1",
        "DELETE FROM out WHERE id = 1",
        "TRUNCATE out",
        "UPDATE out SET d = '2026-04-27' WHERE id = 1",
    ],
)
def test_a_foreign_change_makes_the_window_run_again(lab: Any, db: Database, change: str) -> None:
    """Whatever somebody else did to the slice, the next run sees it and puts the rows back."""
    job = lab.job(A, target=BY_DAY)
    lab.run(job)
    db.all(change)
    assert lab.state(job).untouched is False
    assert lab.run(job).state == "published"
    assert db.rows("out WHERE d = '2026-04-25'") == sorted(A)


def test_maintenance_is_no_change(lab: Any, db: Database) -> None:
    job = lab.job(A, target=BY_DAY)
    lab.run(job)
    for statement in ("VACUUM FREEZE out", "VACUUM FULL out", "CREATE INDEX ON out (id)"):
        db.all(statement)
        assert lab.run(job).state == "unchanged", statement


def test_a_year_of_windows_is_looked_at_in_one_go(lab: Any, db: Database) -> None:
    """365 windows are judged by a handful of queries; one touched window is found among them."""
    db.all("CREATE TABLE out (id int, amount float8, d timestamptz)")
    moment = dt.datetime(2025, 3, 1, 12, tzinfo=dt.timezone.utc)
    job = lab.job([(1, 1.0, moment)], "id int, amount double, d timestamp", target=BY_DAY)
    lab.run(job, "2025-03-01")
    bound = lab.bind(job)
    windows = lab.windows(job, "2025-01-01..2025-12-31")
    states = bound.target.inspect(windows)
    assert [w.id for w, s in states.items() if s.published] == ["2025-03-01"]
    assert states[windows[59]].untouched is True
    db.all("INSERT INTO out VALUES (2, 2.0, '2025-03-01 23:59:59.999999+00')")
    assert bound.target.inspect(windows)[windows[59]].untouched is False
