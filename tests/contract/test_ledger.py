"""One behaviour suite for the ledger, run on a SQLite file and on a PostgreSQL server."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from setpoint.ledger import AttemptRecord, AuditRecord, Ledger, LedgerError, StepRecord

T0 = datetime(2026, 4, 25, 3, 0, tzinfo=timezone.utc)
DATABASE_NUMBERS = itertools.count()
HOSTILE = [
    "'; DROP TABLE attempts; --",
    'quoted "name" with \\ and %s and :bind and %(x)s and ?',
    "naïve ☃ 𝄞 \u202e right-to-left",
    "line\nbreak\ttab\r",
    "",
    " leading and trailing ",
    "{}[]/..//",
]


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Gives the URL of a database that is still empty, at every call another one."""

    def sqlite() -> str:
        return f"sqlite:///{tmp_path}/ledger{next(DATABASE_NUMBERS)}.db"

    def postgresql() -> str:
        server = request.getfixturevalue("postgres_url")
        name = f"ledger{next(DATABASE_NUMBERS)}"
        engine = create_engine(server.replace("postgresql:", "postgresql+psycopg:", 1))
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return str(server.replace("/postgres?", f"/{name}?", 1))

    return sqlite if request.param == "sqlite" else postgresql


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    return new_url()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url) as opened:
        yield opened


def attempt(attempt_id: str, window: str = "2026-04-25", **changes: Any) -> AttemptRecord:
    base = AttemptRecord(attempt_id, "daily", window, "key", "running", T0)
    return replace(base, **changes)


