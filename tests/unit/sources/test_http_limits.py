"""An API cannot take all of the memory, and not for ever: neither by accident nor on purpose."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import misbehaving_api as bad
from misbehaving_api import Api
from setpoint import by_token, http
from setpoint.errors import PermanentError, TransientError
from setpoint.model.window import Window
from setpoint.sources.http.body import TooLarge, whole
from setpoint.sources.http.client import Surroundings
from setpoint.sources.supply import Filled, HttpSupply
from setpoint.targets.delta.storage import Storage

WINDOW = Window.parse("2026-04-25", every="day")
START = int(WINDOW.start.timestamp())
NOW = dt.datetime(2026, 4, 26, 3, 0, 0, tzinfo=dt.timezone.utc)


@pytest.fixture
def fetch(api: Api, tmp_path: Path) -> Callable[..., Filled]:
    api.fill(5, START)

    def fetched(path: str = "/one", now: Any = lambda: NOW, **how: Any) -> Filled:
        origin = http(api.url + path, **{"items": "data", "tries": 2, **how})
        supply = HttpSupply(origin, Surroundings({}, now, lambda seconds: None))
        return supply.fill(None, WINDOW, Storage.at(str(tmp_path)), "folder")

    return fetched


@pytest.mark.parametrize("misbehave", [bad.bomb(50_000_000), bad.endless])
def test_an_answer_has_a_largest_size(
    api: Api, fetch: Callable[..., Filled], misbehave: Any, tmp_path: Path
) -> None:
    """Packed or not; it is refused at once, and says what to do."""
    api.plan = [misbehave]
    with pytest.raises(PermanentError) as told:
        fetch(answer_bytes=1_000_000)
    assert told.value.code == "SP-H09"
    assert "1,000,000 bytes" in told.value.what
    assert "answer_bytes=" in told.value.next
    assert len(api.requests) == 1
    assert not [*(tmp_path / "folder").glob("*.parquet")]


def test_a_bomb_of_gzip_takes_no_more_memory_than_is_permitted(tmp_path: Path) -> None:
    """The server, in the same process, packs piece by piece and needs little itself."""
    script = tmp_path / "ask.py"
    script.write_text(
        f"""
import datetime as dt, resource, sys
sys.path.insert(0, {str(Path(bad.__file__).parent)!r})
import misbehaving_api as bad
from setpoint import http
from setpoint.errors import SetpointError
from setpoint.sources.http.client import Client, Surroundings
import httpx
now = dt.datetime(2026, 4, 26, tzinfo=dt.timezone.utc)
with bad.Api() as api:
    api.plan = [bad.bomb(1_000_000_000)]
    origin = http(api.url + "/one", items="data")
    with Client(origin, Surroundings({{}}, lambda: now, lambda seconds: None)) as client:
        try:
            client.ask(origin.url, {{}}, lambda answer: answer)
        except SetpointError as error:
            print(error.code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    code, kilobytes = done.stdout.split()
    assert code == "SP-H09", done.stderr[-2000:]
    assert int(kilobytes) < 600_000


@pytest.mark.parametrize("misbehave", [bad.drip, bad.drip_headers])
def test_an_answer_has_a_longest_time(
    api: Api, fetch: Callable[..., Filled], misbehave: Any
) -> None:
    """A server that sends something now and then never times out by itself."""
    api.plan = [misbehave, misbehave]
    with pytest.raises(TransientError) as told:
        fetch(answer_seconds=0.2)
    assert told.value.code == "SP-H01"
    assert "no whole answer within 0.2 seconds" in told.value.what
    assert len(api.requests) == 2


def test_after_a_cut_connection_the_next_try_has_a_new_one(
    api: Api, fetch: Callable[..., Filled]
) -> None:
    """One slow answer is a passing failure."""
    api.plan = [bad.drip]
    assert fetch(answer_seconds=1.0).items == 5


def test_a_listing_has_a_longest_time(api: Api, fetch: Callable[..., Filled]) -> None:
    """Pages that never end, each of them new and quick."""
    api.fill(100, START)
    api.size = 1
    hours: Iterator[dt.datetime] = (NOW + dt.timedelta(hours=n) for n in range(1000))
    with pytest.raises(PermanentError) as told:
        fetch(
            "/token",
            now=lambda: next(hours),
            pages=by_token("token", next="next"),
            listing_seconds=20 * 3600,
        )
    assert told.value.code == "SP-H09"
    assert "20 answers" in told.value.what
    assert "listing_seconds=" in told.value.next


def test_what_is_permitted_is_said_by_default() -> None:
    """100 MB and five minutes for an answer, six hours for a listing."""
    origin = http("https://api.example/x")
    limits = (origin.answer_bytes, origin.answer_seconds, origin.listing_seconds)
    assert limits == (100_000_000, 300.0, 21_600.0)


def test_a_body_is_unpacked_whatever_its_parts_are() -> None:
    """Chunks of any size, several members in a row, and nothing of what breaks off."""
    import gzip

    text = bytes(range(256)) * 1000
    packed = gzip.compress(text) + gzip.compress(b"more")
    for size in (1, 7, 65_536, len(packed)):
        chunks = [packed[at : at + size] for at in range(0, len(packed), size)]
        assert whole(chunks, "gzip", len(text) + 4) == text + b"more"
    with pytest.raises(TooLarge):
        whole([packed], "gzip", len(text) + 3)
    for broken in (packed[:-10], b"no zip"):
        with pytest.raises(ValueError, match="compression"):
            whole([broken], "gzip", 10**9)
    with pytest.raises(ValueError, match="br"):
        whole([b"x"], "br", 10)
