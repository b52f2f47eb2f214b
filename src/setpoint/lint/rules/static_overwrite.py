"""SP105 static-overwrite: the job of one window replaces every partition of its target."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.judgement import lasting
from setpoint.lint.model import Program
from setpoint.lint.rules.telling import finding, named

KIND = "static-overwrite"
REPAIR = (
    'Set spark.sql.sources.partitionOverwriteMode to "dynamic", use replaceWhere, or let '
    "setpoint replace the window's slice."
)


def check(program: Program) -> Iterator[Finding]:
    if program.dynamic_overwrite:
        return
    for trace in program.traces:
        for write in lasting(trace):
            if write.mode != "overwrite" or not write.partitioned or write.scoped or write.guarded:
                continue
            if not (write.windowed or write.literal):
                continue
            if any(
                taint.kind in ("clock", "random", "logical", "outside") for taint in write.location
            ):
                continue
            yield finding(
                KIND,
                write.place,
                f"The rows of one window replace all partitions of {named(write.target)}: "
                f"Spark's default overwrite is static.",
                REPAIR,
            )
