"""SP110 do-nothing: a conflict keeps the old row although the new one may differ."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.judgement import lasting, stateful
from setpoint.lint.knowledge.words import is_changing
from setpoint.lint.model import Program
from setpoint.lint.rules.telling import finding, named

KIND = "do-nothing"
REPAIR = "Update the row when it differs: ON CONFLICT (key) DO UPDATE SET ... WHERE row differs."


def check(program: Program) -> Iterator[Finding]:
    for trace in program.traces:
        for write in lasting(trace):
            if write.mode != "ignore" or stateful(write):
                continue
            if write.literal and not write.columns and not _holes(write.statement):
                continue
            changing = is_changing(write.names)
            yield finding(
                KIND,
                write.place,
                f"A row of {named(write.target)} that exists is kept as it is: a corrected "
                f"row never arrives.",
                REPAIR,
                "error" if changing else "info",
            )


def _holes(statement: object) -> bool:
    return "sp_" in str(getattr(statement, "text", ""))
