"""SP116 env-drift: an environment value that becomes data."""

from __future__ import annotations

import re
from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.judgement import lasting
from setpoint.lint.model import Program
from setpoint.lint.rules.telling import column, finding, named

KIND = "env-drift"
REPAIR = "Make it a parameter of the run, so that a repetition gets the same value."
_NUMBER = re.compile(
    r"factor|rate|threshold|price|amount|percent|weight|score|limit|days|date|version|currency",
    re.IGNORECASE,
)


def check(program: Program) -> Iterator[Finding]:
    for trace in program.traces:
        for write in lasting(trace):
            if write.mode == "put":
                continue
            for name, taints in write.columns.items():
                for taint in taints:
                    if taint.kind == "env" and name:
                        quiet = not _NUMBER.search(name)
                        yield finding(
                            KIND,
                            taint.place,
                            f"{column(name)} of {named(write.target)} is {taint.label}: "
                            f"another machine stores another value.",
                            REPAIR,
                            "info" if quiet else "error",
                        )
