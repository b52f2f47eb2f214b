"""SP114 grain-mismatch: the schedule and the slice that is replaced differ in grain."""

from __future__ import annotations

import re
from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.judgement import lasting
from setpoint.lint.model import Program
from setpoint.lint.rules.telling import finding, named

KIND = "grain-mismatch"
REPAIR = (
    "Give the slice the grain of the schedule, for example by data_interval_start with its hour."
)
_HOURLY = re.compile(r"^@hourly$|^\S+\s+(?:\*|\*/\d+|\d+(?:,\d+)+|\d+-\d+)\s")
_DAY = re.compile(r"^\s*(?:macros\.\w+\()?(?:ds|ds_nodash|yesterday_ds)\b")


def check(program: Program) -> Iterator[Finding]:
    if (
        not program.schedule
        or not _HOURLY.match(program.schedule)
        or program.schedule_place is None
    ):
        return
    for trace in program.traces:
        for write in lasting(trace):
            if write.mode not in ("delete", "replace_slice", "overwrite"):
                continue
            logical = [o for o in write.where | write.location if o.kind == "logical"]
            if logical and all(_DAY.match(taint.label) for taint in logical):
                yield finding(
                    KIND,
                    program.schedule_place,
                    f"The DAG runs several times a day and each run replaces the whole day "
                    f"of {named(write.target)}.",
                    REPAIR,
                )
                return
