"""Proofs: what was tried on a pipeline, what came out, and why it differs if it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from setpoint.model.determinism import Finding

# `skipped` says why it could not be tried: a proof with a skipped experiment tells so.
State = Literal["passed", "failed", "skipped"]
Verdict = Literal["proven", "proven, not watched", "not proven", "not finished"]


NULL = "NULL"
_SHOWN = 60
_COLUMNS = 3


def shown(text: str | None, start: int = 0) -> str:
    """A value for a line of a diff; a null and the text NULL look different."""
    if text is None:
        return NULL
    if text == NULL:
        return f"'{NULL}'"
    head = "…" if start else ""
    tail = "…" if len(text) > start + _SHOWN else ""
    return f"{head}{text[start : start + _SHOWN]}{tail}"


def shown_apart(one: str | None, two: str | None) -> tuple[str, str]:
    """Two values of one column, cut so that the first thing in which they differ is seen."""
    if one is None or two is None:
        return shown(one), shown(two)
    both = enumerate(zip(one, two, strict=False))
    apart = next((i for i, (a, b) in both if a != b), min(len(one), len(two)))
    start = apart - _SHOWN // 3 if apart >= _SHOWN else 0
    return shown(one, start), shown(two, start)


def schema_changes(expected: Mapping[str, str], found: Mapping[str, str]) -> tuple[str, ...]:
    """What is different about columns, in words; each side gives its columns with their types."""
    told = []
    for name, kind in expected.items():
        if name not in found:
            told.append(f"column {name} ({kind}) is missing")
        elif found[name] != kind:
            told.append(f"column {name} is {found[name]} instead of {kind}")
    new = (name for name in found if name not in expected)
    return (*told, *(f"column {name} ({found[name]}) was added" for name in new))


@dataclass(frozen=True)
class ColumnChange:
    """A column whose values are not the same on both sides.

    `rows` counts the rows that were matched and differ in it; None when rows could not be
    matched. `examples` are pairs of values, as text, of one row each.
    """

    name: str
    kind: str
    rows: int | None = None
    examples: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class RowChange:
    """One row of the small diff; a side is None when the row is missing there.

    The sides leave out the key; of a row that is on both sides they hold what changed.
    """

    key: Mapping[str, str]
    expected: Mapping[str, str] | None
    found: Mapping[str, str] | None


@dataclass(frozen=True)
class Difference:
    """How two sets of rows differ; exact, whatever the order of the rows.

    `missing` and `added` count rows by their whole content, duplicates included. `key` are the
    columns by which rows of both sides were matched; empty when no columns are unique on both.
    """

    rows_expected: int
    rows_found: int
    missing: int
    added: int
    key: tuple[str, ...] = ()
    matched: int = 0
    """Rows that are on both sides by their key."""
    columns: tuple[ColumnChange, ...] = ()
    examples: tuple[RowChange, ...] = ()
    schema: tuple[str, ...] = ()
    """Columns that are on one side only or have another type, in words."""
    repeated: int = 0
    """Rows that are found more often than expected, with the same content."""

    @property
    def is_empty(self) -> bool:
        return not (self.missing or self.added or self.schema)

    @property
    def summary(self) -> str:
        """What differs, in one line; the one sentence for it wherever people are told."""
        told = []
        if self.rows_expected != self.rows_found:
            grown = self.rows_found - self.rows_expected
            told.append(f"{self.rows_found:,} rows instead of {self.rows_expected:,} ({grown:+,})")
        told += [self.share(column) for column in self.columns[:_COLUMNS]]
        if self.schema:
            told.append(f"other columns: {'; '.join(self.schema)}")
        if not told:
            repeated = f", {self.repeated:,} of them repeated" if self.repeated else ""
            told.append(f"{self.missing:,} rows are missing and {self.added:,} are new{repeated}")
        return ", ".join(told)

    def share(self, column: ColumnChange) -> str:
        """A column, and in how many rows it differs."""
        rows = "" if column.rows is None else f" in {column.rows:,} of {self.matched:,} rows"
        return f"`{column.name}` differs{rows}"


@dataclass(frozen=True)
class Result:
    """What one experiment has shown.

    `message` is one sentence. `cause` says in words what is the likely reason of a failure, and
    `repair` what to write instead; `findings` are what the plan says about it.
    """

    experiment: str
    state: State
    message: str
    table: str = ""
    difference: Difference | None = None
    cause: str = ""
    repair: str = ""
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Proof:
    """All that was tried on one pipeline, or on one command, for one window."""

    subject: str
    window: str
    results: tuple[Result, ...]
    code: str
    """The fingerprint of what was proven; of a command, that of its words."""
    experiments: Literal["quick", "full", "chosen"]
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What every input was pinned to."""
    sample: str = ""
    rows: int = 0
    began: datetime | None = None
    seconds: float = 0.0
    version: str = ""
    """The version of setpoint."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The versions of what else took part, such as Spark."""
    notes: tuple[str, ...] = ()
    """What was not as in production, and what took no part, in words."""
    unwatched: tuple[str, ...] = ()
    """What the trials may have done without anybody seeing it, in words."""
    untried: tuple[str, ...] = ()
    """The experiments that it did not come to, because it was ended before."""

    @property
    def proven(self) -> bool:
        """Whether something was tried, all that was asked for, and everything came out the same."""
        tried = [result for result in self.results if result.state != "skipped"]
        same = all(result.state == "passed" for result in tried)
        return bool(tried) and same and not self.untried

    @property
    def verdict(self) -> Verdict:
        """The answer: only what was watched while everything came out the same is proven."""
        if self.proven:
            return "proven, not watched" if self.unwatched else "proven"
        return "not finished" if self.untried and not self.failures else "not proven"

    @property
    def failures(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.state == "failed")
