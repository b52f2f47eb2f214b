"""A PostgreSQL server by its configured name: connections, and its errors in our words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from setpoint.errors import (
    NOTHING_STARTED,
    UNCHANGED,
    PermanentError,
    SetpointError,
    TransientError,
    UsageError,
)
from setpoint.model.secret import HIDDEN, Secret, refuse_url_for_name
from setpoint.targets.postgres.answers import refusal
from setpoint.targets.postgres.urls import KEPT_ALIVE

if TYPE_CHECKING:
    import psycopg

_CONNECT_SECONDS = 10
COMMIT_SECONDS = 300.0
LOCK_SECONDS = 300
# What texts of values depend on is fixed, so that rows compare alike everywhere. It holds for one
# transaction: behind a pooler the next may be in another session, and this session another's.
SETTINGS = (
    "SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO, YMD'; "
    "SET LOCAL IntervalStyle = 'postgres'; SET LOCAL extra_float_digits = 1; "
    "SET LOCAL bytea_output = 'hex'; SET LOCAL xmloption = 'content'; "
    "SET LOCAL standard_conforming_strings = on; SET LOCAL client_encoding = 'UTF8'; "
    f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'; SET LOCAL statement_timeout = 0; "
    "SET LOCAL idle_in_transaction_session_timeout = 0"
)
# A login that may succeed later; every other one is refused again until something is changed.
_PASSING = re.compile(
    r"refused|timeout|timed out|unreachable|No route|Is the server running|starting up"
    r"|shutting down|recovery mode|not yet accepting|too many (clients|connections)"
    r"|connection slots|closed the connection|reset by peer|Temporary failure|EOF detected",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Server:
    """A named connection; its URL may hold a password and is never shown.

    `commit_seconds` is how long the answer to a COMMIT is waited for.
    """

    name: str
    url: Secret
    origin: str = "[connections] of setpoint.toml"
    commit_seconds: float = COMMIT_SECONDS

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", Secret.of(self.url, whole=False))

    @property
    def shown(self) -> str:
        """The server as a person may see it."""
        parts = self._parts
        hosts = str(parts.get("host") or parts.get("hostaddr") or "local socket").split(",")
        ports = str(parts.get("port") or "").split(",")
        ports = ports * len(hosts) if len(ports) == 1 else ports
        places = [f"{h}:{p}" if p else h for h, p in zip(hosts, ports, strict=False)]
        return f"{','.join(places)}/{parts.get('dbname') or ''}"

    @contextmanager
    def session(
        self, doing: str, *, before: str = "", **parts: Any
    ) -> Iterator[psycopg.Connection[Any]]:
        """A transaction under our settings; its failures are errors in our words.

        `before` is what a transaction has to begin with, `parts` are further ones of the URL.
        """
        with self._connection(doing, autocommit=False, **parts) as connection:
            if before:
                connection.execute(before)
            connection.execute(SETTINGS)
            yield connection

    @contextmanager
    def open(self, doing: str) -> Iterator[psycopg.Connection[Any]]:
        """A connection whose transactions the caller begins, with `SETTINGS` if they matter."""
        with self._connection(doing, autocommit=True) as connection:
            yield connection

    @contextmanager
    def _connection(
        self, doing: str, *, autocommit: bool, **parts: Any
    ) -> Iterator[psycopg.Connection[Any]]:
        psycopg = _driver()
        try:
            connection = psycopg.connect(
                self.url.reveal(),
                autocommit=autocommit,
                prepare_threshold=None,
                cursor_factory=psycopg.RawCursor,
                **{**self._defaults(), **parts},
            )
        except psycopg.Error as error:
            raise self._unreachable(error) from error
        try:
            with connection:
                yield connection
        except psycopg.Error as error:
            if isinstance(error.__context__, KeyboardInterrupt):
                # What was to be tidied up met the query that Ctrl-C has left under way.
                raise error.__context__ from None
            raise self.explain(error, doing) from error

    def explain(self, error: psycopg.Error, doing: str) -> SetpointError:
        """A failure of the server: what it refused, and whether a retry may heal it."""
        import psycopg

        code, lost = error.sqlstate or "", (psycopg.OperationalError, psycopg.InterfaceError)
        if not code and not isinstance(error, lost):
            return PermanentError(
                "SP-T03",
                f"The driver could not go on while {doing}: {self.said(error)} "
                f"({type(error).__name__})",
                why="It cannot read or write such a value.",
                state=UNCHANGED,
                next="Correct the value, then run again; it is always safe.",
            )
        named = error.diag.constraint_name or error.diag.column_name or ""
        return self.refusal(code or "08", self.said(error), doing, named=named)

    def refusal(
        self, code: str, said: str, doing: str, *, named: str = "", state: str = ""
    ) -> SetpointError:
        """What an SQLSTATE means for the run."""
        where, user = f"{self.name} ({self.shown})", str(self._parts.get("user") or "")
        return refusal(code, said, doing, server=where, user=user, named=named, state=state)

    def said(self, error: psycopg.Error) -> str:
        """The server's own words in one line, without secrets."""
        diag = error.diag
        text = diag.message_primary or str(error) or type(error).__name__
        if diag.message_detail:
            text = f"{text}. {diag.message_detail}"
        return self.scrubbed(" ".join(text.split()))[:400]

    def scrubbed(self, text: str) -> str:
        """A text without the password, in whatever spelling it may have got in."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown: the URL, and its passwords as libpq reads them."""
        read = (str(self._parts.get(key) or "") for key in ("password", "sslpassword"))
        parts = {part for text in (*read, self.url.reveal()) for part in Secret(text).parts()}
        return tuple(sorted(parts, key=len, reverse=True))

    def reached_at(self, place: Mapping[str, Any]) -> Secret:
        """The URL for tasks: of several hosts, they have to go where the driver is already."""
        several = "," in str(self._parts.get("host") or "")
        given = {**self._defaults(), **(place if several else {})}
        return Secret(_driver().conninfo.make_conninfo(self.url.reveal(), **given), whole=False)

    @property
    def _parts(self) -> Mapping[str, Any]:
        return _parsed(self.url.reveal()) or {}

    def _defaults(self) -> dict[str, Any]:
        given = self._parts
        connecting = {"connect_timeout": _CONNECT_SECONDS, "application_name": "setpoint"}
        defaults: dict[str, Any] = {**connecting, **KEPT_ALIVE}
        return {key: value for key, value in defaults.items() if key not in given}

    def _unreachable(self, error: psycopg.Error) -> SetpointError:
        said = self.said(error)
        passing = _PASSING.search(said) is not None
        kind = TransientError if passing else PermanentError
        return kind(
            "SP-T01",
            f"The PostgreSQL connection {self.name} ({self.shown}) could not be opened: {said}",
            why="Without it neither the state of a window nor its rows can be reached.",
            state=UNCHANGED,
            next="Run again when the server answers; it is always safe."
            if passing
            else f"Correct the URL of {self.name} (from {self.origin}), then: setpoint doctor",
        )


