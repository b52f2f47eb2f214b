"""Landed sources without Spark: which generation is taken, and what may be landed at all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from misbehaving_api import Api
from setpoint import delta, edge, files, http, jdbc, land, pipeline, postgres, rows, source
from setpoint.errors import DefinitionError, PermanentError
from setpoint.flow.plan import Bound
from setpoint.flow.run import refuse_lost
from setpoint.flow.steps import EVERY, How, Plan
from setpoint.model.origin import refuse_shared_address
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Run
from setpoint.model.window import Window
from setpoint.sources.http.client import Surroundings
from setpoint.sources.landed import LandedSource
from setpoint.sources.landing import Shelf
from setpoint.sources.supply import HttpSupply, ItemFile
from setpoint.targets.delta.storage import Storage

WINDOW = Window.parse("2026-04-25", every="day")


def port(
    api: Api, folder: Path, name: str = "job.payments", window: Window = WINDOW, **asked: str
) -> LandedSource:
    origin = http(f"{api.url}/one", items="data", params=asked)
    around = Surroundings({}, edge.utc_now, lambda seconds: None)
    return LandedSource(
        name="payments",
        source=source(land(origin), whole=not asked),
        pipeline="job",
        every=window.grain,
        timezone=window.timezone,
        shelf=Shelf.named(Storage.at(str(folder)), name),
        supply=HttpSupply(origin, around),
        now=edge.utc_now,
    )


def test_what_another_process_landed_meanwhile_is_taken_without_asking(
    api: Api, tmp_path: Path
) -> None:
    """The generation after the planned one is there already: nobody asks for it again."""
    api.fill(2, 0)
    slow, fast = port(api, tmp_path), port(api, tmp_path)
    assert slow.pin([WINDOW])[WINDOW].version is None
    fast.land(None, WINDOW, "fast")
    api.fill(5, 0)
    taken = slow.land(None, WINDOW, "slow")
    assert (taken.version, taken.rows) == (1, 2)
    assert len(api.requests) == 1
    assert [item.attempt for item in slow.generations(WINDOW)] == ["fast"]


def test_a_refresh_lands_beside_and_a_retry_of_it_does_not_ask_again(
    api: Api, tmp_path: Path
) -> None:
    """Equal items have equal fingerprints, in whatever order they and their fields come."""
    api.fill(3, 0)
    first = port(api, tmp_path).land(None, WINDOW, "a")
    again = port(api, tmp_path)
    assert again.pin([WINDOW])[WINDOW] == first
    turned = [dict(reversed(item.items())) for item in api.items]
    api.answer = lambda path, params: ({"data": turned}, {})  # type: ignore[method-assign]
    second = again.land(None, WINDOW, "b")
    assert again.land(None, WINDOW, "c") == second
    assert (second.version, second.fingerprint) == (2, first.fingerprint)
    assert len(api.requests) == 2
    assert again.leftovers() == []


def test_files_that_do_not_hold_what_was_read_are_not_landed(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that lost an item on the way is found by its footer."""
    api.fill(3, 0)
    put = ItemFile.put
    monkeypatch.setattr(
        ItemFile, "put", lambda self, item: put(self, item) if item.id != "ch_1" else None
    )
    with pytest.raises(PermanentError, match="3 items were to be landed, and the files hold 2"):
        port(api, tmp_path).land(None, WINDOW, "a")
    assert port(api, tmp_path).generations(WINDOW) == []


def test_a_shelf_without_anything_has_no_leftovers(api: Api, tmp_path: Path) -> None:
    """A pipeline that never ran can be recovered, shown and planned."""
    empty = port(api, tmp_path / "none")
    assert empty.leftovers() == []
    assert empty.generations(WINDOW) == []
    assert empty.pin([WINDOW, WINDOW.next()])[WINDOW].version is None


