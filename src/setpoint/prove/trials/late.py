"""Inputs that were not complete: the window is published from a part of them first."""

from __future__ import annotations

from setpoint.errors import RefusedError
from setpoint.model.proof import Result
from setpoint.model.write import KEYED
from setpoint.prove.case import Case
from setpoint.prove.causes import Varied
from setpoint.prove.part import part_of
from setpoint.prove.trial import TARGET

_NAME = "late-rows"


def late_rows(case: Case) -> Result:
    """Whatever a window was published from before, it ends as its inputs say now.

    From a part, from all, from the part again and from all again: a run has to see that the
    latest publish was of other rows, although an earlier one was of the same.
    """
    pipeline, inputs = case.sandbox.pipeline, case.sandbox.inputs.sources
    incremental = pipeline.every.is_incremental
    if why := _why_not(case):
        return Result(_NAME, "skipped", why)
    part = {name: part_of(port, pipeline.sources[name]) for name, port in inputs.items()}
    told = "published from a part of the input, then from all of it"
    partly, trial = case.begun("late-part"), case.begun(_NAME)
    try:
        partly.run(case.window, inputs=part)
    except RefusedError as error:
        return Result(_NAME, "skipped", f"a part of the input is refused: {error.what}")
    trial.run(case.window, inputs=part)
    trial.run(case.window)
    if incremental:
        if trial.mark(case.window) is None:
            told = "the receipt holds no high-water mark: every run would read everything again"
            return Result(_NAME, "failed", told, table=TARGET)
        return case.compared(_NAME, trial, told, varied=Varied(order=told))
    trial.run(case.window, inputs=part)
    back = f"{told}, then from the part again"
    result = case.compared(_NAME, trial, back, expected=partly, varied=Varied(order=back))
    if result.state == "failed":
        return result
    trial.run(case.window)
    return case.compared(_NAME, trial, f"{told}, twice", varied=Varied(order=told))


def _why_not(case: Case) -> str:
    pipeline = case.sandbox.pipeline
    sources = [pipeline.sources[name] for name in case.sandbox.inputs.sources]
    if all(source.whole for source in sources):
        return "the pipeline has no input of which it could read a part"
    if any(source.late.policy in ("ignore", "fail") for source in sources):
        return "an input says that late rows do not count"
    if isinstance(pipeline.write, KEYED) and not pipeline.every.is_incremental:
        return "the write goes by key: what a part of the input has left may stay"
    return ""
