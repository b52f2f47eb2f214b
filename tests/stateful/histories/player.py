"""What a history has so far: the table, the model of it, and what was seen."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from histories import model
from histories.jobs import Bench, Definition
from histories.model import CONTRADICTION, Ending, State
from histories.places.place import Place
from histories.rows import Facts, Row
from histories.steps import History
from histories.writers import Writer, Writers
from setpoint.errors import SetpointError

Change = Callable[[State], list[Ending]]


class Wrong(AssertionError):
    """The table, or what a run says, is not what the model allows."""


class Skipped(Exception):
    """The step does not fit the table as it is."""


@dataclass(frozen=True)
class Answer:
    """What a run said: `done`, `unchanged`, `superseded`, `refused` or `failed`."""

    says: str
    detail: str = ""

    @classmethod
    def of(cls, state: str, reason: str, code: str = "") -> Answer:
        if state == "unchanged" and reason.startswith("superseded"):
            return cls("superseded", reason)
        if code == CONTRADICTION:
            return cls("refused", reason)
        return cls({"published": "done", "unchanged": "unchanged"}.get(state, "failed"), reason)

    def agrees(self, ending: Ending) -> bool:
        """Whether a run that ended so would have said this."""
        return ending.says == ("done" if self.says == "unchanged" else self.says)


@dataclass
class Player:
    """One history while it is played."""

    history: History
    place: Place
    bench: Bench
    facts: Facts
    writers: Writers
    root: str
    definition: Definition
    states: list[State] = field(default_factory=lambda: [State()])
    marks: list[tuple[Any, list[State]]] = field(default_factory=list)
    backups: list[tuple[Row, ...]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 2.0  # what the quickest run took that published something
    foreign: set[str] = field(default_factory=set)

    def runs(self, day: dt.date, *, force: bool = False, beside: bool = False) -> Change:
        """What a run of a window may do to a state, by the facts and the definition of now.

        One that is forced while others run `beside` it may find that a newer window came first.
        """
        meaning = self.definition.meaning
        batch = self.facts.batch(day, meaning.reads)

        def change(state: State) -> list[Ending]:
            usual = model.run(meaning, state, day, batch, force=force)
            overtaken = model.run(meaning, state, day, batch) if beside else []
            return [*usual, *(ending for ending in overtaken if ending not in usual)]

        return change

    def run(self, day: dt.date, *, force: bool = False) -> Answer:
        """Run a window and check that the table holds what one clean run gives."""
        self.skip_unless_keys_are_unique()
        change = self.runs(day, force=force)
        began = time.monotonic()
        answer = answer_of(lambda: self.bench.run(self.definition, day, force=force))
        if answer.says == "done":
            self.seconds = min(self.seconds, time.monotonic() - began)
        self.note(f"{answer.says} ({answer.detail})")
        self.check(after(self.states, [(change, answer)]), f"run of {day}: {answer}")
        return answer

    def check(self, possible: Sequence[State], what: str) -> None:
        """Keep those of the possible states that the table can be in; none left is a failure."""
        rows = self.place.rows()
        self.states = list(dict.fromkeys(state for state in possible if state.rows == rows))
        if not self.states:
            raise Wrong(f"{what}\n{_difference(rows, possible)}")

    def mark(self) -> None:
        """Remember what the version of now holds, for a later return to it."""
        version = self.place.version()
        if version is not None and (not self.marks or self.marks[-1][0] != version):
            self.marks.append((version, self.states))

    def note(self, text: str) -> None:
        self.log[-1] += f" | {text}"

    def order(self, writer: Writer, day: dt.date, *, force: bool = False) -> None:
        """Have a writer run a window."""
        writer.send(
            root=self.root,
            connections=self.place.connections,
            definition=self.definition.as_dict(),
            day=day.isoformat(),
            force=force,
        )

    def skip_unless_keys_are_unique(self) -> None:
        """A write that goes by key is not defined where others have doubled a key."""
        keyed = self.definition.pattern in model.KEYED
        if keyed and not all(map(model.has_unique_keys, self.states)):
            raise Skipped


def after(states: Iterable[State], changes: Sequence[tuple[Change, Answer | None]]) -> list[State]:
    """The states after some runs in this order; None for a run that was not heard of any more."""
    found = list(dict.fromkeys(states))
    for change, answer in changes:
        if answer is not None and answer.says == "failed":
            continue
        found = [
            ending.state
            for state in found
            for ending in change(state)
            if answer is None or answer.agrees(ending)
        ]
    return list(dict.fromkeys(found))


def answer_of(run: Callable[[], Any]) -> Answer:
    """What a run in this process says; only an error that the model knows is an answer."""
    try:
        outcome = run()
    except SetpointError as error:
        if error.code == CONTRADICTION:
            return Answer("refused", error.what)
        raise Wrong(f"an error that nothing explains: {error}") from error
    return Answer.of(outcome.state, outcome.reason)


def _difference(rows: Sequence[Row], possible: Sequence[State]) -> str:
    lines = [f"  the table holds  {_text(rows)}"]
    lines += [f"  it may hold      {_text(state.rows)}" for state in possible[:4]]
    return "\n".join(lines if possible else [*lines, "  no way to end so is possible"])


def _text(rows: Iterable[Row]) -> str:
    return " ".join(f"{r.id}:{r.v}/{r.w}@{r.seq}[{r.d.day},{r.e.day}]" for r in rows) or "nothing"
