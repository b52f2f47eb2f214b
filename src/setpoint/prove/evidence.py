"""What is known when a trial ends in other rows: what was varied, what differs, what code says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from setpoint.lint.findings import Finding as LintFinding
from setpoint.model.determinism import Finding
from setpoint.model.proof import ColumnChange, Difference, Result

# How many lines of lint are told beside a cause.
_NOTES = 6

# What proofs themselves call a cause, in one word. A cause that the plan's check or lint has found
# has the word that it has there; an experiment that ended with an error has that of the error.
CAUSES: dict[str, str] = {
    "appended": "the table grew by what a run writes",
    "attempt-left-behind": "the rows of an attempt that was ended are there beside the retry's",
    "both-wrote": "two runs at once left the rows of both",
    "delete-without-insert": "something was committed before the rows were",
    "mark-without-rows": "a mark was saved before the rows",
    "mark-skips-rows": "a retry went on from a mark that says more than what was committed",
    "split-state": "a mark and the rows are changed one after the other",
    "second-run-lost-rows": "a second run left fewer rows",
    "lost-rows": "a window took rows of another one away",
    "null-key": "rows with a null in their key came again",
    "drawn-rows": "every run takes other rows",
    "wiped-neighbours": "rows of other windows are gone",
    "touched-neighbours": "rows of other windows changed",
    "shared-key": "rows of two windows have one key",
    "columns": "the columns are not the same",
    "clock": "it is the time of the run",
    "random": "it is drawn anew",
    "serial": "a counter or a sequence went on",
    "generated_id": "it numbers rows by where they lie",
    "ties": "a rank over rows that tie",
    "pick": "nothing says which of several rows is taken",
    "unordered": "the same members in another order",
    "float": "a sum of floating point numbers in another order",
    "added-up": "a second run adds to the value that is there",
    "added-again": "a run that was repeated added more than once",
    "do-nothing": "the first row of a key stays, also when a later one differs",
    "order": "it depends on the windows that ran before",
    "chunk": "it is another one when several windows are computed at once",
    "time_zone": "it depends on the time zone of the process",
    "locale": "it depends on the locale of the process",
    "hash_seed": "it depends on the hash seed of Python",
    "environment": "it depends on environment variables, or on several things around the process",
    "surroundings": "it depends on one other thing around the process",
    "writes": "the function writes by itself",
    "reads-itself": "the function reads its own target past its sources",
    "fails-again": "a command cannot be run again after what it did before",
    "fails-together": "a command cannot be run after two runs at once",
    "fails-elsewhere": "a command needs its surroundings as they are",
    "hangs": "a command does not end",
    "outside": "the code reads something that is not an input",
    "unknown": "what was seen points to no one cause",
}


@dataclass(frozen=True)
class Varied:
    """What was done otherwise than in the clean run; several at once are possible."""

    again: int = 0
    """How many more times the same was run."""
    killed: str = ""
    """Where an attempt was ended, in words that follow "at"."""
    retried: bool = True
    """Whether the run was made again after that."""
    together: bool = False
    """Two processes ran at the same time."""
    parallelism: str = ""
    """Other partitions or another order of rows, in words."""
    order: str = ""
    """Windows in another order, in words."""
    chunk: bool = False
    """Several windows in one chunk."""
    clock: timedelta | None = None
    time_zone: str = ""
    locale: str = ""
    hash_seed: str = ""
    environment: tuple[str, ...] = ()
    """Names of environment variables that had another value."""


@dataclass(frozen=True)
class Evidence:
    """Everything a cause may be told from; what is not known stays empty."""

    varied: Varied
    difference: Difference
    findings: tuple[Finding, ...] = ()
    """What the determinism check says about the plan."""
    lint: tuple[LintFinding, ...] = ()
    """What lint says about the script, for commands."""
    batch: int | None = None
    """How many rows one clean run writes."""
    left: int | None = None
    """How many rows the killed attempt had left behind in the table."""
    outside: bool = False
    """Whether the difference is about rows outside the window."""
    beyond: bool = False
    """Whether it is about all of these, and the windows that were run before are untouched."""
    clocks: tuple[datetime, datetime] | None = None
    """What the clock said in the clean run and in the other one."""

    @property
    def growth(self) -> int:
        return self.difference.rows_found - self.difference.rows_expected

    def lines_of(self, *kinds: str) -> tuple[LintFinding, ...]:
        """Lint's findings of some kinds."""
        return tuple(item for item in self.lint if item.kind in kinds)

    def planned(self, column: str, kinds: Iterable[str] = ()) -> Finding | None:
        """The plan's finding about a column, of some kinds or of any."""
        wanted = set(kinds)
        for item in self.findings:
            if item.column == column and (not wanted or item.kind in wanted):
                return item
        return None


@dataclass(frozen=True)
class Cause:
    """The likely reason in words, the repair, and what in plan or code points the same way.

    `kind` is one of `CAUSES`, or the kind of a finding in the plan or of lint.
    """

    kind: str
    cause: str
    repair: str = ""
    findings: tuple[Finding, ...] = ()
    lint: tuple[LintFinding, ...] = field(default=(), compare=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines of code that lint points at, for people."""
        lines = [f"{item.path}:{item.line}  {item.kind}: {item.message}" for item in self.lint]
        rest = len(lines) - _NOTES
        return (*lines[:_NOTES], *([f"{rest} more findings of lint"] if rest > 0 else []))

    def told_in(self, result: Result) -> Result:
        """The result with its cause."""
        detail = {**result.detail, "cause": self.kind}
        if self.notes:
            detail["notes"] = list(self.notes)
        return replace(
            result,
            cause=self.cause,
            repair=self.repair,
            findings=self.findings or result.findings,
            detail=detail,
        )


def pairs_of(change: ColumnChange, difference: Difference) -> tuple[tuple[str, str], ...]:
    """Values of a column on both sides: of matched rows, or else of rows that nothing matches."""
    if change.examples:
        return change.examples
    one = [row.expected[change.name] for row in difference.examples if row.expected]
    two = [row.found[change.name] for row in difference.examples if row.found]
    return tuple(zip(one, two, strict=False))


def lint_of(command: Sequence[str], folder: Path) -> tuple[LintFinding, ...]:
    """Lint's findings of the scripts that the words of a command name; its errors only."""
    from setpoint.lint.document import SUFFIXES
    from setpoint.lint.run import lint
    from setpoint.lint.settings import Settings

    files = [folder / word for word in command if word.endswith(SUFFIXES)]
    found = lint([file for file in files if file.is_file()], Settings())
    return tuple(found.errors)
