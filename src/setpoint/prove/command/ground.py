"""The common ground of all trials: run the command, bring the state back, compare the tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint.errors import shortened
from setpoint.model.proof import Difference, Result
from setpoint.prove.causes import Evidence, Varied, explain, lint_of
from setpoint.prove.command.kept import Kept, remember
from setpoint.prove.command.moments import Moment, Observed, watch
from setpoint.prove.command.places import Place, Question, Table, name_of_commands
from setpoint.prove.command.words import Command
from setpoint.prove.processes import LIMIT, Ended, Process, start

if TYPE_CHECKING:
    from setpoint.spark.session import Sessions


_LOOK = 0.02


@dataclass(frozen=True)
class Clean:
    """One clean run: what was seen of it, when, and how many rows it left and brought."""

    seen: Observed
    at: datetime
    rows: Mapping[str, int]
    brought: Mapping[str, int]
    notes: tuple[str, ...] = ()
    """What it did not do, and about which nothing is proven."""


@dataclass(frozen=True)
class Other:
    """How a table differs from the state after one clean run."""

    table: Table
    difference: Difference


@dataclass(frozen=True)
class Blame:
    """Why a run fails that succeeds by itself, as far as what was done to it tells."""

    kind: str
    cause: str
    repair: str


AFTER_ANOTHER = Blame(
    "fails-again",
    "The command cannot be run again after what it did before.",
    "Let a run replace what an earlier one has left, in one commit.",
)
TOGETHER = Blame(
    "fails-together",
    "Two runs at once leave something after which the command cannot be run.",
    "Let one run wait for the other, or let both write in one commit.",
)
ELSEWHERE = Blame(
    "fails-elsewhere",
    "The command needs its surroundings as they are.",
    "Make what it needs an option of the command, or a variable that it is given by --env.",
)
HANGING = Blame(
    "hangs",
    "The command waits for something that does not come, or takes far longer than it did alone.",
    "Look for a lock that an earlier run holds or has left, and let a wait have a limit.",
)


@dataclass
class Ground:
    """A command, the places it writes, and what is needed to try things with it."""

    command: Command
    tables: Sequence[Table]
    places: Sequence[Place]
    kept: Kept
    folder: Path
    here: Path
    sessions: Sessions
    environment: Mapping[str, str]
    now: Callable[[], datetime]
    tell: Callable[[str], None]
    key: tuple[str, ...] = ()
    held: bool = field(default=True, init=False)
    """Whether writers are held between two commits, where a place can do that."""
    runs: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        # Read before anything runs: a command may change its own files.
        words = self.command.filled(self.addresses, self.command.window)
        self.lint = lint_of(words, self.here)

    @property
    def addresses(self) -> dict[str, str]:
        return {place.name: place.address for place in self.places}

    def seconds(self) -> float:
        return self.now().timestamp()

    def start(
        self, environment: Mapping[str, str] | None = None, window: str | None = None
    ) -> Process:
        """Start the command; its words go to files of their own."""
        self.runs += 1
        chosen = self.command.window if window is None else window
        named = {**self.environment, "PGAPPNAME": name_of_commands()}
        around = self.command.environment(named, self.addresses, chosen)
        process = start(
            self.command.filled(self.addresses, chosen),
            {**around, **(environment or {})},
            self.here,
            self.folder / "logs",
            "command",
        )
        remember(self.folder, process.pid)
        return process

    def run(
        self,
        environment: Mapping[str, str] | None = None,
        window: str | None = None,
        look: Callable[[Iterable[int]], None] | None = None,
    ) -> Ended:
        """Run the command to its end; `look` is called with its processes again and again."""
        with self.start(environment, window) as process:
            until = self.seconds() + LIMIT
            while look is not None and process.running and self.seconds() < until:
                look(process.members())
                time.sleep(_LOOK)
            return process.wait(max(until - self.seconds(), 0))

    def watched(
        self, until: Moment | None = None, usual: Observed | None = None
    ) -> tuple[Ended, Observed]:
        """Run the command under watch, to its end or to the moment at which it is killed."""
        process, seen = watch(
            self.start, self.places, self.seconds, until=until, usual=usual, held=self.held
        )
        with process:
            return process.wait(), seen

    def kept_as(self, state: str, table: Table) -> Path:
        return self.folder / state / table.name

    def keep_tables(self, state: str) -> None:
        """Keep the tables as they are now, to compare with later."""
        for table in self.tables:
            table.remember(self.kept_as(state, table))

    def rows_in(self, state: str) -> dict[str, int]:
        return {
            table.name: table.rows(self.kept_as(state, table), self.sessions)
            for table in self.tables
        }

    def others(self) -> list[Other]:
        """The tables that are not what one clean run leaves."""
        question = Question(self.key)
        return self.others_of("expected", {table.name: question for table in self.tables})

    def others_of(self, state: str, asked: Mapping[str, Question]) -> list[Other]:
        """The tables that are not what they were, each as far as it is asked about."""
        found = []
        for table in self.tables:
            if (question := asked.get(table.name)) is None:
                continue
            told = table.difference(self.kept_as(state, table), question, self.sessions)
            if told is not None:
                found.append(Other(table, told))
        return found

    def judged(
        self,
        experiment: str,
        passed: str,
        varied: Varied,
        *,
        clean: Clean,
        others: Sequence[Other] | None = None,
        prefix: str = "",
        detail: Mapping[str, Any] | None = None,
        known: Set[str] = frozenset(),
        **evidence: Any,
    ) -> Result:
        """A result from the tables as they are now: the same, or how they differ and why.

        `known` are columns that differ anyway: what was varied is not their cause.
        """
        found = self.others() if others is None else others
        told = dict(detail or {})
        if not found:
            return Result(experiment, "passed", passed, detail=told)
        first = found[0]
        if len(found) > 1:
            told["tables"] = [other.table.name for other in found]
        result = Result(
            experiment,
            "failed",
            f"{prefix}{first.table.name}: {first.difference.summary}.",
            table=first.table.name,
            difference=first.difference,
            detail=told,
        )
        columns = tuple(item for item in first.difference.columns if item.name not in known)
        seen = Evidence(
            varied,
            replace(first.difference, columns=columns),
            lint=self.lint,
            batch=clean.brought.get(first.table.name),
            clocks=(clean.at, self.now()),
            **evidence,
        )
        return explain(seen).told_in(result)

    def failing(
        self,
        experiment: str,
        which: str,
        ended: Ended,
        *,
        why: Blame = AFTER_ANOTHER,
        detail: Mapping[str, Any] | None = None,
    ) -> Result:
        """A result for a run that ended badly after one that ended well."""
        why = HANGING if ended.hung else why
        how = "does not end" if ended.hung else f"fails with exit code {ended.code}"
        if ended.signal and not ended.hung:
            how = f"ends by signal {ended.signal}"
        words = ended.last_words(8)
        last = words.splitlines()[-1] if words else "it says nothing"
        return Result(
            experiment,
            "failed",
            f"{which} {how}: {shortened(last, 200)}",
            cause=why.cause,
            repair=why.repair,
            detail={"cause": why.kind, "output": words, **(detail or {})},
        )
