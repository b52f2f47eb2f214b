"""A paged API that misbehaves: the landed set is the server's truth, or nothing is landed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import misbehaving_api as bad
from misbehaving_api import Api
from setpoint import by_cursor, by_link, by_page, by_token, http
from setpoint.errors import PermanentError, SetpointError, TransientError, UsageError
from setpoint.model.window import Window
from setpoint.sources.http.client import Surroundings
from setpoint.sources.supply import Filled, HttpSupply
from setpoint.targets.delta.storage import Storage

WINDOW = Window.parse("2026-04-25", every="day")
START = int(WINDOW.start.timestamp())
NOW = dt.datetime(2026, 4, 26, 3, 0, 0, tzinfo=dt.timezone.utc)
BOUNDS = {"created[gte]": "{start:unix}", "created[lt]": "{end:unix}"}
WAYS: dict[str, Any] = {
    "/cursor": by_cursor("starting_after", last="id", more="has_more"),
    "/page": by_page("page", total="meta.total"),
    "/pages": by_page("page"),
    "/token": by_token("token", next="next"),
    "/next": by_link("links.next"),
    "/link": by_link(),
}


@dataclass
class Desk:
    """Fetches listings of a server into a folder, without waiting for anything."""

    api: Api
    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    pauses: list[float] = field(default_factory=list)

    def fetch(self, path: str = "/cursor", **more: Any) -> Filled:
        items = "" if path == "/link" else "data"
        origin = http(
            self.api.url + path,
            **{"items": items, "params": BOUNDS, "pages": WAYS.get(path), "tries": 3, **more},
        )
        around = Surroundings(self.environment, lambda: NOW, self.pauses.append)
        supply = HttpSupply(origin, around)
        return supply.fill(None, WINDOW, Storage.at(str(self.root)), "folder")

    def landed(self) -> dict[str, str]:
        """The items in the files, by id."""
        found: dict[str, str] = {}
        for file in (self.root / "folder").glob("*.parquet"):
            for row in parquet.read_table(file).to_pylist():
                assert row["id"] not in found
                found[row["id"]] = row["item"]
        return found

    def truth(self) -> set[str]:
        end = int(WINDOW.end.timestamp())
        return {item["id"] for item in self.api.items if START <= item["created"] < end}


@pytest.fixture
def desk(api: Api, tmp_path: Path) -> Desk:
    api.fill(5, START)
    api.items.append({"id": "early", "amount": 1, "created": START - 1, "note": ""})
    api.items.append({"id": "late", "amount": 1, "created": START + 86_400, "note": ""})
    return Desk(api, tmp_path)


@pytest.mark.parametrize("path", WAYS)
def test_every_way_of_paging_reads_every_item_of_the_window_once(desk: Desk, path: str) -> None:
    """The bounds are half-open, and the content hash depends on the items alone."""
    filled = desk.fetch(path)
    assert set(desk.landed()) == desk.truth()
    assert (filled.items, filled.readings) == (5, 1)
    assert filled.contents == Desk(desk.api, desk.root / "other").fetch("/one").contents


def test_items_are_kept_in_one_spelling_with_every_digit(desk: Desk) -> None:
    """What the server said is there: unknown fields, exact numbers, letters of any kind."""
    desk.api.plan = [
        bad.body('{"data": [{"z": 1.10000000000000000001, "id": "a", "ä": "\\ud800"}]}')
    ]
    desk.fetch("/one")
    assert desk.landed() == {"a": '{"id":"a","z":1.10000000000000000001,"ä":"\\ud800"}'}


def test_the_quick_spelling_is_the_careful_one() -> None:
    """Items with and without a fraction are spelled alike, whichever way they take."""
    from setpoint.sources.http.items import _spelled, parse, spelled

    text = '{"b": [1, true, null, {"z": "ä\\n\\u0007", "a": -5}], "a": 12345678901234567890}'
    assert spelled(parse(text.encode())) == _spelled(parse(text.encode()))
    assert spelled(parse(b'{"b": 1.50, "a": 1E5}')) == '{"a":1E5,"b":1.50}'


def test_an_empty_listing_is_a_listing(desk: Desk) -> None:
    """No items is an answer."""
    desk.api.items = []
    for path in WAYS:
        assert desk.fetch(path).items == 0
        assert desk.landed() == {}


PASSING: dict[str, list[Any]] = {
    "429 in seconds": [bad.status(429, Retry_After="7")],
    "500 and 503": [bad.status(500), bad.status(503)],
    "408": [bad.status(408)],
    "connection reset": [bad.reset, bad.reset],
    "truncated body": [bad.truncated],
    "not JSON": [bad.body("<html>sorry</html>"), bad.body('{"data": [')],
    "a broken compression": [bad.garbled],
    "NaN": [bad.body('{"data": [NaN]}')],
    "an error that calls itself 200": [bad.body('{"error": {"message": "try later"}}')],
    "nothing about more": [bad.body('{"data": [{"id": "x"}]}')],
    "more after an empty page": [bad.body('{"data": [], "has_more": true}')],
    "in the middle": [None, bad.status(502), None, bad.reset],
    "a page that repeats": [None, bad.repeated],
}


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_tried_again(desk: Desk, name: str) -> None:
    """A server that comes to itself is read as if nothing had happened."""
    desk.api.plan = list(PASSING[name])
    desk.fetch()
    assert set(desk.landed()) == desk.truth()
    assert desk.pauses


@pytest.mark.parametrize("name", [name for name in PASSING if name != "in the middle"])
def test_what_does_not_pass_lands_nothing(desk: Desk, name: str) -> None:
    """Tries are bounded; then there is an error and not a part of the listing."""
    (last,) = PASSING[name][-1:]
    desk.api.plan = [None, *[last] * 40]
    with pytest.raises(SetpointError) as told:
        desk.fetch()
    assert told.value.code in ("SP-H01", "SP-H04")
    assert "Nothing was landed" in told.value.state
    assert desk.landed() == {}
    assert len(desk.api.requests) <= 1 + 3 * 3


def test_a_timeout_is_tried_again(desk: Desk) -> None:
    """A server that says nothing is asked again after the time-out."""
    desk.api.plan = [bad.hang]
    desk.fetch(timeout=0.2)
    assert set(desk.landed()) == desk.truth()


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({"Retry_After": "7"}, 7.0),
        ({"Retry_After": "Sun, 26 Apr 2026 03:00:09 GMT"}, 9.0),
        (
            {
                "Retry_After": "Sun, 26 Apr 2026 05:00:04 GMT",
                "Date": "Sun, 26 Apr 2026 05:00:00 GMT",
            },
            4.0,
        ),
        ({"Retry_After": "Sun, 26 Apr 2026 02:00:00 GMT"}, 0.0),
    ],
)
def test_the_server_says_how_long_to_wait(
    desk: Desk, headers: dict[str, str], pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds, or a date on the server's own clock if it tells it, otherwise on ours."""
    if "Date" not in headers:
        monkeypatch.setattr(bad.Handler, "date_time_string", lambda self, timestamp=None: "")
    else:
        monkeypatch.setattr(bad.Handler, "date_time_string", lambda self, t=None: headers["Date"])
    desk.api.plan = [bad.status(429, Retry_After=headers["Retry_After"])]
    desk.fetch()
    assert desk.pauses == [pause]


