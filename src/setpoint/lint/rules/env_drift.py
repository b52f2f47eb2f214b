"""SP116 env-drift: an environment value that becomes data."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.judgement import lasting
from setpoint.lint.knowledge.words import is_audit_column, tokens
from setpoint.lint.model import Program
from setpoint.lint.rules.telling import column, finding, named
from setpoint.lint.vocabulary import vocabulary

KIND = "env-drift"
REPAIR = "Make it a parameter of the run, so that a repetition gets the same value."
_WHERE = vocabulary(
    "env environment host hostname region node user username server stage",
)


def check(program: Program) -> Iterator[Finding]:
    for trace in program.traces:
        for write in lasting(trace):
            if write.mode == "put":
                continue
            for name, taints in write.columns.items():
                for taint in taints:
                    if taint.kind == "env" and name:
                        quiet = is_audit_column(name) or bool(tokens(name) & _WHERE)
                        yield finding(
                            KIND,
                            taint.place,
                            f"{column(name)} of {named(write.target)} is {taint.label}: "
                            f"another machine stores another value.",
                            REPAIR,
                            "info" if quiet else "error",
                        )
