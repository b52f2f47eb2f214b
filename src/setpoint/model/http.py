"""A paged HTTP API: the values a user writes to name one, and to say how its pages follow."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from typing import ClassVar
from urllib.parse import quote, urlsplit

from setpoint.errors import NOTHING_STARTED, DefinitionError
from setpoint.model.fingerprint import canonical, digest
from setpoint.model.secret import ENV, Secret, is_secret
from setpoint.model.window import Window

# A variable's place in an address, where the end of its name has to be marked.
HOLE_ENV = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
# Anything that looks like a hole, so that a misspelled one is found before it is sent.
_HOLE = re.compile(r"\{(?!env:)([A-Za-z_]+)(?::([^{}\"]*))?\}")
ANSWER_BYTES = 100_000_000
ANSWER_SECONDS = 300.0
LISTING_SECONDS = 6 * 3600.0
_SECRETS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"})


@dataclass(frozen=True)
class ByCursor:
    """The next page starts after an item. Made with `by_cursor(...)`."""

    by: ClassVar[str] = "cursor"

    param: str
    last: str
    more: str


@dataclass(frozen=True)
class ByPage:
    """Pages have numbers. Made with `by_page(...)`."""

    by: ClassVar[str] = "page"

    param: str
    first: int
    total: str


@dataclass(frozen=True)
class ByToken:
    """Each page names a token for the next. Made with `by_token(...)`."""

    by: ClassVar[str] = "token"

    param: str
    next: str


@dataclass(frozen=True)
class ByLink:
    """Each page names the address of the next. Made with `by_link(...)`."""

    by: ClassVar[str] = "link"

    next: str


Pages = ByCursor | ByPage | ByToken | ByLink
_KINDS = (ByCursor, ByPage, ByToken, ByLink)


@dataclass(frozen=True, kw_only=True, repr=False)
class Http:
    """A listing of an HTTP API. Made with `http(...)`, and read through `land(...)` only."""

    kind: ClassVar[str] = "http"

    url: str
    items: str
    id: str
    schema: str
    pages: Pages | None
    params: Mapping[str, str] = field(default_factory=dict, hash=False)
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    rate: float | None = None
    timeout: float = 30.0
    tries: int = 5
    answer_bytes: int = ANSWER_BYTES
    answer_seconds: float = ANSWER_SECONDS
    listing_seconds: float = LISTING_SECONDS

    def __repr__(self) -> str:
        return f"http({self.label!r})"

    @property
    def label(self) -> str:
        """The address without its query, which may hold what is nobody's business."""
        return self.url.partition("?")[0]

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the environment that its request needs."""
        named = [name for text in self.headers.values() for name in ENV.findall(text)]
        named += [found[1] for text in self.params.values() if (found := ENV.fullmatch(text))]
        return tuple(dict.fromkeys([*named, *HOLE_ENV.findall(self.url)]))

    def secrets(self, environment: Mapping[str, str]) -> tuple[Secret, ...]:
        """What of the request must not be seen: variables, and what its name says is a key."""
        named = [Secret(f"env:{name}", environment=environment) for name in self.variables]
        written = (*self.params.items(), *self.headers.items())
        keys = [Secret(text) for name, text in written if is_secret(name) and not ENV.search(text)]
        return (*named, *keys, Secret(self.url, whole=False))

    @property
    def by_window(self) -> bool:
        """Whether the request itself asks for the window alone."""
        return any(_HOLE.search(text) for text in (self.url, *self.params.values()))

    @property
    def by_day(self) -> bool:
        """Whether a date is all that the request says of the window."""
        texts = (self.url, *self.params.values())
        return {found[1] for text in texts for found in _HOLE.finditer(text)} == {"date"}

    def url_of(self, window: Window) -> str:
        """The address with the window's times in its holes, spelled as an address takes them."""
        # A plus sign in a query is a blank; slashes of a pattern are those of the path.
        return _filled(self.url, window, lambda text: quote(text, safe="/:"))

    def params_of(self, window: Window) -> dict[str, str]:
        """The parameters with the window's times in their holes."""
        return {name: _filled(text, window) for name, text in self.params.items()}

    def asked_for(self, window: Window) -> tuple[str, dict[str, str]]:
        """All that tells the window in what is asked."""
        return self.url_of(window), self.params_of(window)

    def request(self) -> dict[str, object]:
        """What is asked for: a landed copy answers this very question.

        The schema is not part of it, because it is applied when the copy is read. Of the headers
        only a digest, and none that holds a secret, is kept.
        """
        plain = {name: text for name, text in self.headers.items() if not ENV.search(text)}
        return {
            "url": self.url,
            "params": dict(self.params),
            "items": self.items,
            "id": self.id,
            "pages": {"by": self.pages.by, **asdict(self.pages)} if self.pages else {},
            "headers": digest(canonical(plain)) if plain else "",
        }

    def definition(self) -> dict[str, object]:
        """The parts that decide what a run reads."""
        return {**self.request(), "schema": self.schema}


