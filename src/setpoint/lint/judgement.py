"""What several rules ask about writes: which of them count, and which are cleared."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.knowledge.words import (
    is_log,
    is_mark,
    is_quarantine,
    is_state,
    is_temporary,
    tokens,
)
from setpoint.lint.model import Program, Target, Trace, Write, either
from setpoint.lint.values import ANY, Taint
from setpoint.lint.vocabulary import vocabulary

CLEARING = ("delete", "truncate")
REBUILDING = ("drop", "overwrite", "create_as", "replace_slice")
_DAYS = vocabulary("date day today yesterday ds dt month year week")
_MOMENTS = vocabulary("time timestamp ts datetime hour now run id")
ADDING = ("append", "merge", "ignore", "overwrite", "replace_slice", "create", "create_as", "put")


def passing(write: Write) -> bool:
    """Is the target gone after the run?"""
    if write.outlives:
        return False
    return write.temporary or is_temporary(write.target.key)


def logging(write: Write) -> bool:
    """Is the target a record of runs?"""
    names = (*write.names, *write.columns)
    if write.mode == "rename" or not is_log(write.target.key, names):
        return False
    # A row of a log is closed; a mark is moved.
    return write.mode == "append" or not any(map(is_mark, names))


def stateful(write: Write) -> bool:
    """Does the target remember how far the pipeline has come?

    A log of runs grows by a row each time, a mark is replaced.
    """
    if write.mode == "append" and logging(write):
        return False
    if write.target.kind == "state" or is_state(write.target.key):
        return True
    return write.mode == "update" and any(map(is_mark, write.names))


def lasting(trace: Trace) -> Iterator[Write]:
    """Writes whose result somebody reads after the run."""
    if trace.request:
        return
    for write in trace.writes:
        if not passing(write) and not logging(write):
            yield write


def handed_on(program: Program) -> Iterator[Write]:
    """Writes to what is called temporary, and feeds what is kept."""
    passed = [
        write
        for trace in program.traces
        if not trace.request
        for write in trace.writes
        if write.mode in ADDING and passing(write) and not logging(write)
    ]
    if not passed:
        return
    read = [
        Target(taint.label)
        for trace in program.traces
        for write in lasting(trace)
        for taint in write.rows.union(*write.columns.values())
        if taint.kind in ("read", "whole")
    ]
    for write in passed:
        if any(write.target.same(target) for target in read):
            yield write


def bare_appends(program: Program) -> Iterator[tuple[Trace, Write]]:
    """Appends that nothing makes repeatable."""
    for trace in program.traces:
        if trace.request:
            continue
        for write in trace.writes:
            if write.mode == "append" and not _cleared(program, trace, write):
                yield trace, write


def _cleared(program: Program, trace: Trace, write: Write) -> bool:
    if passing(write) or logging(write) or write.guarded or write.diffed:
        return True
    if stateful(write):
        return True
    fresh = [taint.label for taint in write.rows if taint.kind == "new"]
    if any(label == ANY or Target(label).same(write.target) for label in fresh):
        return True
    if any(taint.via == "" and _finest(taint) for taint in write.location):
        return True  # a new place each time: that is what wall-clock and random-id tell
    for other in trace.shaped(write.target):
        if either(write, other):
            continue
        if other.mode in (*CLEARING, *REBUILDING) and other.order < write.order:
            return True
        if other.mode == "rename" and other.order > write.order:
            return True
        if other.mode == "create" and other.order < write.order and _fresh(program, other):
            return True
    if trace.task and _cleared_elsewhere(program, trace, write):
        return True
    if _moved(trace, write):
        return True
    return any(
        table.unique and not table.serial and write.target.key == table.key
        for table in program.tables
    )


def _finest(taint: Taint) -> bool:
    """Is it another value for each run? A day is the same for all runs of the day."""
    if taint.kind == "random":
        return True
    words = tokens(taint.holder)
    daily = taint.label.endswith("date.today()") or bool(words & _DAYS and not words & _MOMENTS)
    return taint.kind == "clock" and not daily


def _cleared_elsewhere(program: Program, trace: Trace, write: Write) -> bool:
    """Another task empties the same target: that is a finding of its own kind."""
    return any(
        other.mode in CLEARING
        for task in program.traces
        if task is not trace and task.task
        for other in task.shaped(write.target)
    )


def _moved(trace: Trace, write: Write) -> bool:
    """Are the rows taken from where they were, in the same transaction?"""
    sources = [Target(taint.label) for taint in write.rows if taint.kind == "read"]
    return any(
        other.mode in CLEARING
        and other.order > write.order
        and other.transaction == write.transaction
        and any(other.target.same(source) for source in sources)
        for other in trace.writes
    )


def _fresh(program: Program, create: Write) -> bool:
    statement = create.statement
    return statement is not None and not statement.if_not_exists


def asked_for(program: Program, write: Write) -> bool:
    """One row that a function is given, in a module that an application reaches its data by?"""
    many = write.api in ("executemany", "execute_values", "execute_batch")
    return program.access and write.literal and not many and not program.orchestrated


def quarantined(write: Write) -> bool:
    """Are the rows put aside? The target says so, or the function that writes them."""
    last = f"{write.path[-1].function if write.path else ''} {write.api}"
    return is_quarantine(write.target.key) or bool(
        tokens(last) & {"quarantine", "reject", "rejects", "rejected"}
    )