def test_a_folder_that_is_no_landed_copy_is_said_to_be_none(api: Api, tmp_path: Path) -> None:
    """Somebody else's log in the place of a record is an error, not an empty input."""
    log = tmp_path / "job.payments" / "2026-04-25" / "g1" / "_delta_log"
    log.mkdir(parents=True)
    for text in ("{}", "not json", '{"commitInfo": {"userMetadata": "x"}}'):
        (log / f"{0:020d}.json").write_text(text)
        with pytest.raises(PermanentError, match="is not a landed copy") as told:
            port(api, tmp_path).pin([WINDOW])
        assert told.value.code == "SP-H07"


@pytest.mark.parametrize("name", ["../../etc", "größe", "a b", ".hidden", "x/y", "a%2Fb", "-"])
def test_a_name_stays_below_the_landing_path(api: Api, tmp_path: Path, name: str) -> None:
    """Letters that a path does not take are replaced, and different names stay different."""
    place = tmp_path / "landing"
    port(api, place, name).land(None, WINDOW, "a")
    (folder,) = place.iterdir()
    assert port(api, place, name).pin([WINDOW])[WINDOW].version == 1
    assert port(api, place, f"{name}?").pin([WINDOW])[WINDOW].version is None
    assert list(tmp_path.iterdir()) == [place]
    assert folder.name.isascii()


def daily(window: Window) -> list[tuple[int]]:
    return [(1,)]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: source(http("https://x/{date}")), "asks the API again on every run"),
        (lambda: source(land(http("https://x"))), "needs one of time="),
        (lambda: source(land(http("https://x/{date}")), whole=True), "whole=True"),
        (lambda: source(land(delta("t"))), "needs one of time="),
        (lambda: source(land(delta("t")), cursor="c"), "has a cursor"),
        (lambda: source(land(delta("t")), time="d", late="fail"), "late rows are not noticed"),
        (lambda: source(land(http("https://x/{date}")), late="ignore"), "--refresh"),
        (lambda: land("t"), "cannot be landed"),
        (lambda: land(land(delta("t"))), "cannot be landed"),
        (lambda: land(delta("t"), name="../x"), "is not a name"),
        (lambda: land(delta("t"), name="a/b"), "is not a name"),
    ],
)
def test_a_wrong_definition_is_found_when_it_is_written(
    wrong: Callable[[], Any], words: str
) -> None:
    """With the reason, before anything is asked."""
    with pytest.raises(DefinitionError) as told:
        wrong()
    assert told.value.code == "SP-D07"
    assert words in str(told.value)


def test_origins_that_give_the_window_alone_need_no_time() -> None:
    """The request, the path or the function bounds the read."""
    for origin in (
        http("https://x", params={"day": "{date}"}),
        files("in/{date}/*.parquet"),
        rows(daily, schema="id int"),
    ):
        assert source(land(origin)).time is None


@pytest.mark.parametrize(
    ("recorded", "refused"),
    [
        ({"version": 1, "landed": True}, True),
        ({"version": 12}, False),
        ({}, False),
    ],
)
def test_only_a_landed_generation_can_be_lost(
    api: Api, tmp_path: Path, recorded: dict[str, Any], refused: bool
) -> None:
    """A table's version in the receipt of an input that is landed from now on is none."""

    def job(window: Window, payments: Any = source(land(delta("t")), whole=True)) -> Any: ...

    made = pipeline(every="day", target=delta("out", partition_by="d"))(job)
    held = port(api, tmp_path)
    unused: Any = None
    bound = Bound(made, unused, {"payments": held})
    run = Run(made, WINDOW, {}, {"payments": held.pin([WINDOW])[WINDOW]}, "", {})
    receipt = Receipt(
        pipeline="job",
        window=WINDOW.id,
        timezone="UTC",
        every="day",
        run_key="k",
        generation=1,
        attempt="a",
        rows=1,
        contents=None,
        files=None,
        published_at="",
        inputs={"payments": recorded},
    )
    todo = Plan(run, SliceState(1, receipt, True), "", ())
    with pytest.raises(PermanentError, match="SP-R05") if refused else nullcontext():
        refuse_lost(bound, todo)
    refuse_lost(bound, replace(todo, how=How(refresh=EVERY)))


def windows(every: str, *texts: str) -> list[Window]:
    return [Window.parse(text, every, "Europe/Berlin") for text in texts]