def server_of(
    name: str, url: str | Secret | None, commit_seconds: float = COMMIT_SECONDS
) -> Server:
    """The server behind a connection's name; one clear error when nothing says where it is."""
    refuse_url_for_name(name)
    secret = Secret.of(url or "", whole=False)
    variable = secret.variable
    if variable and not secret.is_set:
        raise UsageError(
            "SP-C03",
            f"The environment variable {variable} is not set.",
            why=f"The configuration says that it holds the connection {name}.",
            state=NOTHING_STARTED,
            next=f"Set {variable} to postgresql://user:password@host/database.",
        )
    default = variable_of(name)
    if not secret:
        raise UsageError(
            "SP-C03",
            f"The connection {name!r:.80} is not configured.",
            why="A pipeline names a connection, so that no password stands in the code.",
            state=NOTHING_STARTED,
            next=f'Write {name} = "postgresql://user@host/database" under [connections] of '
            f"setpoint.toml, or set {default}.",
        )
    if not _is_url(secret.reveal()):
        raise UsageError(
            "SP-C03",
            f"The connection {name!r:.80} is not a PostgreSQL URL.",
            why="It may hold a password, so it is not shown here.",
            state=NOTHING_STARTED,
            next="Write postgresql://user:password@host:5432/database. Percent-encode @ : / # ? % "
            "in the password (@ is %40).",
        )
    made = Server(name, secret, commit_seconds=commit_seconds)
    return replace(made, origin=variable) if variable else made


def _is_url(url: str) -> bool:
    """Whether libpq reads the URL as it was meant: a stray @ or / would show part of a password."""
    if not url.startswith(("postgresql://", "postgres://")):
        return False
    parts = _parsed(url)
    if parts is None:
        return False
    places = (str(parts.get(key) or "") for key in ("host", "port", "dbname"))
    return not any("@" in place for place in places)


def _parsed(url: str) -> Mapping[str, Any] | None:
    psycopg = _driver()
    with suppress(psycopg.Error):
        found: Mapping[str, Any] = psycopg.conninfo.conninfo_to_dict(url)
        if all(part.isdigit() for part in str(found.get("port") or "0").split(",") if part):
            return found
    return None


def variable_of(name: str) -> str:
    """The environment variable that holds a connection's URL."""
    return "SETPOINT_CONNECTION_" + "".join(c if c.isalnum() else "_" for c in name).upper()


def _driver() -> Any:
    try:
        import psycopg
    except ImportError as error:
        wanted = "psycopg[binary]" if "pq wrapper" in str(error) else "setpoint[postgres]"
        raise UsageError(
            "SP-C08",
            "A PostgreSQL target needs the packages psycopg and adbc-driver-postgresql.",
            why=" ".join(str(error).split())[:200],
            state=NOTHING_STARTED,
            next=f"Install them: pip install '{wanted}'",
        ) from error
    return psycopg
