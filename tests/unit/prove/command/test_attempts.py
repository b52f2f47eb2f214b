"""Commands that fail or hang: what is told about them, and that nobody waits for ever."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from setpoint import edge
from setpoint.errors import PermanentError
from setpoint.prove.clock import HOW_TO_GET_IT
from setpoint.prove.command import elsewhere
from setpoint.prove.command.attempts import is_hit, killed, parted
from setpoint.prove.command.files import FilePlace, FolderTable
from setpoint.prove.command.ground import Clean, Ground
from setpoint.prove.command.kept import Kept
from setpoint.prove.command.moments import Moment, Observed, watch
from setpoint.prove.command.places import Sight
from setpoint.prove.command.prove import clean_run
from setpoint.prove.command.words import Command
from setpoint.prove.processes import Ended

SEEN = Observed((), beneath=False, seconds=0.1, first=0.1)


def ground(text: str, here: Path, *variables: str) -> Ground:
    """A real command without tables."""
    command = Command.of(text, "2026-04-25", variables)
    no_sessions: Any = None
    return Ground(
        command=command,
        tables=[],
        places=[],
        kept=Kept(here, ()),
        folder=here,
        here=here,
        sessions=no_sessions,
        environment={"PATH": "/usr/bin:/bin"},
        now=edge.utc_now,
        tell=lambda message: None,
    )


def clean() -> Clean:
    return Clean(SEEN, edge.utc_now(), {}, {})


def test_a_command_that_hangs_is_ended_under_watch(tmp_path: Path) -> None:
    """The limit holds for runs that are watched too, and it is told that it hung."""
    process, seen = watch(ground("sleep 600", tmp_path).start, [], time.time, limit=0.2)
    assert process.wait().hung
    assert seen.seconds < 60


def watched(
    here: Path, script: str, until: Moment | None = None, usual: Observed | None = None
) -> Observed:
    """A command that writes `mark`, `rows` and files of the folder `state`, from the beginning."""
    places = [FilePlace(name, here / name) for name in ("mark", "rows", "state")]
    (here / "mark").unlink(missing_ok=True)
    (here / "rows").unlink(missing_ok=True)
    shutil.rmtree(here / "state", ignore_errors=True)
    (here / "state").mkdir()
    (here / "state" / ".gitkeep").touch()
    (here / "job.sh").write_text(script)
    return watch(ground("sh job.sh", here).start, places, time.time, until=until, usual=usual)[1]


def left_after(here: Path, script: str, number: int) -> list[str]:
    """The files that hold something, or are flags, when the command is killed at a change."""
    seen = watched(here, script)
    moment = Moment("after", number, len(seen.changes), seen.changes[number - 1])
    killed = watched(here, script, moment, seen)
    assert killed.killed
    assert is_hit(killed, moment)
    files = [path for path in (here / "mark", here / "rows") if path.exists()]
    files += (here / "state").iterdir()
    return sorted(f"{path.name} {path.read_text().strip()}".strip() for path in files)


FILLED = "> mark; sleep 0.03; echo day > mark; sleep 0.5; echo rows > rows; sleep 0.1"


def test_a_file_that_is_made_and_filled_changes_once(tmp_path: Path) -> None:
    """Or a kill between the two would come by luck, and leave a mark that says nothing."""
    assert watched(tmp_path, FILLED).changes == ("mark", "rows")
    assert left_after(tmp_path, FILLED, 1) == [".gitkeep", "mark day"]


@pytest.mark.parametrize(
    ("script", "changes", "number", "left"),
    [
        # A flag: the next run is killed as soon as it is there.
        ("> mark; sleep 0.5; echo 1 > rows; sleep 0.1", ("mark", "rows"), 1, ["mark"]),
        # Two of them, in the order in which they came.
        ("> rows; sleep 0.5; > mark; sleep 0.1", ("rows", "mark"), 1, ["rows"]),
        # One whose time is what it says.
        (
            "touch -d 2020-01-01 state/.gitkeep; sleep 0.5; echo 1 > rows; sleep 0.1",
            ("state", "rows"),
            1,
            [],
        ),
        # A file that stays empty for long, as one that somebody opens first and writes last.
        (
            "> mark; sleep 1; echo day > mark; sleep 0.5; echo 1 > rows; sleep 0.1",
            ("mark", "mark", "rows"),
            1,
            ["mark"],
        ),
        # An empty file of a folder does not make those beside it one change.
        (
            "echo 1 > state/a; sleep 0.5; echo 1 > state/b; sleep 0.5; echo 1 > rows; sleep 0.1",
            ("state", "state", "rows"),
            2,
            ["a 1", "b 1"],
        ),
    ],
    ids=["flag", "two flags", "touched", "long", "folder"],
)
def test_an_empty_file_that_is_not_about_to_be_filled_counts(
    tmp_path: Path, script: str, changes: tuple[str, ...], number: int, left: list[str]
) -> None:
    assert watched(tmp_path, script).changes == changes
    assert left_after(tmp_path, script, number) == [".gitkeep", *left]


def test_a_commit_that_has_not_its_name_yet_is_nothing_to_see(tmp_path: Path) -> None:
    """Writers of Delta fill a file beside the log's last one, and then give it its name."""
    log = "t/_delta_log/00000000000000000001.json"
    script = f"echo 1 > {log}#1; sleep 0.5; ln {log}#1 {log}; rm {log}#1; sleep 0.5"
    (tmp_path / "t/_delta_log").mkdir(parents=True)
    (tmp_path / "job.sh").write_text(script)
    table = FolderTable("t", tmp_path / "t", "delta")

    def run(until: Moment | None = None) -> Observed:
        return watch(ground("sh job.sh", tmp_path).start, [table], time.time, until=until)[1]

    seen = run()
    assert (seen.changes, seen.beneath) == (("t",), True)
    (tmp_path / log).unlink()
    assert run(Moment("after", 1, 1, "t")).killed
    assert (tmp_path / log).exists()


@dataclass(frozen=True)
class SlowlySeen(FilePlace):
    """A file that the watcher comes back to only when a fast command is over."""

    def _sight(self) -> Sight:
        sight = super()._sight()
        time.sleep(0.1)
        return sight


def test_a_command_that_is_over_before_the_kill_is_run_again_all_the_same(tmp_path: Path) -> None:
    """After its last change there is nothing more to lose: a kill leaves what its end leaves."""
    (tmp_path / "job.sh").write_text("sleep 0.02; echo 1 >> rows")
    tried = ground("sh job.sh", tmp_path)
    tried.places = [SlowlySeen("rows", tmp_path / "rows")]
    ended, seen = tried.watched()
    assert (ended.code, seen.changes) == (0, ("rows",))
    result = killed(tried, Clean(seen, edge.utc_now(), {}, {}), few=False)
    over = {"moment": "right after its end, before anybody knew of it", "outcome": "same"}
    assert result.detail["moments"][-1] == over
    # That alone is no kill: whether there was one is told apart.
    hits = [item for item in result.detail["moments"] if item["outcome"] == "same"]
    assert result.state == ("passed" if len(hits) > 1 else "skipped")
    assert result.state == "skipped" or "over before it could be killed" in result.message


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
