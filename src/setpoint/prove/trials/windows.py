"""Several windows: the neighbours stay as they were, the order does not matter, chunks agree."""

from __future__ import annotations

from setpoint.flow.chunk import why_alone
from setpoint.model.proof import Result
from setpoint.model.slice import SliceRule
from setpoint.model.span import follows
from setpoint.model.window import Window
from setpoint.prove.case import Case
from setpoint.prove.causes import Varied
from setpoint.prove.trial import TARGET


def neighbours(case: Case) -> Result:
    """Publish the windows around first; what they hold, and their files, stay what they were."""
    pipeline = case.sandbox.pipeline
    if pipeline.slice_column is None:
        why = "no window has rows of its own: the write goes by key"
        return Result("neighbours", "skipped", why)
    if why := _no_others(case):
        return Result("neighbours", "skipped", why)
    if why := _reaching(case):
        return Result("neighbours", "failed", why)
    expected = case.ordered
    # A window that reads the one before it cannot come before it.
    around = [item for item in case.others if item < case.window or not pipeline.reads_itself]
    trial = case.sandbox.trial("neighbours")
    trial.run(*around)
    before, files = trial.committed(*around), trial.slices(*around)
    for force in (False, True):
        trial.run(case.window, force=force)
        told = "published between its neighbours"
        changed = trial.committed(*around).windows != before.windows
        if changed or trial.slices(*around) != files:
            return Result(
                "neighbours", "failed", f"{told}: slices of other windows have changed", TARGET
            )
    rest = [item for item in case.others if item not in around]
    trial.run(*rest)
    ids = ", ".join(item.id for item in around)
    return case.compared(
        "neighbours",
        trial,
        f"published between {ids}",
        expected=expected,
        varied=Varied(order="between its neighbours"),
        detail={"windows": [item.id for item in around]},
    )


def order(case: Case) -> Result:
    """Newest first and with repeats, every table ends as if windows had come in their order."""
    pipeline = case.sandbox.pipeline
    if why := _no_others(case):
        return Result("order", "skipped", why)
    expected, windows = case.ordered, case.windows
    trial = case.sandbox.trial("order")
    if pipeline.reads_itself:
        tried = [*windows, *windows[:-1]]
        trial.run(*windows)
        trial.run(*windows[:-1], force=True)
        trial.run(windows[-1])
    else:
        tried = [*reversed(windows), windows[-1]]
        trial.run(*reversed(windows))
        # An older window that states all rows is meant to win when somebody restates it.
        trial.run(windows[-1], force=not pipeline.newest_counts)
    message = f"run in the order {', '.join(item.id for item in tried)}"
    return case.compared("order", trial, message, expected=expected, varied=Varied(order=message))


def chunk(case: Case) -> Result:
    """Windows of one chunk hold what they hold when each is published by itself."""
    alone = why_alone(case.clean.bind())
    if alone or (alone := _no_others(case)):
        return Result("chunk", "skipped", alone)
    expected = case.ordered
    together = _stretch(case)
    if len(together) < 2:
        return Result("chunk", "skipped", "no window beside it could be run")
    trial = case.sandbox.trial("chunk")
    trial.run(*(item for item in case.windows if item not in together))
    trial.run_together(together)
    message = f"{together[0].id} to {together[-1].id} in one chunk"
    return case.compared(
        "chunk",
        trial,
        message,
        expected=expected,
        varied=Varied(chunk=True),
        detail={"windows": [item.id for item in together]},
    )


def _reaching(case: Case) -> str:
    """Which input has rows of other windows among its own, in words; empty when none has."""
    pipeline, window = case.sandbox.pipeline, case.window
    for name, port in case.sandbox.inputs.sources.items():
        column = pipeline.sources[name].time
        if column is None:
            continue
        frame = port.read(case.sandbox.session, window, port.pin([window])[window])
        kind = frame.schema[column].dataType.simpleString()
        rule = SliceRule.of(column, kind, window.grain, window.timezone)
        if not frame.where(f"NOT coalesce({rule.predicate(window)}, false)").isEmpty():
            return f"the input {name} has rows of other windows than {window.id}"
    return ""


def _stretch(case: Case) -> list[Window]:
    """The windows around the proven one that follow each other without a gap."""
    found: list[Window] = []
    for window in case.windows:
        if found and not follows(found[-1], window):
            if case.window in found:
                break
            found = []
        found.append(window)
    return found if case.window in found else [case.window]


def _no_others(case: Case) -> str:
    """Why there are no other windows; empty when there are."""
    if case.sandbox.pipeline.every.is_incremental:
        return "the pipeline has one window without bounds"
    if case.others:
        _ = case.ordered  # those that fail are left out by running them
    if not case.others:
        reasons = "; ".join(f"{name}: {why}" for name, why in case.left_out.items())
        return f"no other window could be run{f' ({reasons})' if reasons else ''}"
    return ""
