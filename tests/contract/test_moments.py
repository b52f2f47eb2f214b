"""Moments of real commands: found by watching what they write, and hit by a kill."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from grounds import ground
from setpoint import edge
from setpoint.prove.command.attempts import is_hit, killed
from setpoint.prove.command.files import FilePlace, FolderTable
from setpoint.prove.command.ground import Clean
from setpoint.prove.command.moments import Moment, Observed, watch
from setpoint.prove.command.places import Sight


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