def execute(url: str, statement: str) -> None:
    """Change a ledger behind its back."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET search_path TO setpoint_ledger"))
        connection.execute(text(statement))
    engine.dispose()


def test_an_attempt_comes_back_as_it_was_recorded(ledger: Ledger) -> None:
    """Every member of an attempt survives the round trip, large numbers included."""
    recorded = AttemptRecord(
        attempt_id="a1",
        pipeline="daily",
        window_id="2026-04-25",
        run_key="k1",
        state="published",
        started_at=T0,
        finished_at=T0 + timedelta(microseconds=1),
        generation=2**40,
        rows=5_000_000_000,
        host="worker-1",
        pid=2**31,
        process_started="12345.67",
        trigger="cli",
        resolved_default=True,
        error_code="SP-A01",
        error_text="text",
        target="file:///warehouse/daily",
        stage="_attempt-a1",
        try_number=3,
    )
    ledger.begin(recorded)
    assert ledger.attempts() == [recorded]


def test_times_of_other_zones_come_back_as_the_same_moment_in_utc(ledger: Ledger) -> None:
    """The zone a caller used changes neither the moment nor the order."""
    earlier = T0.astimezone(timezone(timedelta(hours=14)))
    later = (T0 + timedelta(seconds=1)).astimezone(timezone(timedelta(hours=-11)))
    ledger.begin(attempt("later", started_at=later))
    ledger.begin(attempt("earlier", started_at=earlier))
    assert [a.attempt_id for a in ledger.attempts()] == ["later", "earlier"]
    assert ledger.attempts()[1].started_at == T0
    assert ledger.attempts()[1].started_at.utcoffset() == timedelta(0)


def test_finish_settles_an_open_attempt(ledger: Ledger) -> None:
    """A finished attempt carries its outcome and is no longer open."""
    ledger.begin(attempt("a1"))
    ledger.begin(attempt("a2", "2026-04-26"))
    ledger.begin(attempt("a3", "2026-04-27"))
    end = T0 + timedelta(minutes=1)
    ledger.finish("a1", state="published", finished_at=end, generation=4, rows=10)
    ledger.finish("a2", state="unknown", finished_at=end, error_code="SP-P02", error_text="lost")
    open_ones = {a.attempt_id: a for a in ledger.open_attempts()}
    assert set(open_ones) == {"a2", "a3"}
    assert (open_ones["a2"].error_code, open_ones["a2"].error_text) == ("SP-P02", "lost")
    published = ledger.attempts(windows=["2026-04-25"])[0]
    assert (published.state, published.generation, published.rows) == ("published", 4, 10)
    assert published.finished_at == end


def test_finishing_an_attempt_the_ledger_does_not_know_is_told(ledger: Ledger) -> None:
    """A lost attempt is an error that callers can downgrade, and it claims nothing untrue."""
    with pytest.raises(LedgerError, match="there is no attempt nobody") as caught:
        ledger.finish("nobody", state="published", finished_at=T0)
    assert caught.value.code == "SP-L01"
    assert "The target is as the run left it." in caught.value.state


def test_the_same_attempt_id_cannot_begin_twice(ledger: Ledger) -> None:
    """An id names one attempt for good; the first record stays."""
    ledger.begin(attempt("a1"))
    with pytest.raises(LedgerError):
        ledger.begin(attempt("a1", "2026-04-26"))
    assert [a.window_id for a in ledger.attempts()] == ["2026-04-25"]


def test_attempts_can_be_narrowed_and_limited(ledger: Ledger) -> None:
    """Pipeline, windows and limit narrow the list; no windows at all is an empty answer."""
    for number in range(5):
        ledger.begin(
            attempt(f"a{number}", f"2026-04-2{number}", started_at=T0 + timedelta(seconds=number))
        )
    ledger.begin(attempt("other", pipeline="hourly"))
    assert [a.attempt_id for a in ledger.attempts("daily", limit=2)] == ["a4", "a3"]
    narrowed = ledger.attempts("daily", ["2026-04-21", "2026-04-23", "2026-04-21"])
    assert [a.attempt_id for a in narrowed] == ["a3", "a1"]
    assert ledger.attempts("daily", []) == []
    assert len(ledger.attempts(limit=None)) == 6


def test_attempts_of_very_many_windows_are_found(ledger: Ledger) -> None:
    """More windows than a statement takes parameters give the newest attempts all the same."""
    windows = [f"w{number:06}" for number in range(70_000)]
    ledger.begin(attempt("last", windows[-1], started_at=T0 + timedelta(hours=1)))
    ledger.begin(attempt("first", windows[0], started_at=T0 + timedelta(hours=2)))
    ledger.begin(attempt("middle", windows[30_000]))
    found = ledger.attempts("daily", windows, limit=2)
    assert [a.attempt_id for a in found] == ["first", "last"]


def test_the_latest_attempt_of_each_window_is_found(ledger: Ledger) -> None:
    """Among several attempts of a window the latest counts; a retry beats its first try."""
    ledger.begin(attempt("old", state="published"))
    ledger.begin(attempt("new", state="failed", started_at=T0 + timedelta(hours=1)))
    ledger.begin(attempt("try1", "2026-04-26", state="failed"))
    ledger.begin(attempt("try2", "2026-04-26", state="published", try_number=2))
    ledger.begin(attempt("other", pipeline="hourly", started_at=T0 + timedelta(hours=2)))
    latest = ledger.latest_attempts("daily")
    assert {window: a.attempt_id for window, a in latest.items()} == {
        "2026-04-25": "new",
        "2026-04-26": "try2",
    }


def test_steps_come_back_in_order_and_a_repeated_one_is_replaced(ledger: Ledger) -> None:
    """A step has one row per position however often it is recorded."""
    stage = StepRecord(2, "stage", T0, 1.25, '{"files": 3}')
    read = StepRecord(1, "read", T0, 0.5)
    ledger.step(["a1"], replace(stage, seconds=9.0))
    ledger.step(["a1"], read)
    ledger.step(["a1"], stage)
    ledger.step(["a2"], read)
    assert ledger.steps("a1") == [read, stage]
    assert ledger.steps("nobody") == []


def test_notes_are_kept_for_each_attempt(ledger: Ledger) -> None:
    """In their order; noted again, they are not there twice."""
    ledger.begin(attempt("a1"), attempt("a2"))
    for _ in range(2):
        ledger.note({"a1": ["first", "second"], "a2": []})
    assert ledger.notes("a1") == ["first", "second"]
    assert ledger.notes("a2") == []


def test_audits_add_up_in_the_order_they_were_recorded(ledger: Ledger) -> None:
    """Two audits of one name are both kept, and a second call adds to the first."""
    warn = AuditRecord("row_count", "warn", False, 1, 10, "10 < 100", '[{"id": 1}]')
    fail = AuditRecord("row_count", "fail", True, 0, 10)
    unmeasured = AuditRecord("custom", "fail", False, None, None, "could not be evaluated")
    ledger.audit({"a1": [warn, fail]})
    ledger.audit({"a1": []})
    ledger.audit({"a1": [unmeasured]})
    assert ledger.audits("a1") == [warn, fail, unmeasured]
    assert ledger.audits("a2") == []


def test_many_unchanged_attempts_are_recorded_all_or_none(ledger: Ledger) -> None:
    """365 unchanged windows are one transaction: an id that is taken undoes all of them."""
    year = [
        attempt(f"u{day}", f"d{day:03}", state="unchanged", finished_at=T0) for day in range(365)
    ]
    ledger.begin(attempt("u364", "taken"))
    with pytest.raises(LedgerError):
        ledger.record_unchanged(year)
    assert len(ledger.attempts(limit=None)) == 1
    ledger.record_unchanged(year[:364])
    ledger.record_unchanged([])
    assert len(ledger.latest_attempts("daily")) == 365
    with pytest.raises(ValueError, match="unchanged"):
        ledger.record_unchanged([attempt("x", state="published")])


def test_only_the_newest_generation_of_each_window_is_looked_up(ledger: Ledger) -> None:
    """Older generations, other tables and other pipelines stay out of the look-up."""
    ledger.remember_receipts(
        "t",
        "id1",
        [
            ("daily", "w1", 9, '{"g": 9}', 19),
            ("daily", "w1", 10, '{"g": 10}', 20),
            ("daily", "w2", 1, "{}", None),
            ("hourly", "w1", 11, "{}", 21),
        ],
        T0,
    )
    ledger.remember_receipts("t", "id2", [("daily", "w1", 12, "{}", 1)], T0)
    assert ledger.receipts("t", "id1", "daily") == {
        ("w1", 10): ('{"g": 10}', 20),
        ("w2", 1): ("{}", None),
    }
    assert ledger.receipts("t", "nothing", "daily") == {}


def test_remembering_receipts_is_idempotent_and_the_target_wins(ledger: Ledger) -> None:
    """The same receipt again changes nothing; another body replaces what was cached."""
    first = [("daily", "w1", 1, "{}", 5)]
    ledger.remember_receipts("t", "id", first, T0)
    ledger.remember_receipts("t", "id", first * 2, T0 + timedelta(hours=1))
    ledger.remember_receipts("t", "id", [], T0)
    (kept,) = ledger.all_receipts("t", "daily", "w1")
    assert (kept.recorded_at, kept.body, kept.commit_version) == (T0, "{}", 5)
    later = T0 + timedelta(hours=2)
    ledger.remember_receipts("t", "id", [("daily", "w1", 1, '{"n": 2}', None)], later)
    (changed,) = ledger.all_receipts("t", "daily", "w1")
    assert (changed.recorded_at, changed.body, changed.commit_version) == (later, '{"n": 2}', None)


def test_all_receipts_of_a_window_include_those_of_an_earlier_table(ledger: Ledger) -> None:
    """History reaches across a table that was dropped and made again, newest first."""
    two = [("daily", "w1", g, "{}", g) for g in (1, 2)]
    ledger.remember_receipts("t", "old", two, T0)
    ledger.remember_receipts("t", "new", two[:1], T0 + timedelta(days=1))
    found = ledger.all_receipts("t", "daily", "w1")
    assert [(r.table_id, r.generation) for r in found] == [("new", 1), ("old", 2), ("old", 1)]


def test_ten_thousand_receipts_are_looked_up_whole(ledger: Ledger) -> None:
    """A large history with two generations per window gives one receipt per window."""
    body = '{"fingerprint": "' + "0" * 200 + '"}'
    ledger.remember_receipts(
        "t",
        "id",
        [("daily", f"w{w:05}", g, body, g) for w in range(10_000) for g in (1, 2)],
        T0,
    )
    found = ledger.receipts("t", "id", "daily")
    assert len(found) == 10_000
    assert {generation for _, generation in found} == {2}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_data(ledger: Ledger, name: str) -> None:
    """Quotes, placeholders, controls and foreign scripts are stored and found as they are."""
    hostile = AttemptRecord(
        name, name, name, name, "running", T0, host=name, trigger=name, target=name, stage=name
    )
    ledger.begin(hostile)
    ledger.finish(name, state="failed", finished_at=T0, error_code="SP-X01", error_text=name)
    ledger.step([name], StepRecord(1, name, T0, 0.0, name))
    ledger.audit({name: [AuditRecord(name, "fail", False, 1, 1, name, name)]})
    ledger.remember_receipts(name, name, [(name, name, 1, name, 1)], T0)
    expected = replace(
        hostile, state="failed", finished_at=T0, error_code="SP-X01", error_text=name
    )
    assert ledger.attempts(name, [name]) == [expected]
    assert ledger.latest_attempts(name) == {name: expected}
    assert ledger.steps(name)[0].detail == name
    assert ledger.audits(name)[0].sample == name
    assert ledger.receipts(name, name, name) == {(name, 1): (name, 1)}


def test_characters_no_database_takes_are_escaped(ledger: Ledger) -> None:
    """A NUL or a lone surrogate in a message never costs the record of a run."""
    ledger.begin(attempt("a\0\udc80", error_text="x\0y \udcff é"))
    ledger.finish("a\0\udc80", state="failed", finished_at=T0, error_text="x\0y \udcff é")
    (found,) = ledger.attempts()
    assert found.attempt_id == r"a\x00\udc80"
    assert found.error_text == r"x\x00y \udcff é"


def test_a_number_too_large_for_the_database_is_a_ledger_error(ledger: Ledger) -> None:
    """What the driver refuses comes out as SP-L01 and leaves the ledger usable."""
    with pytest.raises(LedgerError):
        ledger.begin(attempt("a1", rows=2**70))
    ledger.begin(attempt("a1", rows=2**62))
    assert ledger.attempts()[0].rows == 2**62


def test_history_survives_closing_and_opening(url: str) -> None:
    """A ledger that is opened again holds what was recorded; closing twice is harmless."""
    first = Ledger.open(url)
    first.begin(attempt("a1"))
    first.close()
    first.close()
    with Ledger.open(url) as second:
        assert [a.attempt_id for a in second.attempts()] == ["a1"]


def test_a_newer_schema_is_refused(url: str) -> None:
    """An older setpoint leaves alone what a newer one has upgraded, and says so."""
    Ledger.open(url).close()
    execute(url, "UPDATE ledger_schema SET version = 99")
    with pytest.raises(LedgerError, match="schema version 99") as caught:
        Ledger.open(url)
    assert caught.value.code == "SP-L01"
    assert caught.value.state.startswith("The target is unchanged.")
    assert "history only and may be moved away" in caught.value.state


def test_a_table_that_was_dropped_is_a_ledger_error(url: str) -> None:
    """Damage behind the ledger's back is told in one line when it is met."""
    with Ledger.open(url) as ledger:
        execute(url, "DROP TABLE receipts")
        with pytest.raises(LedgerError) as caught:
            ledger.receipts("t", "id", "daily")
    assert "\n" not in str(caught.value)
    assert "SELECT" not in str(caught.value)


