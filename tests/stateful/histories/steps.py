"""Histories: a seed decides on a destination, a pattern, a layout and a list of steps."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from random import Random

from histories.jobs import Definition
from histories.model import PATTERNS
from histories.rows import DAYS

KINDS = ("delta", "iceberg", "parquet", "postgres")
CELLS = tuple((kind, pattern) for pattern in PATTERNS for kind in KINDS)

# How often each kind of step is drawn, among those that a history may have.
WEIGHTS = {
    "run": 22,
    "again": 4,
    "force": 5,
    "change": 12,
    "mistake": 9,
    "column": 5,
    "swap": 3,
    "renew": 3,
    "roll_back": 6,
    "forget": 5,
    "lose_ledger": 5,
    "append": 6,
    "delete": 5,
    "update": 4,
    "overwrite": 3,
    "compact": 3,
    "backfill": 5,
    "race": 5,
    "kill": 16,
    "stop": 8,
}


@dataclass(frozen=True)
class Step:
    """One thing that happens. The player makes of the numbers what fits the table."""

    kind: str
    day: dt.date = DAYS[0]
    other: dt.date = DAYS[0]
    number: int = 0
    share: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind} {self.day.day} {self.other.day} {self.number} {self.share:.3f}"


@dataclass(frozen=True)
class History:
    """What is played; fully decided by its seed."""

    seed: int
    definition: Definition
    steps: tuple[Step, ...]

    @property
    def cell(self) -> tuple[str, str]:
        return self.definition.kind, self.definition.pattern

    def random(self, what: str) -> Random:
        """Randomness of this history for one purpose, the same whenever it is played."""
        return Random(f"{self.seed} {what}")


def history_of(seed: int, without: Collection[str] = ()) -> History:
    """The history of a seed; twenty seeds in a row are one for each destination and pattern."""
    random = Random(f"{seed} history")
    kind, pattern = CELLS[seed % len(CELLS)]
    variant = (
        random.choice(["removes", "removes", "complete", "", ""]) if pattern == "merge" else ""
    )
    column = "d" if pattern == "overwrite" or random.random() < 0.6 else None
    definition = Definition(
        kind=kind,
        table="",
        pattern=pattern,
        partitioned=bool(column) and kind != "postgres" and random.random() < 0.6,
        column=column,
        removes=variant == "removes",
        complete=variant == "complete",
    )
    steps: list[Step] = []
    if random.random() < 0.7:
        steps += [replace(_step(random, "run"), day=day) for day in random.sample(DAYS, 3)]
    names = [name for name in WEIGHTS if name not in without]
    length = len(steps) + random.randint(5, 10)
    while len(steps) < length:
        (name,) = random.choices(names, [WEIGHTS[item] for item in names])
        steps += _PHRASES.get(name, _alone)(random, name)
    if random.random() < 0.7:
        steps.insert(random.randint(0, len(steps)), _step(random, "kill"))
    return History(seed, definition, tuple(step for step in steps if step.kind not in without))


def _step(random: Random, kind: str) -> Step:
    return Step(
        kind=kind,
        day=random.choice(DAYS),
        other=random.choice(DAYS),
        number=random.randint(0, 999),
        share=random.random(),
    )


def _alone(random: Random, kind: str) -> list[Step]:
    return [_step(random, kind)]


def _mistaken(random: Random, kind: str) -> list[Step]:
    """A definition is changed, used a little, and changed back."""
    used = [_step(random, random.choice(["run", "run", "force", "kill", "change"]))]
    if random.random() < 0.4:
        used += [_step(random, random.choice(["run", "append", "lose_ledger", "forget"]))]
    after = [_step(random, "run")] if random.random() < 0.7 else []
    return [_step(random, kind), *used, _step(random, "revert"), *after]


def _other_column(random: Random, kind: str) -> list[Step]:
    """As `_mistaken`; often a row of somebody else lies in the slice that a window owns now.

    It was there before the window was last published, so nothing has happened since.
    """
    if random.random() < 0.5:
        return _mistaken(random, kind)
    row, used = _step(random, "append"), _step(random, "run")
    back = [_step(random, "revert")] if random.random() < 0.5 else []
    used = replace(used, day=row.other)
    return [row, used, _step(random, kind), used, *back]


def _forgotten(random: Random, kind: str) -> list[Step]:
    """The table's history goes, and often the ledger's with it."""
    lost = [_step(random, "lose_ledger")] if random.random() < 0.5 else []
    return [_step(random, kind), *lost, _step(random, "run")]


def _rolled_back(random: Random, kind: str) -> list[Step]:
    """Back to an older version, and often another publish and the end of what was before."""
    steps = [_step(random, "run"), _step(random, kind)]
    if random.random() < 0.6:
        steps += [_step(random, "run")]
        steps += [_step(random, random.choice(["forget", "lose_ledger"]))]
    return [*steps, _step(random, "run")]


def _then_run(random: Random, kind: str) -> list[Step]:
    """Something happens, and often a window runs right behind it."""
    return [_step(random, kind), *([_step(random, "run")] if random.random() < 0.6 else [])]


_PHRASES: dict[str, Callable[[Random, str], list[Step]]] = {
    "mistake": _mistaken,
    "column": _other_column,
    "roll_back": _rolled_back,
    "change": _then_run,
    "swap": _then_run,
    "renew": _then_run,
    "forget": _forgotten,
    "append": _then_run,
    "delete": _then_run,
    "update": _then_run,
}
