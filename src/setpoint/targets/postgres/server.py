"""A PostgreSQL server by its configured name: connections, and its errors in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from setpoint.errors import (
    NOTHING_STARTED,
    UNCHANGED,
    PermanentError,
    RefusedError,
    SetpointError,
    TransientError,
    UsageError,
)

if TYPE_CHECKING:
    import psycopg

_CONNECT_SECONDS = 10
LOCK_SECONDS = 300
# What texts of values depend on: fixed, so that rows compare alike in every session.
_SESSION = (
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres'; "
    "SET extra_float_digits = 1; SET bytea_output = 'hex'; SET xmloption = 'content'; "
    "SET standard_conforming_strings = on; SET client_encoding = 'UTF8'; "
    f"SET lock_timeout = '{LOCK_SECONDS}s'; SET statement_timeout = 0; "
    "SET idle_in_transaction_session_timeout = 0"
)
_PASSING = ("08", "53", "57P", "40", "55P03", "58")
_WRONG = ("authentication failed", "does not exist", "no pg_hba")
_ACCESS = ("28", "3D", "3F")


@dataclass(frozen=True)
class Server:
    """A named connection; its URL may hold a password and is never shown."""

    name: str
    url: str = field(repr=False)

    @property
    def shown(self) -> str:
        """The server as a person may see it."""
        parts = urlsplit(self.url)
        host = parts.hostname or "local socket"
        port = f":{parts.port}" if parts.port else ""
        return f"{host}{port}{parts.path}"

    @contextmanager
    def session(self, doing: str) -> Iterator[psycopg.Connection[Any]]:
        """An open connection in autocommit mode; its failures are errors in our words."""
        psycopg = _driver()
        try:
            connection = psycopg.connect(
                self.url,
                autocommit=True,
                prepare_threshold=None,
                cursor_factory=psycopg.RawCursor,
                **self._defaults(),
            )
        except psycopg.Error as error:
            raise self._unreachable(error) from error
        try:
            with connection:
                connection.execute(_SESSION)
                yield connection
        except psycopg.Error as error:
            raise self.explain(error, doing) from error

    def explain(self, error: psycopg.Error, doing: str) -> SetpointError:
        """A failure of the server: what it refused, and whether a retry may heal it."""
        code = error.sqlstate or ""
        said = self.said(error)
        if not code or code.startswith("08") or code in ("57P01", "57P02", "57P03"):
            return TransientError(
                "SP-T01",
                f"The connection {self.name} ({self.shown}) was lost while {doing}: {said}",
                state=UNCHANGED,
                next="Run again; it is always safe.",
            )
        if code in ("55P03", "40P01", "40001", "57014"):
            return TransientError(
                "SP-P01",
                f"PostgreSQL gave up waiting while {doing}: {said}",
                why="Another session holds what this one needs.",
                state=UNCHANGED,
                next="Run again; it is always safe.",
            )
        if code == "23514" and "no partition" in said:
            return RefusedError(
                "SP-T03",
                f"The table has no partition for rows of this run ({doing}): {said}",
                why="PostgreSQL stores a row only where a partition takes it.",
                state=UNCHANGED,
                next="Create the partition, for example CREATE TABLE ... PARTITION OF ... FOR "
                "VALUES FROM ... TO ..., then run again.",
            )
        if code.startswith("23"):
            named = error.diag.constraint_name or error.diag.column_name or "?"
            return RefusedError(
                "SP-T03",
                f"The constraint {named} of the table was violated while {doing}: {said}",
                why="The table allows no such row.",
                state=UNCHANGED,
                next="Correct the rows or the constraint, then run again.",
            )
        if code.startswith("22"):
            return RefusedError(
                "SP-T03",
                f"A value does not fit its column ({doing}): {said}",
                why="PostgreSQL converts or stores every value or none.",
                state=UNCHANGED,
                next="Correct the rows or the column, then run again.",
            )
        kind = TransientError if code.startswith(_PASSING) else PermanentError
        return kind(
            "SP-T01" if code.startswith(_ACCESS) else "SP-T03",
            f"PostgreSQL refused while {doing}: {said} ({code})",
            state=UNCHANGED,
            next="Correct the cause, then run again; it is always safe.",
        )

    def said(self, error: psycopg.Error) -> str:
        """The server's own words in one line, without secrets."""
        diag = error.diag
        text = diag.message_primary or str(error) or type(error).__name__
        if diag.message_detail:
            text = f"{text}. {diag.message_detail}"
        return self.scrubbed(" ".join(text.split()))[:400]

    def scrubbed(self, text: str) -> str:
        """A text without the password, in whatever spelling it may have got in."""
        password = urlsplit(self.url).password
        for secret in filter(None, (password, unquote(password or ""), self.url)):
            text = text.replace(secret, "***")
        return text

    def _defaults(self) -> dict[str, Any]:
        given = self.url.partition("?")[2]
        defaults: dict[str, Any] = {}
        if "connect_timeout=" not in given:
            defaults["connect_timeout"] = _CONNECT_SECONDS
        if "application_name=" not in given:
            defaults["application_name"] = "setpoint"
        return defaults

    def _unreachable(self, error: psycopg.Error) -> SetpointError:
        said = self.said(error)
        wrong = any(sign in said for sign in _WRONG)
        kind = PermanentError if wrong else TransientError
        return kind(
            "SP-T01",
            f"The PostgreSQL connection {self.name} ({self.shown}) could not be opened: {said}",
            why="Without it neither the state of a window nor its rows can be reached.",
            next=f"Correct {self.name} under [connections] of setpoint.toml, or start the server."
            if wrong
            else "Run again when the server answers; it is always safe.",
        )


def server_of(name: str, url: str | None, variable: str = "") -> Server:
    """The server behind a connection's name; one clear error when nothing says where it is.

    `variable` is the environment variable that the configuration names for it.
    """
    if not url and variable:
        raise UsageError(
            "SP-C03",
            f"The environment variable {variable} is not set.",
            why=f"The configuration says that it holds the connection {name}.",
            state=NOTHING_STARTED,
            next=f"Set {variable} to postgresql://user:password@host/database.",
        )
    variable = variable_of(name)
    if not url:
        raise UsageError(
            "SP-C03",
            f"The connection {name!r:.80} is not configured.",
            why="A pipeline names a connection, so that no password stands in the code.",
            state=NOTHING_STARTED,
            next=f'Write {name} = "postgresql://user@host/database" under [connections] of '
            f"setpoint.toml, or set {variable}.",
        )
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("postgresql", "postgres")
        _ = parts.port
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(
            "SP-C03",
            f"The connection {name!r:.80} is not a PostgreSQL URL.",
            why="It may hold a password, so it is not shown here.",
            state=NOTHING_STARTED,
            next="Write postgresql://user:password@host:5432/database.",
        )
    return Server(name, url)


def variable_of(name: str) -> str:
    """The environment variable that holds a connection's URL."""
    return "SETPOINT_CONNECTION_" + "".join(c if c.isalnum() else "_" for c in name).upper()


def _driver() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise UsageError(
            "SP-C08",
            "A PostgreSQL target needs the packages psycopg and adbc-driver-postgresql.",
            why=str(error),
            state=NOTHING_STARTED,
            next="Install them: pip install 'setpoint[postgres]'",
        ) from error
    return psycopg