def http(
    url: str,
    *,
    items: str = "",
    params: Mapping[str, str | int] | None = None,
    headers: Mapping[str, str] | None = None,
    pages: Pages | None = None,
    id: str = "id",
    schema: str = "",
    rate: float | None = None,
    timeout: float = 30.0,
    tries: int = 5,
    answer_bytes: int = ANSWER_BYTES,
    answer_seconds: float = ANSWER_SECONDS,
    listing_seconds: float = LISTING_SECONDS,
) -> Http:
    """Name a listing of an HTTP API, to be landed: `source(land(http(...)))`.

    `items` is the place of the items in an answer, `"data"` or `"result.items"`; empty when the
    answer itself is the list. `id` is the place of what tells one item from another. `pages`
    says how to get from one page to the next. `schema`, in Spark's notation, is applied when
    the landed items are read; without it the columns are `id` and `item`, the item's JSON text.

    The window's bounds stand in `url` and `params` as `{start:unix}`, `{start:iso}`, `{end:...}`,
    `{date}` or with a pattern such as `{start:%Y%m%d}`. A secret comes from the environment: name
    it in `headers` as `{"Authorization": "Bearer env:API_KEY"}`, in `params` as
    `{"api_key": "env:API_KEY"}`, in `url` as `{env:API_KEY}`.

    `rate` is the most requests per second, `timeout` the seconds to wait for the next part of an
    answer, `tries` how often a request is tried that fails for a passing reason. An answer may
    have `answer_bytes`, unpacked, and take `answer_seconds`; all of them together may take
    `listing_seconds`.
    """
    made = Http(
        url=url,
        items=items,
        id=id,
        schema=schema,
        pages=pages,
        params={str(name): str(value) for name, value in (params or {}).items()},
        headers=dict(headers or {}),
        rate=rate,
        timeout=timeout,
        tries=tries,
        answer_bytes=answer_bytes,
        answer_seconds=answer_seconds,
        listing_seconds=listing_seconds,
    )
    _check_address(url)
    for text in (url, *made.params.values()):
        _check_holes(text)
    _check_secrets(made)
    if pages is not None and not isinstance(pages, _KINDS):
        raise _http_error(
            f"http({made.label!r}): pages={pages!r:.60} is none of by_cursor(...), by_page(...), "
            "by_token(...) and by_link(...)"
        )
    if not id:
        raise _http_error(f"http({made.label!r}) needs id=, the place of an item's id")
    numbers = {"rate": 1.0 if rate is None else rate, "timeout": timeout, "tries": tries}
    numbers |= {"answer_bytes": answer_bytes, "answer_seconds": answer_seconds}
    numbers |= {"listing_seconds": listing_seconds}
    for name, value in numbers.items():
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not fits or not 0 < value < float("inf"):
            raise _http_error(f"http({made.label!r}): {name}={value!r:.40} is not above 0")
    return made


def by_cursor(param: str, *, last: str = "id", more: str = "") -> ByCursor:
    """Pages by cursor: `param` gets the value at `last` of the last item of a page.

    `more` is the place in an answer that says whether there is another page; without it, an
    empty page is the end.
    """
    return ByCursor(param, last, more)


def by_page(param: str = "page", *, first: int = 1, total: str = "") -> ByPage:
    """Pages by number, from `first` on, until a page is empty.

    `total` is the place in an answer that tells how many items there are in all. With it no
    page too many is asked for, and items that slip from page to page are noticed.
    """
    return ByPage(param, first, total)


def by_token(param: str, *, next: str) -> ByToken:
    """Pages by token: `param` gets what an answer holds at `next`, until that is missing."""
    return ByToken(param, next)


def by_link(next: str = "") -> ByLink:
    """Pages by address: the one at `next` of an answer, or the `Link` header with rel="next"."""
    return ByLink(next)


def _filled(text: str, window: Window, spelled: Callable[[str], str] = str) -> str:
    values = {"start": window.start, "end": window.end, "date": window.day}

    def one(found: re.Match[str]) -> str:
        return spelled(_spelled(values[found[1]], found[2] or "iso"))

    return _HOLE.sub(one, text)


def _spelled(value: date, form: str) -> str:
    if form == "iso":
        return value.isoformat()
    if isinstance(value, datetime) and form in ("unix", "unix_ms"):
        seconds = int(value.timestamp())
        return str(seconds if form == "unix" else seconds * 1000)
    return value.strftime(form)


def _check_address(url: object) -> None:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        known = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        parts, known = None, False
    if not known or parts is None:
        raise _http_error(f"http({url!r:.80}) is not an http: or https: address")
    if parts.username or parts.password:
        raise _http_error(
            f"http() got an address of {parts.hostname} that holds a user or a password; name "
            'secrets in headers= as "env:NAME"'
        )
    if HOLE_ENV.search(f"{parts.scheme}{parts.netloc}"):
        raise _http_error("http() got an address whose host is a secret; name it in the code")


def _check_holes(text: str) -> None:
    if "{env:" in HOLE_ENV.sub("", text):
        raise _http_error("http(): {env:...} needs the name of a variable, as in {env:API_KEY}")
    for name, form in _HOLE.findall(text):
        timed = name in ("start", "end") and form in ("", "iso", "unix", "unix_ms")
        if timed or (name == "date" and form in ("", "iso")):
            continue
        if name not in ("start", "end", "date") or "%" not in form:
            raise _http_error(
                f"http(): {{{name}{':' if form else ''}{form}}} is not a part of the window; write "
                "{start:unix}, {start:iso}, {start:%Y-%m-%d}, the same with end, or {date}"
            )


def _check_secrets(made: Http) -> None:
    for name, value in made.headers.items():
        if name.lower() in _SECRETS and not ENV.search(str(value)):
            raise _http_error(
                f"http({made.label!r}): the header {name} holds a secret in the code; write "
                f'"env:NAME" in its place'
            )
    for name, value in made.params.items():
        if (ENV.match(value) and not ENV.fullmatch(value)) or HOLE_ENV.search(value):
            raise _http_error(
                f"http({made.label!r}): the parameter {name} holds more than the name of a "
                'variable; write "env:NAME" alone'
            )


def _http_error(what: str) -> DefinitionError:
    return DefinitionError(
        "SP-D07",
        f"{what}.",
        why="What an API is asked has to be known before it is asked.",
        state=NOTHING_STARTED,
        next="See docs/reference/sources.md, HTTP APIs.",
    )
