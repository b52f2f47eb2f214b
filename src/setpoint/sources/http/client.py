"""One request to an API, until it is answered as it should be or there is no hope.

What may pass is tried again, with growing pauses or with those that the server asks for. What
will not pass is said at once. Secrets do not leave the host that they are for. No answer may be
larger, or take longer, than is permitted.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from setpoint.errors import NOTHING_STARTED, UsageError, shortened
from setpoint.model.http import Http
from setpoint.model.secret import scrubbed
from setpoint.model.window import Window
from setpoint.sources.http import refusals
from setpoint.sources.http.body import ENCODINGS, Deadline, TooLarge, whole
from setpoint.sources.http.items import parse
from setpoint.sources.http.keys import Quiet, first_page, headers_of

if TYPE_CHECKING:
    import httpx
    import tenacity

T = TypeVar("T")

_REDIRECTS = 5
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
# Longer than this a run does not wait on a server's word; somebody has to decide.
_PATIENCE = 600.0
_PASSING = frozenset({408, 425, 429})
# What an answer with an error status is read of: enough for what it says.
_EXCUSE_BYTES = 65_536
# Headers that say what is wanted, and not who wants it; whatever else a user sets may be a key.
_HARMLESS = frozenset({"accept", "accept-charset", "accept-language", "user-agent"})


class Passing(Exception):
    """A failure that the next try may not meet; `after` is the pause that the server asks for."""

    def __init__(self, what: str, after: float | None = None) -> None:
        super().__init__(what)
        self.after = after


@dataclass(frozen=True)
class Surroundings:
    """What a client gets from outside: variables, the clock, and how to wait."""

    environment: Mapping[str, str] = field(repr=False)
    now: Callable[[], datetime]
    pause: Callable[[float], None]


@dataclass(frozen=True)
class Answer:
    """A parsed answer, with the address of the next page if a header names one."""

    body: Any
    link: str


class Client:
    """Asks one API; use it as a context manager."""

    def __init__(self, origin: Http, around: Surroundings) -> None:
        self._origin, self._around = origin, around
        self._secrets = origin.secrets(around.environment)
        self._headers = headers_of(origin, around.environment)
        self._asked, self._began = 0, around.now()
        self._quiet = Quiet(self._secrets)
        self._http = _open(origin)

    def __enter__(self) -> Client:
        logging.getLogger("httpx").addFilter(self._quiet)
        return self

    def __exit__(self, *ended: object) -> None:
        logging.getLogger("httpx").removeFilter(self._quiet)
        self._http.close()

    def first(self, window: Window) -> tuple[str, dict[str, str]]:
        """The address and the parameters of the first page."""
        return first_page(self._origin, self._around.environment, window)

    def ask(self, url: str, params: Mapping[str, str], understand: Callable[[Answer], T]) -> T:
        """The answer as `understand` takes it; it raises `Passing` for one that it cannot take."""
        import tenacity

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Passing),
            stop=tenacity.stop_after_attempt(self._origin.tries),
            wait=self._wait(),
            sleep=self._around.pause,
            reraise=True,
        )
        try:
            return retrying(lambda: understand(self._answer(url, params)))
        except Passing as error:
            raise refusals.no_answer(self._origin.label, self._origin.tries, str(error)) from None

    def again(self, number: int) -> None:
        """Wait before something larger than a request is tried again."""
        self._around.pause(min(_FIRST_WAIT * 2**number, _LONGEST_WAIT))

    def _wait(self) -> Callable[[tenacity.RetryCallState], float]:
        import tenacity

        growing = tenacity.wait_random_exponential(_FIRST_WAIT, max=_LONGEST_WAIT)

        def wait(state: tenacity.RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            after = error.after if isinstance(error, Passing) else None
            if after is not None and after > _PATIENCE:
                raise refusals.told_to_wait(self._origin.label, after)
            return float(growing(state)) if after is None else max(after, 0.0)

        return wait

    def _answer(self, url: str, params: Mapping[str, str]) -> Answer:
        import httpx

        origin = self._origin
        if (self._around.now() - self._began).total_seconds() > origin.listing_seconds:
            raise refusals.too_slow(origin.label, origin.listing_seconds, self._asked)
        if self._asked and origin.rate is not None:
            self._around.pause(1 / origin.rate)
        self._asked += 1
        try:
            address = httpx.URL(url)
            # The address of a next page is the server's: it is sent as it came.
            response, content = self._in_time(
                address.copy_merge_params(dict(params)) if params else address
            )
        except TooLarge:
            raise refusals.too_large(origin.label, origin.answer_bytes) from None
        except httpx.InvalidURL:
            raise refusals.redirected(origin.label, "to something that is no address") from None
        except httpx.TimeoutException:
            raise Passing(f"no answer within {origin.timeout:g} seconds") from None
        except httpx.RequestError as error:
            # Its text is about the connection; what was asked is not in it.
            host = f" ({error.request.url.host})"
            raise Passing(shortened(f"{type(error).__name__}: {error}", 120) + host) from None
        self._refuse(response, content)
        try:
            body = parse(content)
        except ValueError:
            raise Passing(f"a body of {len(content):,} bytes that is not JSON") from None
        link = response.links.get("next", {}).get("url", "")
        return Answer(body, str(response.url.join(link)) if link else "")

    def _in_time(self, url: httpx.URL) -> tuple[httpx.Response, bytes]:
        """An answer as a whole, unless it takes too long: then the connection is cut."""
        try:
            with Deadline(self._origin.answer_seconds, self._http.close) as deadline:
                return self._get(url)
        except Exception:
            if deadline.passed:
                seconds = f"{self._origin.answer_seconds:g} seconds"
                raise Passing(f"no whole answer within {seconds}, answer_seconds=") from None
            raise
        finally:
            if deadline.passed:
                self._http = _open(self._origin)

    def _get(self, url: httpx.URL) -> tuple[httpx.Response, bytes]:
        label = self._origin.label
        for _ in range(_REDIRECTS + 1):
            if url.scheme not in ("http", "https"):
                raise refusals.redirected(label, f"to an address of the kind {url.scheme!r:.20}")
            with self._http.stream("GET", url, headers=self._headers_for(url)) as response:
                if not response.has_redirect_location:
                    return response, self._content(response)
            url = url.join(response.headers["location"])
        raise refusals.redirected(label, f"from address to address, more than {_REDIRECTS} times")

    def _content(self, response: httpx.Response) -> bytes:
        encoding = response.headers.get("content-encoding", "")
        if response.is_success:
            try:
                return whole(response.iter_raw(), encoding, self._origin.answer_bytes)
            except ValueError as error:
                raise Passing(f"a body that cannot be read: {error}") from None
        with suppress(TooLarge, ValueError):
            return whole(response.iter_raw(), encoding, _EXCUSE_BYTES)
        return b""

    def _headers_for(self, url: httpx.URL) -> dict[str, str]:
        """The headers for an address: for another host than the user's, none that may be a key."""
        home = urlsplit(self._origin.url)
        port = home.port or {"http": 80, "https": 443}[home.scheme]
        there = url.port or {"http": 80, "https": 443}[url.scheme]
        if (url.scheme, url.host, there) == (home.scheme, home.hostname, port):
            return self._headers
        return {name: text for name, text in self._headers.items() if name.lower() in _HARMLESS}

    def _refuse(self, response: httpx.Response, content: bytes) -> None:
        status, label = response.status_code, self._origin.label
        if 200 <= status < 300:
            return
        said = self._words_of(content)
        if status in _PASSING or status >= 500:
            raise Passing(f"status {status}{said}", _after(response.headers, self._around.now()))
        if status in (401, 403):
            raise refusals.not_allowed(label, status, " and ".join(self._origin.variables), said)
        raise refusals.refused(label, status, said)

    def _words_of(self, content: bytes) -> str:
        """What the API says about its refusal, without what it may repeat of our secrets."""
        text = " ".join(content.decode(errors="replace").split())
        text = scrubbed(text, self._secrets)
        return f", {shortened(text, 200)!r}" if text else ""


def _after(headers: Mapping[str, str], now: datetime) -> float | None:
    """The pause that a server asks for: seconds, or until a time on its own clock."""
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", text):
        return float(text)
    until, there = _time(text), _time(headers.get("date", ""))
    return (until - (there or now)).total_seconds() if until else None


def _time(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def _open(origin: Http) -> httpx.Client:
    try:
        import httpx
    except ImportError as error:
        raise UsageError(
            "SP-C08",
            "The package httpx is not installed.",
            why=f"{origin.label} is asked with it.",
            state=NOTHING_STARTED,
            next="Install it: pip install 'setpoint[http]'",
        ) from error
    return httpx.Client(
        timeout=origin.timeout,
        headers={"Accept": "application/json", "Accept-Encoding": ENCODINGS},
    )
