"""The ledger in a SQLite file: where it lies, and every way such a file can fail."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from setpoint.ledger import AttemptRecord, Ledger, LedgerError

T0 = datetime(2026, 4, 25, tzinfo=timezone.utc)
NOBODY = 65534


def attempt(attempt_id: str) -> AttemptRecord:
    return AttemptRecord(attempt_id, "daily", "2026-04-25", "key", "running", T0)


@contextmanager
def without_root() -> Iterator[None]:
    """Rights do not bind root, so a test that runs as root becomes somebody else."""
    user = os.geteuid()
    if user != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that everybody can read and nobody can write (pytest's own are private)."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def assert_told_well(error: LedgerError, path: Path) -> None:
    """The message is one line with the file, the state of the data, and no internals."""
    text = str(error)
    assert text.startswith("SP-L01  ")
    assert str(path) in text
    assert error.state == (
        "The target is unchanged. The ledger is history only and may be moved away."
    )
    assert error.next
    assert "\n" not in text
    assert "Traceback" not in text
    assert "sqlalche.me" not in text


def test_the_folder_of_a_new_ledger_is_created(tmp_path: Path) -> None:
    """A ledger in a folder that does not exist yet is made together with the folder."""
    path = tmp_path / "a" / "b c" / "ledger.db"
    Ledger.open(f"sqlite:///{path}").close()
    assert path.is_file()


def test_a_relative_url_stays_at_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline that changes the working folder does not move the ledger."""
    monkeypatch.chdir(tmp_path)
    with Ledger.open("sqlite:///here/ledger.db") as ledger:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        ledger.begin(attempt("a1"))
    with Ledger.open(f"sqlite:///{tmp_path}/here/ledger.db") as again:
        assert len(again.attempts()) == 1


def test_readers_and_writers_work_side_by_side(tmp_path: Path) -> None:
    """The file is in WAL mode, so an open read does not hold up a write."""
    path = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{path}") as ledger, closing(sqlite3.connect(path)) as reader:
        assert reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM attempts").fetchone() == (0,)
        ledger.begin(attempt("a1"))
        assert reader.execute("SELECT count(*) FROM attempts").fetchone() == (0,)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    """A corrupt ledger is told with the command that moves it away; its bytes stay."""
    path = tmp_path / "ledger.db"
    path.write_bytes(b"this is not a database" * 500)
    before = path.read_bytes()
    with pytest.raises(LedgerError) as caught:
        Ledger.open(f"sqlite:///{path}")
    assert_told_well(caught.value, path)
    assert caught.value.next.startswith("Move it away: mv ")
    assert path.read_bytes() == before


def test_a_ledger_with_damaged_pages_is_told_when_they_are_read(tmp_path: Path) -> None:
    """Damage in the middle of the file is an SP-L01, never an answer made of it."""
    path = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        receipts = [("daily", f"w{n}", 1, "x" * 500, n) for n in range(1000)]
        ledger.remember_receipts("t", "id", receipts, T0)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 4)
        file.write(b"\xff" * (size // 2))
    with Ledger.open(f"sqlite:///{path}") as ledger, pytest.raises(LedgerError, match="SP-L01"):
        ledger.receipts("t", "id", "daily")


def test_a_stored_value_that_makes_no_sense_is_a_ledger_error(tmp_path: Path) -> None:
    """A time that somebody edited by hand is told, not raised as a ValueError."""
    path = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        ledger.begin(attempt("a1"))
        with closing(sqlite3.connect(path)) as editor, editor:
            editor.execute("UPDATE attempts SET started_at = 'yesterday'")
        with pytest.raises(LedgerError):
            ledger.attempts()


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    """setpoint's tables are not put among those of another program."""
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as theirs, theirs:
        theirs.execute("CREATE TABLE attempts (x)")
    with pytest.raises(LedgerError, match="not a ledger") as caught:
        Ledger.open(f"sqlite:///{path}")
    assert_told_well(caught.value, path)
    with closing(sqlite3.connect(path)) as theirs:
        tables = theirs.execute("SELECT name FROM sqlite_master").fetchall()
    assert tables == [("attempts",)]


def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    """A file of no bytes, as a killed process leaves it, is not in the way."""
    path = tmp_path / "ledger.db"
    path.touch()
    with Ledger.open(f"sqlite:///{path}") as ledger:
        ledger.begin(attempt("a1"))


def test_a_folder_in_the_place_of_the_file_is_told(tmp_path: Path) -> None:
    """A path that cannot be a file is an SP-L01."""
    with pytest.raises(LedgerError) as caught:
        Ledger.open(f"sqlite:///{tmp_path}")
    assert_told_well(caught.value, tmp_path)


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    """A parent that cannot be a folder is an SP-L01."""
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "ledger.db"
    with pytest.raises(LedgerError) as caught:
        Ledger.open(f"sqlite:///{path}")
    assert_told_well(caught.value, path)


def test_a_read_only_folder_is_told(public_folder: Path, tmp_path: Path) -> None:
    """Without the right to create the file, the message names it and what to check."""
    Ledger.open(f"sqlite:///{tmp_path}/loads-the-driver.db").close()
    public_folder.chmod(0o555)
    path = public_folder / "ledger.db"
    with without_root(), pytest.raises(LedgerError) as caught:
        Ledger.open(f"sqlite:///{path}")
    assert_told_well(caught.value, path)
    assert "can be written" in caught.value.next


def test_a_read_only_ledger_is_told(public_folder: Path) -> None:
    """An existing ledger without the right to write fails at the latest when it is written."""
    path = public_folder / "ledger.db"
    Ledger.open(f"sqlite:///{path}").close()
    path.chmod(0o444)
    public_folder.chmod(0o555)

    def use() -> None:
        with Ledger.open(f"sqlite:///{path}") as ledger:
            ledger.begin(attempt("a1"))

    with without_root(), pytest.raises(LedgerError) as caught:
        use()
    assert_told_well(caught.value, path)


def test_a_disk_that_runs_full_is_told_and_loses_nothing_recorded(tmp_path: Path) -> None:
    """A write that finds no room is an SP-L01; what was recorded before is still there."""
    path = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        ledger.begin(attempt("a1"))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        receipts = [("daily", f"w{n}", 1, "x" * 1000, n) for n in range(1000)]
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
        try:
            with pytest.raises(LedgerError) as caught:
                ledger.remember_receipts("t", "id", receipts, T0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.code == "SP-L01"
        assert [a.attempt_id for a in ledger.attempts()] == ["a1"]
        assert ledger.receipts("t", "id", "daily") == {}


def test_who_has_nothing_to_do_does_not_wait_long_for_a_locked_ledger(tmp_path: Path) -> None:
    """Three such commands have given up while the record of an attempt still waits."""
    path = tmp_path / "ledger.db"
    unchanged = replace(attempt("b" * 16), state="unchanged", finished_at=T0)
    with Ledger.open(f"sqlite:///{path}") as ledger, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(ledger.begin, attempt("a" * 16))
            for _ in range(3):
                with pytest.raises(LedgerError, match="locked"):
                    ledger.record_unchanged([unchanged])
            other.execute("COMMIT")
            waiting.result()
        assert [item.attempt_id for item in ledger.attempts()] == ["a" * 16]


def test_a_ledger_that_is_locked_altogether_is_given_up_at_once(tmp_path: Path) -> None:
    """A file that another program keeps to itself: the command goes on without its history."""
    path = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        ledger.begin(attempt("a" * 16))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode=DELETE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match="locked"):
            Ledger.open(f"sqlite:///{path}")
