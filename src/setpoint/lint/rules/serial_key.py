"""SP109 serial-key: a key that is drawn from a counter differs in every run."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.judgement import CLEARING, lasting, logging
from setpoint.lint.model import Program, Target
from setpoint.lint.rules.telling import column, finding, named

KIND = "serial-key"
REPAIR = "Use the business key, or a hash of it, as the key."


def check(program: Program) -> Iterator[Finding]:
    for place, key in program.readbacks:
        target = Target(key)
        if any(
            write.mode == "append" and write.target.same(target) and not logging(write)
            for trace in program.traces
            for write in trace.writes
        ):
            yield finding(
                KIND,
                place,
                f"The key is read back from {key} after the insert: each repetition draws "
                f"another one, and two runs may see the same.",
                REPAIR,
                "info" if program.generator else "error",
            )
    for trace in program.traces:
        for write in lasting(trace):
            for name, taints in write.columns.items():
                for taint in taints:
                    if taint.kind == "serial":
                        yield finding(
                            KIND,
                            taint.place,
                            f"{column(name)} of {named(write.target)} is drawn from "
                            f"{taint.label}, so a repetition gives the same row another "
                            f"key.",
                            REPAIR,
                        )
    yield from _declared(program)


def _declared(program: Program) -> Iterator[Finding]:
    """Tables of the file whose key is a counter; worst where the rows are loaded anew each time."""
    for table in program.tables:
        if not table.serial or table.temporary:
            continue
        target = Target(table.key)
        modes = {
            write.mode
            for trace in program.traces
            if not trace.request
            for write in trace.writes
            if write.target.same(target)
        }
        if not modes & {"append", "merge", "ignore"}:
            continue
        again = bool(modes & {*CLEARING}) and not table.unique
        yield finding(
            KIND,
            table.place,
            f"{table.serial} of {table.key} is drawn from a counter: "
            + (
                "every reload gives the rows other keys."
                if again
                else "a row that is loaded again gets another key."
            ),
            REPAIR,
            "info",
        )
