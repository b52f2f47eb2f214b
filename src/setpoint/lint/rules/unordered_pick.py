"""SP113 unordered-pick: some row is taken, and no order says which."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.judgement import lasting
from setpoint.lint.knowledge.words import tokens
from setpoint.lint.model import Program
from setpoint.lint.rules.telling import finding, named
from setpoint.lint.vocabulary import vocabulary

KIND = "unordered-pick"
# Targets that call themselves a look at some rows.
_LOOKS = vocabulary("sample samples preview example test benchmark")
REPAIR = "Order by columns that are unique together before taking a row, or aggregate."


def check(program: Program) -> Iterator[Finding]:
    for trace in program.traces:
        for write in lasting(trace):
            if write.mode in ("delete", "truncate", "drop"):
                continue
            if tokens(write.target.key) & {
                "sample",
                "samples",
                "preview",
                "example",
                "test",
                "benchmark",
            }:
                continue
            taints = write.rows.union(*write.columns.values()) if write.columns else write.rows
            for taint in taints:
                if taint.kind == "pick":
                    yield finding(
                        KIND,
                        taint.place,
                        f"{taint.label} takes some rows for {named(write.target)}, and "
                        f"another run may take others.",
                        REPAIR,
                    )
