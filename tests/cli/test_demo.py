"""`setpoint demo` replays the incident for real and is honest about every figure."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import setpoint
from setpoint.demo import tables
from setpoint.demo.figures import CrashPoint, Figures, Moment, Rerun, promises
from setpoint.demo.lake import DAY
from setpoint.demo.page import render

SOURCE = str(Path(setpoint.__file__).parent.parent)


def demo(*words: str, cwd: Path, **surroundings: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own: the suite's session must not help it."""
    return subprocess.run(
        [sys.executable, "-m", "setpoint.cli.main", "demo", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": SOURCE, "NO_COLOR": "1", **surroundings},
        capture_output=True,
        text=True,
        check=False,
    )


def moments(before: int, killed: int, retried: int) -> tuple[Moment, ...]:
    """A timeline with one crash and one retry."""
    return (
        Moment("start", "before", before),
        Moment("killed", "first run, killed", killed),
        Moment("done", "retry", retried),
    )


def as_promised() -> Figures:
    """Figures of a demo in which everything went as promised."""
    point = CrashPoint("staged", "the rows are staged", 9, 0, 250_000, True, 1, "published")
    return Figures(
        append=moments(0, 180_000, 430_000),
        setpoint=(*moments(0, 0, 250_000), *[Moment("again", "run again", 250_000)] * 3),
        append_small=tuple(Moment("done", "", rows) for rows in (100, 400, 700)),
        setpoint_small=tuple(Moment("done", "", rows) for rows in (100, 100, 300)),
        crash_points=(point,),
        append_killed_by=9,
        small_killed_by=9,
        append_duplicates=180_000,
        setpoint_duplicates=0,
        equals_source=True,
        other_day_unchanged=True,
        other_day_rows=20_000,
        rerun=Rerun(("unchanged",) * 3, "SP-S02"),
    )


@pytest.mark.slow
def test_quick_demo_shows_the_incident_and_its_absence(tmp_path: Path) -> None:
    """430,000 appended against 250,000 set, 700 against 300, and all else as promised."""
    folder = tmp_path / "demo"
    ended = demo("--quick", "--json", "--folder", str(folder), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    envelope: dict[str, Any] = json.loads(ended.stdout)
    data = envelope["data"]
    assert (envelope["ok"], envelope["schema"]) == (True, "setpoint.demo/1")
    assert data["append"] == {"rows": 430_000}
    assert data["setpoint"] == {"rows": 250_000}
    assert data["append_small"] == {"rows": 700}
    assert data["setpoint_small"] == {"rows": 300}
    assert data["duplicates"] == {"append": 180_000, "setpoint": 0}
    assert data["crash_points"] == [
        {
            "point": name,
            "killed_by_signal": 9,
            "rows_after_crash": rows,
            "rows_after_retry": 250_000,
            "same_contents": True,
        }
        for name, rows in (("staged", 0), ("committed", 250_000))
    ]
    assert data["unrelated_day"] == {"files_unchanged": True}
    assert data["rerun"] == {"state": "unchanged", "jvm_started": False}
    assert data["broken"] == []

    # The tables that were left say the same.
    appended = tables.parquet_files(folder / "append/orders", DAY)
    assert tables.count(appended) == 430_000
    held = tables.contents(tables.delta_files(folder / "warehouse/orders", DAY))
    assert (held.rows, held.duplicates) == (250_000, 0)

    page = Path(data["page"]).read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    assert "430,000" in page
    assert not re.search(r"https?:|src=|href=|@import|url\(", page)


def test_without_java_nothing_starts(tmp_path: Path) -> None:
    """One clear error, and not even the folder is made."""
    folder = tmp_path / "demo"
    ended = demo("--json", "--folder", str(folder), cwd=tmp_path, JAVA_HOME=str(tmp_path / "none"))
    assert ended.returncode == 2
    assert json.loads(ended.stdout)["error"]["code"] == "SP-S02"
    assert not folder.exists()


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    """The demo never writes into a folder that holds something."""
    (tmp_path / "mine.txt").write_text("mine")
    ended = demo("--folder", str(tmp_path), cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.startswith("SP-C09")
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.txt"]


def test_every_promise_is_kept_by_the_right_figures() -> None:
    """The figures of the incident break no promise."""
    assert [item for item in promises(as_promised(), ["staged"]) if not item.kept] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"append_killed_by": None},
        {"append_duplicates": 0},
        {"setpoint_duplicates": 1},
        {"equals_source": False},
        {"other_day_unchanged": False},
        {"rerun": Rerun(("unchanged", "published", "unchanged"), "SP-S02")},
        {"rerun": Rerun(("unchanged",) * 3, "none")},
        {"setpoint": moments(0, 0, 250_000)},
        {"setpoint": (*moments(0, 0, 250_000), *[Moment("again", "run again", 250_001)] * 3)},
        {"setpoint_small": tuple(Moment("done", "", rows) for rows in (100, 400, 700))},
        {"crash_points": ()},
        {"crash_points": (CrashPoint("staged", "", None, 0, 250_000, True, 1, "published"),)},
        {"crash_points": (CrashPoint("staged", "", 9, 0, 250_000, True, 2, "published"),)},
        {"crash_points": (CrashPoint("staged", "", 9, 0, 250_000, False, 1, "published"),)},
    ],
)
def test_one_wrong_figure_breaks_a_promise(wrong: dict[str, Any]) -> None:
    """Each figure is looked at: changing one alone is noticed."""
    figures = replace(as_promised(), **wrong)
    assert any(not item.kept for item in promises(figures, ["staged"]))


def test_page_names_a_broken_promise(tmp_path: Path) -> None:
    """A page of a demo that went wrong says so, with markup in names taken literally."""
    figures = replace(as_promised(), other_day_unchanged=False)
    checked = promises(figures, ["staged"])
    folder = tmp_path / "<b>"
    page = render(
        figures, checked, surroundings={"Java": "17"}, seconds=1.0, folder=folder, kept=True
    )
    assert "Not as promised: files of the unrelated day unchanged: False" in page
    assert '<li class="no">' in page
    assert "&lt;b&gt;" in page