def test_more_patience_than_a_run_has_is_an_error(desk: Desk) -> None:
    """An hour is not waited for; the error says so at once."""
    desk.api.plan = [bad.status(429, Retry_After="3600")]
    with pytest.raises(TransientError, match="3,600 seconds"):
        desk.fetch()
    assert len(desk.api.requests) == 1


@pytest.mark.parametrize(("code", "error"), [(401, "SP-H02"), (403, "SP-H02"), (404, "SP-H03")])
def test_what_will_not_pass_is_said_at_once(desk: Desk, code: int, error: str) -> None:
    """One request, one clear error, without the secret."""
    desk.environment = {"KEY": "sk_live_secret"}
    desk.api.plan = [bad.status(code)]
    with pytest.raises(PermanentError) as told:
        desk.fetch(headers={"Authorization": "Bearer env:KEY"})
    assert told.value.code == error
    assert len(desk.api.requests) == 1
    assert "sk_live" not in str(told.value)
    assert ("KEY" in str(told.value)) == (error == "SP-H02")
    assert "created" not in str(told.value)


@pytest.mark.parametrize("code", [400, 403, 503])
def test_the_api_is_quoted_without_our_secrets(desk: Desk, code: int) -> None:
    """What it says about its refusal is often the only hint; it may repeat the key."""
    desk.environment = {"KEY": "sk_live_secret"}
    words = '{"error": "no parameter created, key sk_live_secret (Bearer sk_live_secret)"}'
    desk.api.plan = [bad.body(words, code)] * 9
    with pytest.raises(SetpointError, match="no parameter created") as told:
        desk.fetch(headers={"Authorization": "Bearer env:KEY"})
    assert "sk_live" not in str(told.value)


