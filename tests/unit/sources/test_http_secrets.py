"""Keys of an API: sent where they belong, and to be found nowhere else."""

from __future__ import annotations

import datetime as dt
import json
import logging
from pathlib import Path
from typing import Any

import pytest

import misbehaving_api as bad
from misbehaving_api import Api
from setpoint import by_link, by_token, http, land
from setpoint.errors import SetpointError, UsageError
from setpoint.model.http import Http
from setpoint.model.landing import Landing, recorded, unseal
from setpoint.model.window import Window
from setpoint.sources.http.client import Surroundings
from setpoint.sources.supply import HttpSupply
from setpoint.targets.delta.storage import Storage

WINDOW = Window.parse("2026-04-25", every="day")
NOW = dt.datetime(2026, 4, 26, 3, 0, 0, tzinfo=dt.timezone.utc)
KEY = "k3y/with=all & sorts"
ENVIRONMENT = {"API_KEY": KEY, "OTHER": "not-for-them"}


def fill(origin: Http, place: Path) -> None:
    supply = HttpSupply(origin, Surroundings(ENVIRONMENT, lambda: NOW, lambda seconds: None))
    supply.fill(None, WINDOW, Storage.at(str(place)), "folder")


def test_a_key_may_be_a_parameter_or_a_part_of_the_address(api: Api, tmp_path: Path) -> None:
    """Some APIs take it nowhere else; it is spelled as an address takes it."""
    api.fill(5, int(WINDOW.start.timestamp()))
    pages = by_token("token", next="next")
    fill(
        http(f"{api.url}/token", items="data", params={"key": "env:API_KEY"}, pages=pages), tmp_path
    )
    assert [request.params["key"] for request in api.requests] == [KEY] * 3
    with pytest.raises(SetpointError, match="SP-H03"):
        fill(http(f"{api.url}/bot{{env:API_KEY}}/updates"), tmp_path)
    assert api.requests[-1].path == "/botk3y%2Fwith%3Dall%20%26%20sorts/updates"


def test_a_server_cannot_ask_for_other_variables(api: Api, tmp_path: Path) -> None:
    """What it names as the next address or token is sent as it came."""
    first = {"data": [{"id": 1}], "next": "env:OTHER"}
    api.plan = [bad.body(json.dumps(first)), bad.body('{"data": []}')]
    fill(http(api.url, items="data", pages=by_token("token", next="next")), tmp_path)
    assert api.requests[-1].params == {"token": "env:OTHER"}
    with Api() as elsewhere:
        link = f"{elsewhere.url}/one?k={{env:API_KEY}}&o={{env:OTHER}}"
        api.plan = [bad.body(json.dumps({"data": [{"id": 1}], "next": link}))]
        origin = http(f"{api.url}/{{env:API_KEY}}", items="data", pages=by_link("next"))
        fill(origin, tmp_path)
        (request,) = elsewhere.requests
    assert KEY not in str(request)
    assert "not-for-them" not in str(request)


def test_a_variable_that_is_not_set_is_told_before_anything_is_asked(
    api: Api, tmp_path: Path
) -> None:
    for origin in (
        http(api.url, params={"key": "env:NONE"}),
        http(f"{api.url}/{{env:NONE}}"),
        http(api.url, headers={"X": "env:NONE"}),
    ):
        assert origin.variables == ("NONE",)
        with pytest.raises(UsageError, match=r"SP-H02.*NONE"):
            fill(origin, tmp_path)
    assert not api.requests


@pytest.mark.parametrize(
    "how",
    [
        {"params": {"key": "env:API_KEY"}},
        {"headers": {"X-Key": "env:API_KEY"}},
        {"params": {"api_key": KEY}},
        {"params": {"k": "env:API_KEY"}},
        {"headers": {"X-Partner-Token": KEY}},
    ],
)
def test_no_log_and_no_error_shows_a_key(
    api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture, how: dict[str, Any]
) -> None:
    """httpx logs the addresses that it asks, and servers repeat what they refuse."""
    caplog.set_level(logging.DEBUG)
    api.plan = [bad.body(json.dumps({"error": f"bad key {KEY}"}), 400)]
    with pytest.raises(SetpointError, match="SP-H03") as told:
        fill(http(f"{api.url}/one", **how), tmp_path)
    assert "GET" in caplog.text, "httpx does log"
    for text in (caplog.text, str(told.value)):
        assert KEY not in text
        assert "k3y" not in text
    assert "bad key" in str(told.value)


def test_what_is_shown_of_a_request_holds_no_key() -> None:
    origin = http("https://api.example/x?key=abcdefgh", params={"k": KEY}, headers={"X": KEY})
    for value in (origin, land(origin)):
        assert KEY not in repr(value)
        assert "abcdefgh" not in repr(value)


def test_a_record_keeps_digests_of_what_may_be_a_key() -> None:
    """Parts of the window and small numbers stay readable; nothing else is known to be harmless."""
    origin = http(
        "https://api.example/x?key=abcdefgh&day={date}",
        params={
            "k": KEY, "from": "{start:unix}", "limit": 100, "named": "env:API_KEY", "order": "desc"
        },
    )  # fmt: skip
    kept = recorded(origin.request())
    assert recorded(kept) == kept
    text = json.dumps(kept)
    assert "k3y" not in text
    assert "abcdefgh" not in text
    params: Any = kept["params"]
    plain = {name: params[name] for name in ("from", "limit", "named")}
    assert plain == {"from": "{start:unix}", "limit": "100", "named": "env:API_KEY"}
    assert params["k"].startswith("digest:")
    assert str(kept["url"]).endswith("&day={date}")
    other = recorded(http("https://api.example/x", params={"k": "another"}).request())
    assert other["params"]["k"] != params["k"], "that it was changed can be told"  # type: ignore[index]


def test_a_record_of_a_time_when_keys_were_written_down_is_not_shown_with_them() -> None:
    request = {"url": "https://api.example/x?key=abcdefgh", "params": {"k": KEY}}
    old = Landing("n", "w", "s", "e", 1, "a", "t", "asked", 0, "c", request=request)
    assert "abcdefgh" in old.seal()
    read = unseal(old.seal())
    assert read is not None
    assert "abcdefgh" not in str(read)
    assert "k3y" not in str(read)
    assert read.asked == "asked"
