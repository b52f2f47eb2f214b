"""A listing, read page by page into a file: every item once, or nothing at all.

A server may change while it is read. An item that comes with two contents, a total that does
not match, or pages with numbers that overlap are signs of it: then the whole listing is read
again. What two readings in a row agree on is taken, unless it contradicts itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from setpoint.model.http import ByPage, Http
from setpoint.model.window import Window
from setpoint.sources.http import refusals
from setpoint.sources.http.client import Client
from setpoint.sources.http.items import Item
from setpoint.sources.http.pages import walk
from setpoint.sources.http.seen import Seen

_READINGS = 3
_MODULUS = 1 << 128


class Sink(Protocol):
    """Where the items of one reading go."""

    def put(self, item: Item) -> None: ...

    def close(self) -> None: ...

    def discard(self) -> None: ...


@dataclass(frozen=True)
class Listing:
    """What a reading of a listing found."""

    items: int
    pages: int
    contents: str
    readings: int = 1
    trouble: str = ""
    confirmable: bool = False


def read_listing(
    client: Client,
    origin: Http,
    window: Window,
    open_sink: Callable[[int], Sink],
) -> Listing:
    """Read a listing until a reading of it can be trusted; its items are then in the last sink."""
    before = ""
    found = None
    for number in range(1, _READINGS + 1):
        if number > 1:
            client.again(number)
        sink = open_sink(number)
        try:
            found = _read_once(client, origin, window, sink, number)
            sink.close()
        except BaseException:
            sink.discard()
            raise
        if not found.trouble or (found.confirmable and found.contents == before):
            return found
        sink.discard()
        before = found.contents
    assert found is not None
    raise refusals.no_sum(
        origin.label, f"{found.trouble}, and so it was in {_READINGS} readings of all pages"
    )


def _read_once(client: Client, origin: Http, window: Window, sink: Sink, number: int) -> Listing:
    seen, pages, summed, overlaps = Seen(), 0, 0, 0
    totals: set[int] = set()
    trouble = ""
    for page in walk(client, origin, window, lambda: seen.count):
        pages += 1
        totals |= set() if page.total is None else {page.total}
        for item in page.items:
            whole, own = item.hashes
            match seen.add(own, whole):
                case "new":
                    summed = (summed + whole) % _MODULUS
                    sink.put(item)
                case "same":
                    overlaps += 1
                case "other":
                    trouble = f"the item {item.id:.80} changed while the pages were read"
        if trouble:
            break
    confirmable = False
    if not trouble and totals and totals != {seen.count}:
        # A total that changes on the way may fit the count in the end, and items be missing.
        spoken = " and of ".join(f"{total:,}" for total in sorted(totals))
        trouble = f"the API speaks of {spoken} items and gave {seen.count:,}"
    elif not trouble and overlaps and isinstance(origin.pages, ByPage):
        # Items that move to a later page make others slip past, unless that is how it pages.
        trouble, confirmable = "items moved from page to page while they were read", True
    contents = f"1:{seen.count:x}:{summed:032x}"
    return Listing(seen.count, pages, contents, number, trouble, confirmable)
