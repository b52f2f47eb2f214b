"""Opening a ledger: what it costs, and which URLs it takes."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from setpoint.errors import UsageError
from setpoint.ledger import AttemptRecord, Ledger, LedgerError, StepRecord


def test_importing_the_ledger_loads_no_database_library() -> None:
    """The price of SQLAlchemy is paid by `Ledger.open`, not by an import."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; import setpoint.ledger; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "setpoint.ledger" in loaded
    assert not {"sqlalchemy", "sqlite3", "psycopg"} & set(loaded)


def test_opening_a_ledger_and_finding_a_years_receipts_is_few_queries(tmp_path: Path) -> None:
    """An existing ledger answers for 365 windows with three statements besides the begins."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    now = datetime.fromisoformat("2026-04-25T00:00:00+00:00")
    with Ledger.open(url) as ledger:
        year = [("daily", f"w{n}", 1, "{}", n) for n in range(365)]
        ledger.remember_receipts("t", "id", year, now)
    statements: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        with Ledger.open(url) as ledger:
            assert len(ledger.receipts("t", "id", "daily")) == 365
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert len([s for s in statements if not s.startswith("BEGIN")]) == 3


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "sqlite://",
        "sqlite:///:memory:",
        "mysql://u:hidden@host/db",
        "postgresql+asyncpg://u:hidden@host/db",
        "postgresql://u:hidden@host:port/db",
    ],
)
def test_a_url_the_ledger_cannot_use_is_a_usage_error(url: str) -> None:
    """A wrong URL is the configuration's fault, and its password is not printed."""
    with pytest.raises(UsageError) as caught:
        Ledger.open(url)
    assert caught.value.code == "SP-C03"
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_a_server_that_does_not_answer_is_told_without_the_password(scheme: str) -> None:
    """An unreachable server is an SP-L01 that names the host and keeps the secret."""
    pytest.importorskip("psycopg")
    with pytest.raises(LedgerError) as caught:
        Ledger.open(f"{scheme}://user:hidden@127.0.0.1:1/db?password=hidden")
    text = str(caught.value)
    assert text.startswith("SP-L01  The ledger postgresql://127.0.0.1/db could not be used.")
    assert "The target is unchanged. The ledger is history only" in text
    assert "hidden" not in text
    assert "\n" not in text


def test_a_time_without_a_zone_is_refused(tmp_path: Path) -> None:
    """A naive time would be stored as another moment than was meant."""
    naive = datetime.fromisoformat("2026-04-25T00:00:00")
    with pytest.raises(ValueError, match="started_at has no time zone"):
        AttemptRecord("a", "p", "w", "k", "running", naive)
    with pytest.raises(ValueError, match="started_at has no time zone"):
        StepRecord(1, "read", naive, 0.0)
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        with pytest.raises(ValueError, match="finished_at has no time zone"):
            ledger.finish("a", state="failed", finished_at=naive)
        with pytest.raises(ValueError, match="recorded_at has no time zone"):
            ledger.remember_receipts("t", "id", [], naive)
