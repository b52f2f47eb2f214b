"""One request to an API, until it is answered as it should be or there is no hope.

What may pass is tried again, with growing pauses or with those that the server asks for. What
will not pass is said at once. Secrets are put into the headers here and nowhere else, and do
not leave the host that they are for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from setpoint.errors import NOTHING_STARTED, UsageError, shortened
from setpoint.model.http import ENV, Http
from setpoint.sources.http import refusals
from setpoint.sources.http.items import parse

if TYPE_CHECKING:
    import httpx
    import tenacity

T = TypeVar("T")

_REDIRECTS = 5
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
# Longer than this a run does not wait on a server's word; somebody has to decide.
_PATIENCE = 600.0
_PASSING = frozenset({408, 425, 429})
_SENDABLE = re.compile(r"[\x20-\x7e]*")


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
        self._headers, self._secret = _headers(origin, around.environment)
        self._asked = False
        self._http = _open(origin)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *ended: object) -> None:
        self._http.close()

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

        if self._asked and self._origin.rate is not None:
            self._around.pause(1 / self._origin.rate)
        self._asked = True
        try:
            address = httpx.URL(url)
            # The address of a next page is the server's: it is sent as it came.
            response = self._get(address.copy_merge_params(dict(params)) if params else address)
        except httpx.InvalidURL:
            label = self._origin.label
            raise refusals.redirected(label, "to something that is no address") from None
        except httpx.TimeoutException:
            raise Passing(f"no answer within {self._origin.timeout:g} seconds") from None
        except httpx.RequestError as error:
            # Its text is about the connection; what was asked is not in it.
            host = f" ({error.request.url.host})"
            raise Passing(shortened(f"{type(error).__name__}: {error}", 120) + host) from None
        self._refuse(response)
        try:
            body = parse(response.content)
        except ValueError:
            size = len(response.content)
            raise Passing(f"a body of {size:,} bytes that is not JSON") from None
        link = response.links.get("next", {}).get("url", "")
        return Answer(body, str(response.url.join(link)) if link else "")

    def _get(self, url: httpx.URL) -> httpx.Response:
        label = self._origin.label
        for _ in range(_REDIRECTS + 1):
            if url.scheme not in ("http", "https"):
                raise refusals.redirected(label, f"to an address of the kind {url.scheme!r:.20}")
            response = self._http.get(url, headers=self._headers_for(url))
            if not response.has_redirect_location:
                return response
            url = url.join(response.headers["location"])
        raise refusals.redirected(label, f"from address to address, more than {_REDIRECTS} times")

    def _headers_for(self, url: httpx.URL) -> dict[str, str]:
        """The headers for an address; secrets are for the host that the user has named."""
        home = urlsplit(self._origin.url)
        port = home.port or {"http": 80, "https": 443}[home.scheme]
        there = url.port or {"http": 80, "https": 443}[url.scheme]
        if (url.scheme, url.host, there) == (home.scheme, home.hostname, port):
            return self._headers
        return {name: text for name, text in self._headers.items() if name not in self._secret}

    def _refuse(self, response: httpx.Response) -> None:
        status, label = response.status_code, self._origin.label
        if 200 <= status < 300:
            return
        said = self._words_of(response)
        if status in _PASSING or status >= 500:
            raise Passing(f"status {status}{said}", _after(response.headers, self._around.now()))
        if status in (401, 403):
            raise refusals.not_allowed(label, status, " and ".join(self._origin.variables), said)
        raise refusals.refused(label, status, said)

    def _words_of(self, response: httpx.Response) -> str:
        """What the API says about its refusal, without what it may repeat of our secrets."""
        text = " ".join(response.text.split())
        for name in self._secret:
            for part in {self._headers[name], *self._headers[name].split()}:
                text = text.replace(part, "...") if len(part) > 3 else text
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


def _headers(origin: Http, environment: Mapping[str, str]) -> tuple[dict[str, str], frozenset[str]]:
    """The headers with their secrets, and the names of those that hold one."""
    filled, secret = {}, set()
    for name, text in origin.headers.items():
        for variable in ENV.findall(text):
            if not environment.get(variable):
                raise refusals.unset(origin.label, name, variable)
        # One pass: what a variable holds is not searched for further names.
        filled[name] = ENV.sub(lambda found: environment[found[1]], text)
        if filled[name] != text:
            secret.add(name)
        if not _SENDABLE.fullmatch(filled[name]):
            raise refusals.unfit_secret(origin.label, name)
    return filled, frozenset(secret)


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
    return httpx.Client(timeout=origin.timeout, headers={"Accept": "application/json"})
