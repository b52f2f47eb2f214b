"""SP112 relative-now-read: what is read depends on the day of the run."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.judgement import handed_on, lasting
from setpoint.lint.model import Program
from setpoint.lint.rules.telling import finding, named

KIND = "relative-now-read"
REPAIR = "Bound the read by the run's window, which stays the same when the run is repeated."


def check(program: Program) -> Iterator[Finding]:
    kept = [write for trace in program.traces for write in lasting(trace)]
    for write in [*kept, *handed_on(program)]:
        if write.mode in ("delete", "truncate", "drop"):
            continue
        for taint in (write.rows | write.where).union(*write.columns.values()):
            if taint.kind == "clock" and taint.via in ("read", "until"):
                yield finding(
                    KIND,
                    taint.place,
                    f"{taint.label} decides which rows {named(write.target)} gets: a "
                    f"repetition on another day reads others.",
                    REPAIR,
                    "info" if taint.via == "until" or program.generator else "error",
                )
