"""SP107 split-state: the high-water mark is saved apart from the data."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding, Place
from setpoint.lint.judgement import ADDING, bare_appends, logging, passing, stateful
from setpoint.lint.model import Program, Trace, Write
from setpoint.lint.rules.telling import finding, named

KIND = "split-state"
REPAIR = (
    "Save the mark in the same transaction as the rows, or read it back from the target itself."
)
_SAVING = ("append", "merge", "ignore", "overwrite", "update", "put", "rename", "replace_slice")


def check(program: Program) -> Iterator[Finding]:
    appends = {id(write) for _, write in bare_appends(program)}
    for trace in program.traces:
        if trace.request:
            continue
        for mark in trace.writes:
            if mark.mode not in _SAVING or not stateful(mark) or passing(mark) or mark.failing:
                continue
            data = _data(program, trace, mark)
            if not data:
                continue
            nearest = max(data, key=lambda write: (_shared(mark, write), id(write) in appends))
            unsafe = any(id(write) in appends for write in data)
            yield finding(
                KIND,
                _place(mark, nearest),
                f"The mark in {named(mark.target)} is saved apart from the rows of "
                f"{named(nearest.target)}: a crash between them "
                + ("reads the same rows twice." if unsafe else "leaves the two in disagreement."),
                REPAIR,
                "error" if unsafe else "info",
            )


def _data(program: Program, trace: Trace, mark: Write) -> list[Write]:
    """Writes of rows that are in another transaction than the mark."""
    traces = [t for t in program.traces if t.task] if trace.task else [trace]
    return [
        write
        for other in traces
        for write in other.writes
        if write.mode in ADDING
        and write.mode != "create"
        and not stateful(write)
        and not passing(write)
        and not (write.mode == "append" and logging(write))
        and not write.target.same(mark.target)
        and (other is not trace or write.transaction != mark.transaction)
    ]


def _shared(mark: Write, data: Write) -> int:
    """How many calls lead to both."""
    shared = 0
    for mine, others in zip(mark.path, data.path, strict=False):
        if mine != others:
            break
        shared += 1
    return shared


def _place(mark: Write, data: Write) -> Place:
    """Where the ways to the mark and to the data part."""
    for mine, others in zip(mark.path, data.path, strict=False):
        if mine != others:
            return mine.place
    return mark.path[len(data.path)].place if len(mark.path) > len(data.path) else mark.place
