"""SP106 non-atomic-delete-insert: old rows go in one commit, new ones come in another."""

from __future__ import annotations

import re
from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.judgement import CLEARING, passing
from setpoint.lint.model import Program, Trace, Write, either
from setpoint.lint.rules.telling import finding, named

KIND = "non-atomic-delete-insert"
_ONWARD = re.compile(r">=?\s*'?\s*\(?\s*sp_|(?<![<>!])=\s*'?\s*\(?\s*sp_")
REPAIR = "Delete and insert in one transaction, or publish the slice in one commit."


def check(program: Program) -> Iterator[Finding]:
    for trace in program.traces:
        if trace.request:
            continue
        for write in trace.writes:
            if write.mode not in CLEARING or passing(write) or _retention(write):
                continue
            later = _filled(trace, write)
            if later is not None:
                yield _found(
                    write,
                    f"{named(write.target)} is emptied in one commit and filled in another "
                    f"one: a crash between them loses rows.",
                )
            elif (
                trace.task and not _fills(trace, write) and _filled_elsewhere(program, trace, write)
            ):
                yield _found(
                    write,
                    f"{named(write.target)} is emptied by one task and filled by another: "
                    f"a retry of the second alone adds the rows again.",
                )


def _found(write: Write, message: str) -> Finding:
    return finding(KIND, write.place, message, REPAIR)


def _retention(write: Write) -> bool:
    """Rows that grow old are removed for good; nothing fills their place."""
    if not any(taint.kind == "clock" for taint in write.where):
        return False
    # What is to come again is not old: `date >= today`.
    text = write.statement.text if write.statement is not None else ""
    return not _ONWARD.search(text) or "<" in text


def _filled(trace: Trace, gone: Write) -> Write | None:
    """The first write that fills the target again, if it is not in the same transaction."""
    for write in trace.writes:
        if write.order <= gone.order or not write.target.same(gone.target):
            continue
        if either(write, gone):
            continue
        if write.mode == "rename" or (write.mode == "append" and write.target.kind == "table"):
            return write if write.transaction != gone.transaction else None
        if write.mode == "append":
            return write
        if write.mode in ("drop", "create_as", "overwrite", "put"):
            return None
    return None


def _fills(trace: Trace, gone: Write) -> bool:
    return any(
        write.order > gone.order and write.mode == "append" and write.target.same(gone.target)
        for write in trace.writes
    )


def _filled_elsewhere(program: Program, trace: Trace, gone: Write) -> bool:
    return any(
        write.mode == "append" and write.target.same(gone.target)
        for other in program.traces
        if other is not trace and other.task and not _empties(other, gone)
        for write in other.writes
    )


def _empties(trace: Trace, gone: Write) -> bool:
    """Does a task see to the old rows by itself?"""
    return any(write.mode in CLEARING for write in trace.shaped(gone.target))
