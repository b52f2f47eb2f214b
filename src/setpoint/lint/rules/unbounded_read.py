"""SP111 unbounded-read: a read with a lower bound and no upper one."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.judgement import lasting
from setpoint.lint.model import Program
from setpoint.lint.rules.telling import finding, named

KIND = "unbounded-read"
REPAIR = "Bound the read by the window on both sides: start <= column < end."


def check(program: Program) -> Iterator[Finding]:
    for trace in program.traces:
        for write in lasting(trace):
            for taint in write.rows.union(*write.columns.values()):
                if taint.kind == "bound":
                    yield finding(
                        KIND,
                        taint.place,
                        f"{taint.label} has a lower bound only: a repetition for "
                        f"{named(write.target)} also reads what came since.",
                        REPAIR,
                        "error" if write.mode == "append" else "info",
                    )
