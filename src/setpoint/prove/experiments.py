"""The experiments by name: what each does, and to which set it belongs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from setpoint.errors import NOTHING_STARTED, UsageError, some_of

Subject = Literal["pipeline", "command"]


@dataclass(frozen=True)
class Experiment:
    """One way in which production treats pipelines."""

    name: str
    what: str
    """What is done, in one sentence."""
    why: str
    """When it happens to people."""
    quick: bool = False
    apart: bool = False
    """Whether it needs processes of its own, each with a Spark of its own."""
    subjects: tuple[Subject, ...] = ("pipeline", "command")


_PIPELINE: tuple[Subject, ...] = ("pipeline",)

EXPERIMENTS: dict[str, Experiment] = {
    item.name: item
    for item in (
        Experiment(
            "writes",
            "watch the function while it is called: it may write nothing by itself",
            "a second table, a file or a message inside a pipeline",
            quick=True,
            subjects=_PIPELINE,
        ),
        Experiment(
            "plan",
            "search the plan for what would make a second run differ, as before every run",
            "a clock, a random number, an order that ties leave open",
            quick=True,
            subjects=_PIPELINE,
        ),
        Experiment(
            "twice",
            "run the window a second time",
            "a scheduler retries a run that was green already",
            quick=True,
        ),
        Experiment(
            "forced",
            "compute and publish the window again, although nothing changed",
            "somebody restates a day to be sure",
            quick=True,
            subjects=_PIPELINE,
        ),
        Experiment("thrice", "run the window three times", "retries are seldom alone"),
        Experiment(
            "failures",
            "fail at every crash point, then retry",
            "a network error between two steps",
            quick=True,
            subjects=_PIPELINE,
        ),
        Experiment(
            "lost-answer",
            "lose the answer of the commit, then retry",
            "a timeout while the catalog answers",
            quick=True,
            subjects=_PIPELINE,
        ),
        Experiment(
            "killed",
            "kill the process at moments of its life, then retry; quick: at two of them",
            "out of memory, a lost node, a deploy",
            quick=True,
            apart=True,
        ),
        Experiment(
            "task-failures",
            "fail the first attempt of tasks inside Spark",
            "a lost executor",
            quick=True,
            apart=True,
            subjects=_PIPELINE,
        ),
        Experiment(
            "speculation",
            "run tasks twice at once, on two executors",
            "spark.speculation, a slow node",
            apart=True,
            subjects=_PIPELINE,
        ),
        Experiment(
            "two-at-once",
            "two processes publish the window at the same time",
            "a manual run beside the schedule",
            apart=True,
        ),
        Experiment(
            "neighbours",
            "publish the windows around it first; they have to stay as they were",
            "a backfill of one day in the middle",
            quick=True,
        ),
        Experiment(
            "order",
            "run the windows in another order, with repeats",
            "a backfill that runs newest first, a late re-run",
            quick=True,
        ),
        Experiment(
            "chunk",
            "publish several windows in one chunk instead of one by one",
            "a backfill",
            quick=True,
            subjects=_PIPELINE,
        ),
        Experiment(
            "parallelism",
            "other numbers of partitions, inputs in another order, adaptive execution on and off",
            "another cluster, another Spark version, compacted files",
            quick=True,
            subjects=_PIPELINE,
        ),
        Experiment(
            "late-rows",
            "publish the window from a part of its input, then from all of it, and that twice",
            "an upstream table that was not complete, a correction that is taken back",
            subjects=_PIPELINE,
        ),
        Experiment(
            "surroundings",
            "another day, time zone, locale, hash seed and environment of the process",
            "a re-run next week, on another machine",
            quick=True,
            apart=True,
        ),
    )
}

# What a test tries by default: seconds in a session that is there already.
IN_TESTS = tuple(item.name for item in EXPERIMENTS.values() if item.quick and not item.apart)


@dataclass(frozen=True)
class Choice:
    """Which experiments are tried."""

    kind: Literal["quick", "full", "chosen"]
    names: tuple[str, ...]


def choose(
    *, full: bool = False, only: Sequence[str] = (), subject: Subject = "pipeline"
) -> Choice:
    """The quick set, the full one, or experiments by name; unknown names are refused."""
    known = {name: item for name, item in EXPERIMENTS.items() if subject in item.subjects}
    unknown = [name for name in only if name not in known]
    if unknown:
        raise UsageError(
            "SP-V07",
            f"There is no experiment {unknown[0]!r:.80} for a {subject}; there are: "
            f"{some_of(known)}.",
            why="What is not tried is not proven.",
            state=NOTHING_STARTED,
            next="See: setpoint prove --list",
        )
    if only:
        return Choice("chosen", tuple(name for name in known if name in only))
    if full:
        return Choice("full", tuple(known))
    return Choice("quick", tuple(name for name, item in known.items() if item.quick))