def test_threads_share_one_ledger(ledger: Ledger) -> None:
    """Threads that record at the same time lose nothing."""

    def work(thread: int) -> None:
        for number in range(20):
            ledger.begin(attempt(f"{thread}-{number}", f"w{thread}"))
            ledger.finish(f"{thread}-{number}", state="published", finished_at=T0)

    threads = [Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorded = ledger.attempts(limit=None)
    assert len(recorded) == 160
    assert {a.state for a in recorded} == {"published"}


WORKER = """
import sys
from datetime import datetime, timezone
from setpoint.ledger import AttemptRecord, Ledger, sql
url, name = sys.argv[1:]
at = datetime(2026, 4, 25, tzinfo=timezone.utc)
print("ready", flush=True)
sys.stdin.readline()
with Ledger.open(url) as ledger:
    for n in range(25):
        ledger.begin(AttemptRecord(f"{name}-{n}", "daily", f"w{n}", "key", "running", at))
        ledger.remember_receipts("t", "id", [("daily", f"w{n}", 1, name, 1)], at)
        ledger.finish(f"{name}-{n}", state="published", finished_at=at)
        ledger.receipts("t", "id", "daily")
"""


def test_processes_create_and_use_one_ledger_at_once(new_url: Callable[[], str]) -> None:
    """Processes that find no schema all succeed, and every one of their records is kept."""
    for _ in range(2):
        url = new_url()
        command = [sys.executable, "-c", WORKER, url]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        workers = [
            subprocess.Popen(
                [*command, f"p{number}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for number in range(4)
        ]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        problems = [worker.communicate()[1] for worker in workers]
        assert [worker.returncode for worker in workers] == [0, 0, 0, 0], problems
        with Ledger.open(url) as ledger:
            recorded = ledger.attempts(limit=None)
            assert len(recorded) == 100
            assert {a.state for a in recorded} == {"published"}
            assert len(ledger.receipts("t", "id", "daily")) == 25


def test_a_postgresql_ledger_keeps_out_of_other_schemas(postgres_url: str) -> None:
    """Nothing is made outside the ledger's own schema, where a target may have its tables."""
    Ledger.open(postgres_url).close()
    engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:", 1))
    query = "SELECT DISTINCT schemaname FROM pg_tables WHERE tablename IN ('receipts', 'attempts')"
    with engine.connect() as connection:
        assert connection.scalars(text(query)).all() == ["setpoint_ledger"]
    engine.dispose()


def test_a_server_connection_that_died_is_replaced(postgres_url: str) -> None:
    """A server that dropped idle connections during a long run costs nothing."""
    with Ledger.open(postgres_url) as ledger:
        ledger.begin(attempt("before"))
        engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:", 1))
        others = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE "
        with engine.connect() as connection:
            connection.execute(
                text(f"{others} pid <> pg_backend_pid() AND backend_type = 'client backend'")
            )
        engine.dispose()
        ledger.finish("before", state="published", finished_at=T0)
        assert ledger.attempts(windows=["2026-04-25"])[0].state == "published"
