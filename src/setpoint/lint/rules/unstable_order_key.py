"""SP103 unstable-order-key: a row's number depends on an order that nobody fixed."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.judgement import lasting
from setpoint.lint.knowledge.words import is_key
from setpoint.lint.model import Program
from setpoint.lint.rules.telling import column, finding, named
from setpoint.lint.values import BY_ID

KIND = "unstable-order-key"
REPAIR = (
    "Build the key from the row's business columns, or order by columns that are unique together."
)


def check(program: Program) -> Iterator[Finding]:
    for trace in program.traces:
        for write in lasting(trace):
            for taint in write.rows:
                if taint.kind == "mono":
                    yield finding(
                        KIND,
                        taint.place,
                        f"{taint.label} decides which rows of {named(write.target)} "
                        f"belong together, and differs when Spark reads in another order.",
                        REPAIR,
                    )
            for name, taints in write.columns.items():
                for taint in taints:
                    if taint.kind == "mono":
                        yield finding(
                            KIND,
                            taint.place,
                            f"{column(name)} of {named(write.target)} comes from "
                            f"{taint.label}, which numbers rows in an order that nobody "
                            f"fixed.",
                            REPAIR,
                            "info" if program.generator else "error",
                        )
                    elif taint.kind == "rank" and is_key(name):
                        yield finding(
                            KIND,
                            taint.place,
                            f"{column(name)} of {named(write.target)} numbers the rows of "
                            f"the whole table: one new row changes the keys of others.",
                            REPAIR,
                            "info" if program.generator or taint.label == BY_ID else "error",
                        )
