"""SP109 serial-key: a key that is drawn from a counter differs in every run."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.judgement import CLEARING, lasting, logging, stateful
from setpoint.lint.model import Program, Target, Trace
from setpoint.lint.rules.telling import column, finding, named

KIND = "serial-key"
REPAIR = "Use the business key, or a hash of it, as the key."


def check(program: Program) -> Iterator[Finding]:
    for trace in program.traces:
        yield from _read_back(program, trace)
    for trace in program.traces:
        for write in lasting(trace):
            if stateful(write):
                continue  # the counter itself is what is remembered
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


def _read_back(program: Program, trace: Trace) -> Iterator[Finding]:
    """The largest key of a table, right after a row was added to it or where a counter makes it."""
    for largest in trace.maxima:
        target = Target(largest.table)
        added = [
            (other, write)
            for other in program.traces
            for write in other.writes
            if write.mode == "append" and write.target.same(target) and not logging(write)
        ]
        if any(
            (other is trace and write.order <= largest.order)
            or (write.names and largest.column not in write.names)
            for other, write in added
        ):
            yield finding(
                KIND,
                largest.place,
                f"The key is read back from {largest.table} after the insert: each repetition "
                "draws another one, and two runs may see the same.",
                REPAIR,
                "info" if program.generator else "error",
            )


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
