"""Commands that fail or hang: what is told about them, and that nobody waits for ever."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from grounds import ground
from setpoint import edge
from setpoint.errors import PermanentError
from setpoint.prove.clock import HOW_TO_GET_IT
from setpoint.prove.command import elsewhere
from setpoint.prove.command.attempts import is_hit, parted
from setpoint.prove.command.ground import Clean
from setpoint.prove.command.moments import Moment, Observed, watch
from setpoint.prove.command.prove import clean_run
from setpoint.prove.processes import Ended

SEEN = Observed((), beneath=False, seconds=0.1, first=0.1)


def clean() -> Clean:
    return Clean(SEEN, edge.utc_now(), {}, {})


def test_a_command_that_hangs_is_ended_under_watch(tmp_path: Path) -> None:
    """The limit holds for runs that are watched too, and it is told that it hung."""
    process, seen = watch(ground("sleep 600", tmp_path).start, [], time.time, limit=0.2)
    assert process.wait().hung
    assert seen.seconds < 60


def test_a_clean_run_that_fails_says_how_to_run_it_by_hand(tmp_path: Path) -> None:
    """On the table that the user named: a copy is gone by then. Values may be secret."""
    tried = ground("sh -c 'exit 3' job {orders} {window}", tmp_path, "PASSWORD=secret")
    with pytest.raises(PermanentError) as raised:
        clean_run(tried, {"orders": "lake/orders"})
    error = raised.value
    assert error.next == (
        "Run it by hand with PASSWORD set: sh -c 'exit 3' job lake/orders 2026-04-25"
    )
    assert error.why == "Nothing can be proven before it works. It said nothing."


def test_a_failure_elsewhere_is_not_blamed_on_a_run_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state was brought back: only the surroundings differ. What it said is told."""
    monkeypatch.setattr(elsewhere, "find_clock", lambda environment: None)
    tried = ground("""sh -c 'test -z "$TZ" || { echo no USER >&2; exit 1; }'""", tmp_path)
    result = elsewhere.surroundings(tried, clean())
    assert (result.state, result.detail["cause"]) == ("failed", "fails-elsewhere")
    assert result.detail["factor"] == "time zone"
    assert result.detail["output"] == "no USER"
    assert "surroundings" in result.cause
    assert "option of the command" in result.repair


def test_a_clock_that_was_not_varied_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "find_clock", lambda environment: None)
    result = elsewhere.surroundings(ground("true", tmp_path), clean())
    assert result.state == "passed"
    assert result.message.endswith(f"; {HOW_TO_GET_IT}")


def test_a_retry_that_fails_and_one_that_hangs_have_other_causes(tmp_path: Path) -> None:
    tried = ground("true", tmp_path)
    file = tmp_path / "words"
    file.write_text("waiting for the lock\n")
    again = tried.failing("twice", "the second run", Ended(1, file, file))
    assert again.detail["cause"] == "fails-again"
    hung = tried.failing("twice", "the second run", Ended(-9, file, file, killed=True, hung=True))
    assert hung.detail["cause"] == "hangs"
    assert hung.message == "the second run does not end: waiting for the lock"


@pytest.mark.parametrize(
    ("changes", "number", "later"),
    [
        (("mark", "sales"), 1, "sales"),
        (("mark", "mark", "sales"), 1, "sales"),  # made, then filled
        (("mark", "mark", "sales"), 2, "sales"),
        (("sales", "sales", "mark"), 1, None),  # two commits of one table
        (("sales", "sales", "mark"), 2, "mark"),
        (("mark", "mark"), 1, None),
        (("sales",), 1, None),
    ],
)
def test_a_kill_between_two_places_is_told_as_one(
    changes: tuple[str, ...], number: int, later: str | None
) -> None:
    """However many times a look came while a file was written."""
    seen = Observed(changes, beneath=False, seconds=1, first=0.5)
    moment = Moment("after", number, len(changes), changes[number - 1])
    assert parted(seen, moment, tables={"sales"}) == later


@pytest.mark.parametrize(
    ("changes", "hit"),
    [
        (("mark", "mark"), True),
        (("mark",), True),
        (("mark", "sales"), False),  # the mark was seen once: this is after the rows
        (("mark", "mark", "sales"), False),
    ],
)
def test_a_kill_after_the_next_place_changed_is_no_hit(changes: tuple[str, ...], hit: bool) -> None:
    seen = Observed(changes, beneath=False, seconds=1, first=0.5, killed=True)
    assert is_hit(seen, Moment("after", 2, 3, "mark")) is hit
