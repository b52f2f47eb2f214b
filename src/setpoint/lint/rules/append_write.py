"""SP104 append-write: a write that adds its rows again when it is repeated."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.judgement import asked_for, bare_appends, quarantined
from setpoint.lint.model import Program, Write
from setpoint.lint.rules.telling import finding, named

KIND = "append-write"
REPAIR = (
    "Replace the window's slice, or merge by the business key: setpoint.publish does either "
    "in one commit."
)


def check(program: Program) -> Iterator[Finding]:
    for _, write in bare_appends(program):
        asked = asked_for(program, write)
        seeds = program.seeds or (program.script and _constant(write) and not _filled(write))
        quiet = quarantined(write) or write.failing or seeds or asked or program.generator
        where = named(write.target)
        yield finding(
            KIND,
            write.place,
            f"{write.api} adds to what {where} holds, and a repetition adds it again."
            if write.accumulating
            else f"{write.api} adds rows to {where}, and a repetition adds them again.",
            REPAIR,
            "info" if quiet else "error",
        )


def _constant(write: Write) -> bool:
    """Nothing but constants, as in a practice sheet: `SET salary = salary * 1.1`."""
    statement = write.statement
    return write.literal or (
        write.accumulating
        and statement is not None
        and statement.verb == "update"
        and not statement.sources
    )


def _filled(write: Write) -> bool:
    """Does the program fill something in? Rows of nothing but constants are seeds."""
    text = write.statement.text if write.statement is not None else "sp_hole"
    return "sp_hole" in text or "sp_param" in text