@pytest.mark.parametrize(
    ("asked", "window"),
    [
        ("{date}", *windows("hour", "2026-04-25T10")),
        ("{start:%Y-%m-%dT%H}", *windows("15min", "2026-04-25T10:15")),
        ("{start:%Y-%m-%dT%H}", *windows("hour", "2026-10-25T02+0200")),
        ("{start:%Y-%m-%dT%H}", *windows("hour", "2026-10-25T02+0100")),
        ("{start:%Y-%m-%dT%H%M}", *windows("15min", "2026-10-25T02:15+0200")),
        ("{start:%Y-%m-%dT%H%M}", *windows("15min", "2026-10-25T02:15+0100")),
        ("{start:%Y-%m}", *windows("day", "2026-04-25")),
    ],
)
def test_a_request_that_two_windows_share_is_refused_when_it_is_planned(
    api: Api, tmp_path: Path, asked: str, window: Window
) -> None:
    """Each would land, and publish, the items of both."""
    with pytest.raises(DefinitionError, match="has the same address for") as told:
        port(api, tmp_path, window=window, at=asked).pin([window])
    assert told.value.code == "SP-D07"
    assert api.requests == []


@pytest.mark.parametrize(
    ("asked", "window"),
    [
        ("{date}", *windows("day", "2026-10-25")),
        ("{date}", *windows("week", "2026-W17")),
        ("{start:%Y-%m-%dT%H%z}", *windows("hour", "2026-10-25T02+0200")),
        ("{start:unix}", *windows("15min", "2026-10-25T02:15+0100")),
    ],
)
def test_a_request_of_its_own_is_taken(
    api: Api, tmp_path: Path, asked: str, window: Window
) -> None:
    """With a note where a day stands for a longer window."""
    made = port(api, tmp_path, window=window, at=asked)
    assert made.pin([window])[window].version is None
    noted = made.remarks(None, {window: made.land(None, window, "a")})[window].notes
    assert ["2026-04-20 alone" in note for note in noted] == [True] * (window.id == "2026-W17")


def test_time_clips_what_windows_share() -> None:
    """A day's listing may serve its hours if the rows are clipped."""
    hour = Window.parse("2026-04-25T10")
    with pytest.raises(DefinitionError, match="same address"):
        refuse_shared_address("x", http("https://x/{date}").asked_for, [hour])
    refuse_shared_address("x", lambda window: 1, [Window.parse("incremental", "incremental")])


def test_the_connection_is_part_of_the_question_and_options_are_not() -> None:
    """A copy of one database does not answer for another; a password is in no record."""

    def asked(origin: Any) -> dict[str, object]:
        return land(origin).request()

    for make in (postgres, jdbc):
        assert asked(make("t", connection="test")) != asked(make("t", connection="prod"))
    secret = jdbc("t", connection="x", options={"password": "hush"})
    assert "hush" not in str(asked(secret))
    assert asked(secret) == asked(jdbc("t", connection="x"))


def test_the_code_of_a_function_of_rows_counts_wherever_it_is() -> None:
    """Landed or not, through a partial or a method; and no other function's."""
    from functools import partial

    def code_of(origin: Any) -> str:
        def job(window: Window, found: Any = source(origin)) -> Any: ...

        return pipeline(every="day", target=delta("out", partition_by="d"))(job).code

    def other(window: Window) -> list[tuple[int]]:
        return [(2,)]

    given = code_of(rows(daily, schema="id int"))
    assert code_of(land(rows(daily, schema="id int"))) == given
    assert code_of(rows(other, schema="id int")) != given
    assert code_of(rows(partial(other), schema="id int")) != code_of(
        rows(partial(daily), schema="id int")
    )


def test_one_landed_input_can_be_refreshed(api: Api, tmp_path: Path) -> None:
    """A refund needs the payments anew, and must not bring today's accounts into April."""
    assert How(refresh="payments").refreshes("payments")
    assert not How(refresh="payments").refreshes("accounts")
    assert How(refresh=EVERY).refreshes("accounts")
    assert not How().refreshes("payments")
    assert How(refresh="payments").reason == "the input payments is landed anew"