def test_an_item_without_an_id_is_an_error(desk: Desk) -> None:
    """It could not be told from others, so the listing is not landed."""
    for item in ('{"x": 1}', '{"id": null}', '{"id": 1.5}', '{"id": true}', "7"):
        desk.api.plan = [bad.body(f'{{"data": [{{"id": "a"}}, {item}], "has_more": false}}')]
        with pytest.raises(PermanentError, match="no id at 'id'"):
            desk.fetch()
    assert desk.landed() == {}


def changed(api: Api) -> None:
    api.items[4] = {**api.items[4], "amount": 999}


def grown(api: Api) -> None:
    newest = max(item["created"] for item in api.items if item["created"] < START + 80_000)
    number = len(api.items)
    api.items.append({"id": f"new_{number}", "amount": 1, "created": newest + 1, "note": ""})


def shrunk(api: Api) -> None:
    api.items = [item for item in api.items if item["id"] != "ch_4"]


def test_pages_that_overlap_give_each_item_once(desk: Desk) -> None:
    """The same item twice is one item."""
    desk.api.size, desk.api.overlap = 3, 1
    desk.fetch("/cursor")
    assert set(desk.landed()) == desk.truth()
    assert desk.fetch("/pages").readings == 2
    assert set(desk.landed()) == desk.truth()


def test_an_item_that_changes_while_it_is_paged_is_read_again(desk: Desk) -> None:
    """Two contents under one id: neither is taken, all pages are read anew."""
    desk.api.size, desk.api.overlap = 3, 1
    desk.api.plan = [None, bad.change(lambda api: changed_at(api, "ch_2"))]
    assert desk.fetch().readings == 2
    assert set(desk.landed()) == desk.truth()
    assert '"amount":999' in desk.landed()["ch_2"]


def changed_at(api: Api, name: str) -> None:
    amounts = [item["amount"] for item in api.items if item["id"] == name]
    for item in api.items:
        if item["id"] == name:
            item["amount"] = 999 if amounts[0] != 999 else 998


def test_an_item_that_never_stands_still_is_an_error(desk: Desk) -> None:
    """Readings are bounded."""
    desk.api.size, desk.api.overlap = 3, 1
    desk.api.plan = [bad.change(lambda api: changed_at(api, "ch_2")) for _ in range(20)]
    with pytest.raises(PermanentError, match="ch_2 changed while"):
        desk.fetch()
    assert desk.landed() == {}


@pytest.mark.parametrize("path", ["/page", "/pages"])
def test_a_server_that_grows_while_it_is_paged_is_read_again(desk: Desk, path: str) -> None:
    """A new item in front moves the others to later pages; the second reading has them all."""
    desk.api.plan = [None, bad.change(grown)]
    assert desk.fetch(path).readings == 2
    assert set(desk.landed()) == desk.truth()


def test_a_server_that_shrinks_while_it_is_paged_is_read_again(desk: Desk) -> None:
    """A removed item makes another slip past; the total tells."""
    desk.api.plan = [None, bad.change(shrunk)]
    desk.fetch("/page")
    assert set(desk.landed()) == desk.truth()
    assert len(desk.landed()) == 4


