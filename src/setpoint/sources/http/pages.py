"""From page to page: what to ask next, and when the pages run in a circle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urljoin

from setpoint.errors import some_of
from setpoint.model.fingerprint import digest
from setpoint.model.http import ByCursor, ByLink, ByPage, ByToken, Http
from setpoint.model.window import Window
from setpoint.sources.http import refusals
from setpoint.sources.http.client import Answer, Client, Passing
from setpoint.sources.http.items import MISSING, Item, Number, at, item_of


@dataclass(frozen=True)
class Step:
    """What to ask for one page; it may hold a key."""

    url: str = field(repr=False)
    params: Mapping[str, str] = field(repr=False)
    number: int = 0

    @property
    def identity(self) -> str:
        pairs = (f"{name}={value}" for name, value in sorted(self.params.items()))
        return digest(self.url, *pairs)


@dataclass(frozen=True)
class Page:
    """The items of one page, and how many there are in all if the API tells."""

    items: tuple[Item, ...]
    answer: Answer
    total: int | None = None

    @property
    def identity(self) -> str:
        return digest(*(item.text for item in self.items))


class Stuck(Exception):
    """A page from which no other one follows although there should be one."""


def walk(
    client: Client, origin: Http, window: Window, distinct: Callable[[], int]
) -> Iterator[Page]:
    """The pages of a listing, each once.

    `distinct` tells how many different items there were so far. A page that comes again, or
    that leads back, is asked for again; if it stays so, the listing cannot be read.
    """
    step: Step | None = _first(client, origin, window)
    asked: set[str] = set()
    met: set[str] = set()
    while step is not None:
        asked.add(step.identity)
        page, following = _page(client, origin, step, asked, met)
        met.add(page.identity)
        yield page
        if isinstance(origin.pages, ByPage) and page.total is not None:
            following = following if distinct() < page.total else None
        step = following


def _first(client: Client, origin: Http, window: Window) -> Step:
    url, params = client.first(window)
    if isinstance(origin.pages, ByPage):
        params[origin.pages.param] = str(origin.pages.first)
        return Step(url, params, origin.pages.first)
    return Step(url, params)


def _page(
    client: Client, origin: Http, step: Step, asked: set[str], met: set[str]
) -> tuple[Page, Step | None]:
    """A page and the step that follows it, asked for again while it is a step back."""
    trouble = ""
    for number in range(origin.tries):
        if number:
            client.again(number - 1)
        page = client.ask(step.url, step.params, lambda answer: _understood(origin, answer))
        try:
            following = _following(origin, step, page)
        except Stuck as error:
            trouble = str(error)
            continue
        if page.items and page.identity in met:
            trouble = "a page came a second time where the next one belongs"
        elif following is not None and following.identity in asked:
            trouble = "a page leads back to one that was read already"
        else:
            return page, following
    advice = ""
    if isinstance(origin.pages, ByPage) and not origin.pages.total:
        advice = "If the API repeats its last page, give by_page(..., total=...), then run again."
    raise refusals.no_sum(origin.label, trouble, advice)


def _understood(origin: Http, answer: Answer) -> Page:
    """The page in an answer; an answer without items is an error that calls itself a success."""
    values = at(answer.body, origin.items)
    if not isinstance(values, list):
        held = some_of(answer.body) if isinstance(answer.body, dict) else type(answer.body).__name__
        raise Passing(f"an answer without a list at {origin.items or 'its top'!r}; it has {held}")
    items = []
    for position, value in enumerate(values):
        item = item_of(value, origin.id)
        if item is None:
            raise refusals.no_sum(
                origin.label,
                f"item {position + 1} of a page has no id at {origin.id!r}",
                "Correct id= of http(...): an item without one cannot be told from others.",
            )
        items.append(item)
    return Page(tuple(items), answer, _total(origin, answer.body))


def _total(origin: Http, body: Any) -> int | None:
    if not isinstance(origin.pages, ByPage) or not origin.pages.total:
        return None
    found = at(body, origin.pages.total)
    if not isinstance(found, int) or isinstance(found, bool):
        raise Passing(f"an answer without a number at {origin.pages.total!r}")
    return found


def _following(origin: Http, step: Step, page: Page) -> Step | None:
    match origin.pages:
        case None:
            return None
        case ByCursor():
            return _after_last(origin.pages, step, page)
        case ByPage():
            if not page.items:
                return None
            number = step.number + 1
            params = {**step.params, origin.pages.param: str(number)}
            return replace(step, params=params, number=number)
        case ByToken():
            token = at(page.answer.body, origin.pages.next)
            if token is MISSING or token is None or token == "":
                return None
            return replace(step, params={**step.params, origin.pages.param: str(token)})
        case ByLink():
            link = at(page.answer.body, origin.pages.next) if origin.pages.next else None
            found = link if isinstance(link, str) else page.answer.link
            # The address of a next page holds all of its parameters.
            return Step(urljoin(step.url, found), {}) if found else None


def _after_last(pages: ByCursor, step: Step, page: Page) -> Step | None:
    if pages.more:
        more = at(page.answer.body, pages.more)
        if not isinstance(more, bool):
            raise Stuck(f"an answer does not say at {pages.more!r} whether there is more")
        if not more:
            return None
        if not page.items:
            raise Stuck("an empty page says that there is more")
    elif not page.items:
        return None
    cursor = at(page.items[-1].fields, pages.last)
    if isinstance(cursor, bool) or not isinstance(cursor, (str, int, Number)) or cursor == "":
        raise Stuck(f"the last item of a page has nothing at {pages.last!r}")
    return replace(step, params={**step.params, pages.param: str(cursor)})
