"""What the demo saw, and whether it is what was promised."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

# From these crash points on the commit has landed: the new rows are there, the run does not know.
AFTER_THE_COMMIT = ("committed", "published", "recorded")


@dataclass(frozen=True)
class Moment:
    """The rows of a day in a table, after something happened."""

    kind: Literal["start", "batch", "killed", "done", "again"]
    label: str
    rows: int


@dataclass(frozen=True)
class CrashPoint:
    """One kill at a crash point and the retry after it."""

    point: str
    meaning: str
    killed_by_signal: int | None
    rows_after_crash: int
    rows_after_retry: int
    same_contents: bool
    publishes: int
    retry: str

    def as_data(self) -> dict[str, Any]:
        """The members that --json promises."""
        return {
            "point": self.point,
            "killed_by_signal": self.killed_by_signal,
            "rows_after_crash": self.rows_after_crash,
            "rows_after_retry": self.rows_after_retry,
            "same_contents": self.same_contents,
        }


@dataclass(frozen=True)
class Rerun:
    """Runs with no Java in reach: how they ended, and how a run ended that would need Spark."""

    states: tuple[str, ...]
    control: str

    @property
    def state(self) -> str:
        return self.states[0] if len(set(self.states)) == 1 else "mixed"

    @property
    def jvm_started(self) -> bool:
        """With no Java in reach a run that needs Spark ends with SP-S02; these ended well."""
        return not (self.state == "unchanged" and self.control == "SP-S02")


@dataclass(frozen=True)
class Promise:
    """One figure, what it should be and what it is."""

    what: str
    expected: Any
    found: Any

    @property
    def kept(self) -> bool:
        return bool(self.expected == self.found)


@dataclass(frozen=True)
class Figures:
    """Everything the demo measured; each number was read from a table."""

    append: tuple[Moment, ...]
    setpoint: tuple[Moment, ...]
    append_small: tuple[Moment, ...]
    setpoint_small: tuple[Moment, ...]
    crash_points: tuple[CrashPoint, ...]
    append_killed_by: int | None
    small_killed_by: int | None
    append_duplicates: int
    setpoint_duplicates: int
    equals_source: bool
    other_day_unchanged: bool
    other_day_rows: int
    rerun: Rerun

    def as_data(self) -> dict[str, Any]:
        """The figures under `data` of the JSON envelope."""
        return {
            "append": {"rows": last(self.append)},
            "setpoint": {"rows": last(self.setpoint)},
            "append_small": {"rows": last(self.append_small)},
            "setpoint_small": {"rows": last(self.setpoint_small)},
            "crash_points": [point.as_data() for point in self.crash_points],
            "duplicates": {"append": self.append_duplicates, "setpoint": self.setpoint_duplicates},
            "unrelated_day": {"files_unchanged": self.other_day_unchanged},
            "rerun": {"state": self.rerun.state, "jvm_started": self.rerun.jvm_started},
        }


def promises(figures: Figures, points: Sequence[str]) -> list[Promise]:
    """Every figure against what was promised; the demo fails when one differs."""
    kill = int(signal.SIGKILL)
    found = [
        Promise("the append job was killed by signal", kill, figures.append_killed_by),
        Promise("rows it had appended", 180_000, _killed_at(figures.append)),
        Promise("rows after its retry", 430_000, last(figures.append)),
        Promise("duplicates in the append table", 180_000, figures.append_duplicates),
        Promise("rows through setpoint", 250_000, last(figures.setpoint)),
        Promise("rows after each further run", [250_000] * 3, _again(figures.setpoint)),
        Promise("duplicates through setpoint", 0, figures.setpoint_duplicates),
        Promise("the rows are those of the source", True, figures.equals_source),
        Promise("the small append case", [100, 400, 700], _rows(figures.append_small)),
        Promise("the small case's run was killed by signal", kill, figures.small_killed_by),
        Promise("the small case through setpoint", [100, 100, 300], _rows(figures.setpoint_small)),
        Promise("crash points tried", list(points), [p.point for p in figures.crash_points]),
        Promise("files of the unrelated day unchanged", True, figures.other_day_unchanged),
        Promise("rows of the unrelated day", 20_000, figures.other_day_rows),
        Promise("three more runs", ("unchanged",) * 3, figures.rerun.states),
        Promise("three more runs started a JVM", False, figures.rerun.jvm_started),
    ]
    for point in figures.crash_points:
        landed = 250_000 if point.point in AFTER_THE_COMMIT else 0
        where = f"at {point.point}:"
        found += [
            Promise(f"{where} killed by signal", kill, point.killed_by_signal),
            Promise(f"{where} rows after the crash", landed, point.rows_after_crash),
            Promise(f"{where} rows after the retry", 250_000, point.rows_after_retry),
            Promise(f"{where} same contents as a clean run", True, point.same_contents),
            Promise(f"{where} publishes of the window", 1, point.publishes),
        ]
    return found


def last(moments: Sequence[Moment]) -> int:
    """The rows at the end."""
    return moments[-1].rows


def _killed_at(moments: Sequence[Moment]) -> int | None:
    return next((moment.rows for moment in moments if moment.kind == "killed"), None)


def _rows(moments: Sequence[Moment]) -> list[int]:
    return [moment.rows for moment in moments if moment.kind != "start"]


def _again(moments: Sequence[Moment]) -> list[int]:
    return [moment.rows for moment in moments if moment.kind == "again"]