def test_a_cursor_is_not_moved_by_new_items(desk: Desk) -> None:
    """What was there when the paging began is there once, whatever comes in front."""
    before = desk.truth()
    desk.api.plan = [None, bad.change(grown), bad.change(grown)]
    assert desk.fetch("/cursor").readings == 1
    assert set(desk.landed()) == before


def test_a_total_that_never_matches_is_an_error(desk: Desk) -> None:
    """The API contradicts itself in every reading."""
    desk.api.total_is_off = 1
    with pytest.raises(PermanentError, match="6 items and gave 5"):
        desk.fetch("/page")
    assert desk.landed() == {}


def test_a_server_that_never_stops_is_an_error(desk: Desk) -> None:
    """A last page that is repeated for every further number is found, not followed for ever."""
    desk.api.answer = lambda path, params: ({"data": [{"id": "a"}]}, {})  # type: ignore[method-assign]
    with pytest.raises(PermanentError, match="a second time") as told:
        desk.fetch("/pages")
    assert "total=" in told.value.next


def test_pages_that_lead_back_are_an_error(desk: Desk) -> None:
    """A token that comes again is not followed, however new the items are."""
    numbers = iter(range(10_000))

    def answer(path: str, params: dict[str, str]) -> Any:
        return {"data": [{"id": next(numbers)}], "next": "same"}, {}

    desk.api.answer = answer  # type: ignore[method-assign]
    with pytest.raises(PermanentError, match="leads back"):
        desk.fetch("/token")
    assert len(desk.api.requests) < 10


def test_requests_keep_to_the_rate(desk: Desk) -> None:
    """A pause lies between any two requests."""
    desk.fetch(rate=4)
    assert desk.pauses == [0.25] * (len(desk.api.requests) - 1)


def test_a_secret_that_is_not_set_is_an_error_before_any_request(desk: Desk) -> None:
    """The variable is named, and nothing was asked."""
    for environment in ({}, {"KEY": ""}, {"KEY": "a\nb"}):
        desk.environment = environment
        with pytest.raises(UsageError) as told:
            desk.fetch(headers={"Authorization": "Bearer env:KEY"})
        assert told.value.code == "SP-H02"
        assert "a\nb" not in str(told.value)
    assert desk.api.requests == []


def test_secrets_stay_on_their_host(desk: Desk) -> None:
    """They are sent to the address that the user wrote, and not to where it leads."""
    desk.environment = {"KEY": "secret"}
    with Api(items=desk.api.items) as elsewhere:
        desk.api.plan = [bad.redirect(f"{elsewhere.url}/one"), bad.redirect("/one")]
        how: dict[str, Any] = {
            "headers": {
                "Authorization": "Bearer env:KEY",
                "X-Key": "env:KEY",
                "X-Partner": "written-in-the-code",
                "Accept-Language": "de",
            }
        }
        desk.fetch("/one", **how)
        desk.fetch("/one", **how)
        (there,) = elsewhere.requests
    assert "authorization" not in there.headers
    assert "x-key" not in there.headers
    assert "x-partner" not in there.headers, "a key may stand in the code under any name"
    assert there.headers["accept-language"] == "de"
    assert [r.headers["authorization"] for r in desk.api.requests] == ["Bearer secret"] * 3


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://x/", "/again"])
def test_redirects_lead_to_http_only_and_end(desk: Desk, address: str) -> None:
    """Other kinds of addresses and circles are refused."""
    desk.api.plan = [bad.redirect(address)] * 9
    with pytest.raises(PermanentError) as told:
        desk.fetch("/one")
    assert told.value.code == "SP-H03"


