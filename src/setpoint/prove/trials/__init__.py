"""The experiments on a pipeline: one module for each, or for a small family of them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from setpoint.model.proof import Result
from setpoint.prove.case import Case

# The module and the function of every experiment; each is imported when it is tried.
TRIALS: dict[str, str] = {
    "plan": "plan:searched",
    "twice": "repeats:twice",
    "thrice": "repeats:thrice",
    "forced": "repeats:forced",
    "failures": "failures:failures",
    "lost-answer": "failures:lost_answer",
    "killed": "kills:killed",
    "task-failures": "tasks:task_failures",
    "speculation": "tasks:speculation",
    "two-at-once": "together:two_at_once",
    "neighbours": "windows:neighbours",
    "order": "windows:order",
    "chunk": "windows:chunk",
    "parallelism": "parallelism:parallelism",
    "late-rows": "late:late_rows",
    "surroundings": "elsewhere:surroundings",
}


def trial_of(experiment: str) -> Callable[[Case], Result]:
    """The function that tries an experiment on a case."""
    module, _, name = TRIALS[experiment].partition(":")
    found: Callable[[Case], Result] = getattr(import_module(f"{__name__}.{module}"), name)
    return found
