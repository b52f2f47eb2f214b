"""Where a PostgreSQL server is, and what its answers mean: no password is ever shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from setpoint.errors import PermanentError, SetpointError, TransientError, UsageError
from setpoint.ledger.engine import Database
from setpoint.targets.iceberg.catalog import CatalogSettings
from setpoint.targets.postgres.answers import refusal
from setpoint.targets.postgres.server import Server, server_of
from setpoint.targets.postgres.urls import several_hosts

UNREADABLE = [
    "postgresql://u:p@sss3cret@nohost/db",
    "postgresql://u:12/s3cret@h/db",
    "postgresql://u@h/db?password=s3cret%",
    "postgresql://u:s3cret@h:port/db",
    "postgresql://u:s3cret@h/db?sslmod=require",
    " postgresql://u:s3cret@h/db",
    "mysql://u:s3cret@h/db",
]


@pytest.mark.parametrize("url", UNREADABLE)
def test_a_url_that_would_show_part_of_its_password_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match=r"SP-C03.*not a PostgreSQL URL.*Percent-encode") as caught:
        server_of("wh", url)
    assert "s3cret" not in str(caught.value)
    assert caught.value.why
    assert caught.value.state


@pytest.mark.parametrize("url", UNREADABLE[:2])
def test_no_catalog_or_ledger_shows_it_either(url: str) -> None:
    with pytest.raises(UsageError, match=r"SP-C03.*Percent-encode") as catalog:
        CatalogSettings.of("lake", {"uri": url, "warehouse": "w"}, Path("/p"))
    with pytest.raises(UsageError, match=r"SP-C03.*Percent-encode") as ledger:
        Database(url)
    assert "s3cret" not in f"{catalog.value}{ledger.value}"


def test_a_password_is_scrubbed_in_every_spelling() -> None:
    """In the user's part or in the query, percent-encoded or not."""
    for url in ("postgresql://u:a%40b%2F@h/db", "postgresql://u@h/db?password=a%40b%2F"):
        server = server_of("wh", url)
        for text in ("a@b/", "a%40b%2F", "a%40b/", url):
            assert server.scrubbed(f"could not: {text}!") == "could not: ***!"
        assert server.shown == "h/db"


def test_several_hosts_are_one_connection() -> None:
    """libpq tries them in turn; the ledger and the catalog take the same URL."""
    url = "postgresql://u:s3cret@h1:5432,h2:5433/db?target_session_attrs=read-write"
    assert server_of("wh", url).shown == "h1:5432,h2:5433/db"
    assert several_hosts(url) == (
        "postgresql://u:s3cret@/db?host=h1:5432&host=h2:5433&target_session_attrs=read-write"
    )
    assert several_hosts("postgresql://u@h1,h2/db").endswith("@/db?host=h1:5432&host=h2:5432")
    assert several_hosts("postgresql://u:p@h/db") == "postgresql://u:p@h/db"
    for uri in (url, "jdbc:postgresql://h1:5432,h2:5433/db"):
        settings = CatalogSettings.of("lake", {"uri": uri, "warehouse": "s3://w"}, Path("/p"))
        found = settings.for_python()["uri"]
        assert "host=h1:5432&host=h2:5433" in found.replace("%3A", ":")
        place = settings.for_spark()["spark.sql.catalog.lake.uri"]
        assert place == "jdbc:postgresql://h1:5432,h2:5433/db"
    with pytest.raises(SetpointError, match=r"SP-L01.*127\.0\.0\.1:1,127\.0\.0\.1:2/db") as caught:
        Database("postgresql://u:s3cret@127.0.0.1:1,127.0.0.1:2/db")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('connection to server at "h", port 5432 failed: Connection refused', TransientError),
        ("connection timeout expired", TransientError),
        ("FATAL:  the database system is starting up", TransientError),
        ("FATAL:  sorry, too many clients already", TransientError),
        ("failed: No such file or directory Is the server running locally", TransientError),
        ("failed to resolve host 'h': [Errno -3] Temporary failure", TransientError),
        ("failed to resolve host 'h': [Errno -2] Name or service not known", PermanentError),
        ("fe_sendauth: no password supplied", PermanentError),
        ('invalid sslmode value: "foo"', PermanentError),
        ("server does not support SSL, but SSL was required", PermanentError),
        ('FATAL:  role "x" is not permitted to log in', PermanentError),
        ('FATAL:  permission denied for database "x"', PermanentError),
        ('FATAL:  password authentication failed for user "u"', PermanentError),
    ],
)
def test_only_a_login_that_may_succeed_later_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, said: str, kind: type[SetpointError]
) -> None:
    """And the advice names the place that the URL came from."""
    import psycopg

    monkeypatch.setenv("SETPOINT_CONNECTION_WH", "postgresql://u:s3cret@h/db")
    server = server_of("wh", "env:SETPOINT_CONNECTION_WH")
    error = server._unreachable(psycopg.OperationalError(said))
    assert type(error) is kind
    assert ("from SETPOINT_CONNECTION_WH" in error.next) is (kind is PermanentError)
    assert "from [connections]" in Server("a", "postgresql://h/x")._unreachable(
        psycopg.OperationalError("fe_sendauth: no password supplied")
    ).next.replace("from [connections] of setpoint.toml", "from [connections]")


def answered(code: str, said: str) -> SetpointError:
    found: Any = refusal(code, said, "publishing p[w]", server="wh (h/db)", user="etl")
    assert all((found.what, found.why, found.state, found.next))
    return found


def test_every_answer_says_what_can_be_done() -> None:
    """A cancel is no wait, a lost stage is no mistake, and a missing right is named."""
    cancelled = answered("57014", "canceling statement due to user request")
    assert isinstance(cancelled, TransientError)
    assert "cancelled" in cancelled.what
    waited = answered("55P03", "canceling statement due to lock timeout")
    assert isinstance(waited, TransientError)
    assert "pg_blocking_pids" in waited.next
    gone = answered("42P01", 'relation "setpoint.stage_a1" does not exist')
    assert (type(gone), gone.code) == (TransientError, "SP-P04")
    assert isinstance(answered("42P01", 'relation "x" does not exist'), PermanentError)
    denied = answered("42501", "permission denied for table orders")
    assert 'GRANT SELECT, INSERT, UPDATE, DELETE ON orders TO "etl"' in denied.next
    assert isinstance(answered("53100", "could not extend file: No space left"), PermanentError)
    assert isinstance(answered("53200", "out of memory"), TransientError)
    assert "primary" in answered("25006", "cannot execute INSERT in a read-only").next


def test_an_error_of_the_driver_itself_is_no_lost_connection() -> None:
    import psycopg

    server = Server("wh", "postgresql://h/db")
    value = server.explain(psycopg.DataError("date too large (after year 10K)"), "looking at t")
    assert isinstance(value, PermanentError)
    assert "DataError" in value.what
    lost = server.explain(psycopg.OperationalError("consuming input failed"), "looking at t")
    assert isinstance(lost, TransientError)
    assert "was lost" in lost.what