def test_a_page_is_never_held_with_the_others(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items go to the file group by group; only hashes of them stay in memory."""
    monkeypatch.setattr("setpoint.sources.supply._GROUP_ITEMS", 100)
    desk.api.fill(1000, START, step=1)
    desk.api.size = 50
    desk.fetch()
    (file,) = (desk.root / "folder").glob("*.parquet")
    assert parquet.read_metadata(file).num_row_groups == 10
    assert set(desk.landed()) == desk.truth()


def test_without_the_package_the_error_names_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """httpx is an extra."""
    monkeypatch.setitem(__import__("sys").modules, "httpx", None)
    with pytest.raises(UsageError, match=r"setpoint\[http\]|httpx") as told:
        desk.fetch()
    assert told.value.code == "SP-C08"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: http("ftp://x"),
        lambda: http("https://user:password@x/"),
        lambda: http("https://x", params={"from": "{strat:unix}"}),
        lambda: http("https://x", params={"from": "{start:weeks}"}),
        lambda: http("https://x", headers={"Authorization": "Bearer sk_live_1"}),
        lambda: http("https://x", params={"key": "env:KEY and more"}),
        lambda: http("https://x", params={"key": "{env:KEY}"}),
        lambda: http("https://x/{env:not a name}"),
        lambda: http("https://{env:HOST}/x"),
        lambda: http("https://x", answer_bytes=0),
        lambda: http("https://x", answer_seconds=-1),
        lambda: http("https://x", listing_seconds=float("nan")),
        lambda: http("https://x", pages="page"),  # type: ignore[arg-type]
        lambda: http("https://x", id=""),
        lambda: http("https://x", rate=0),
        lambda: http("https://x", tries=0),
        lambda: http("https://x", timeout=float("inf")),
    ],
)
def test_a_wrong_definition_is_found_when_it_is_written(wrong: Callable[[], Any]) -> None:
    """And its error shows no secret."""
    with pytest.raises(UsageError) as told:
        wrong()
    assert told.value.code == "SP-D07"
    assert "password@" not in str(told.value)
    assert "sk_live" not in str(told.value)


def test_what_is_asked_holds_no_secret_and_changes_with_what_counts() -> None:
    """Another variable, rate or schema is the same question; another plain header is not."""

    def asked(**more: Any) -> dict[str, object]:
        return http("https://x", **{"headers": {"Authorization": "env:A"}, **more}).request()

    same: list[dict[str, Any]] = [
        {"headers": {"Authorization": "Bearer env:B"}},
        {"rate": 2},
        {"schema": "id string"},
        {"tries": 1},
    ]
    assert all(asked(**more) == asked() for more in same)
    other: list[dict[str, Any]] = [
        {"headers": {"X-Version": "2"}},
        {"items": "data"},
        {"params": {"a": 1}},
        {"id": "number"},
        {"pages": by_link()},
    ]
    assert all(asked(**more) != asked() for more in other)
    assert "env:" not in str(asked())


def test_times_in_the_address_arrive_as_they_are(desk: Desk) -> None:
    """The plus sign of an offset is no blank, with parameters beside it and without."""
    window = Window.parse("2026-04-25", every="day", timezone="Europe/Berlin")
    around = Surroundings({}, lambda: NOW, desk.pauses.append)
    for params in ({}, {"limit": "5"}):
        origin = http(f"{desk.api.url}/one?since={{start:iso}}", items="data", params=params)
        HttpSupply(origin, around).fill(None, window, Storage.at(str(desk.root)), "f")
        assert desk.api.requests[-1].params == {"since": "2026-04-25T00:00:00+02:00", **params}


def test_the_bounds_are_those_of_the_windows_zone() -> None:
    """A day in Berlin starts at its midnight."""
    window = Window.parse("2026-04-25", every="day", timezone="Europe/Berlin")
    origin = http(
        "https://x/{date}",
        params={"a": "{start:unix}", "b": "{end:iso}", "c": "{start:%Y%m%d}", "d": "{end:unix_ms}"},
    )
    assert origin.url_of(window) == "https://x/2026-04-25"
    assert http("https://x/{start:%Y/%m}").url_of(window) == "https://x/2026/04"
    assert origin.params_of(window) == {
        "a": "1777068000",
        "b": "2026-04-26T00:00:00+02:00",
        "c": "20260425",
        "d": "1777154400000",
    }
