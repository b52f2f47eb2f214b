"""The check as the engine calls it: the findings of a frame."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from setpoint.model.determinism import ROWS, Finding
from setpoint.spark.determinism import analysed, connect, functions
from setpoint.spark.determinism.facts import Taint
from setpoint.spark.determinism.search import Search
from setpoint.spark.determinism.tree import Expression, Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A chain of some hundred withColumn is a plan of that depth.
_DEPTH = 12_000


def findings(frame: DataFrame, keys: Collection[str], function: Any = None) -> tuple[Finding, ...]:
    """What would make a second run of the frame differ; no Spark job runs for it.

    `keys` are the columns by which rows are found again, `function` is the user's function in
    which a line is looked for when Spark does not tell it.
    """
    with deep():
        if hasattr(frame, "_jdf"):
            plan = analysed.plan_of(frame)

            def code_of(expression: Expression) -> Sequence[bytes]:
                return [analysed.command_of(frame, expression.path)]

            def place_of(taint: Taint) -> str:
                return analysed.origin_of(frame, taint.path)

        else:
            plan, sent = connect.plan_of(frame)

            def code_of(expression: Expression) -> Sequence[bytes]:
                return sent.get(expression.label, ())

            def place_of(taint: Taint) -> str:
                return ""

        found = found_in(plan, keys, code_of)
    return tuple(
        Finding(taint.kind, column, taint.expression, _place(taint, place_of, function))
        for column, taint in found
    )


def found_in(
    plan: Node, keys: Collection[str], code_of: Callable[[Expression], Sequence[bytes]]
) -> list[tuple[str, Taint]]:
    """The taints of a plan that refuse it, each with the column that it shows in."""

    def judge(expression: Expression) -> Sequence[Taint]:
        commands = code_of(expression)
        if expression.type == "nondeterministic" or b"" in commands:
            return [Taint("udf", f"{expression.label}() says that it is not deterministic")]
        if not commands:
            return [functions.unreadable(expression.label)]
        return [taint for one in commands for taint in _judged(one, expression.label)]

    search = Search(judge)
    facts = search.visit(plan)
    found: dict[tuple[str, str, str], tuple[str, Taint]] = {}
    for taint in search.rows:
        found.setdefault((taint.kind, ROWS, taint.expression), (ROWS, taint))
    decisive = set(search.rows)
    folded = {name.lower() for name in keys}
    for item in facts.output:
        for taint in sorted(facts.taints.get(item.id, ()), key=lambda one: one.expression):
            stored = taint.kind == "float_key" and item.name.lower() not in folded
            if taint not in decisive and not stored:
                found.setdefault((taint.kind, item.name, taint.expression), (item.name, taint))
    return list(found.values())


def _judged(command: bytes, name: str) -> list[Taint]:
    from pyspark import cloudpickle

    try:
        loaded = cloudpickle.loads(command)
    except Exception:  # whatever the user's module does when it is imported
        return [functions.unreadable(name)]
    return functions.judged(loaded[0] if isinstance(loaded, tuple) else loaded, name)


def _place(taint: Taint, place_of: Callable[[Taint], str], function: Any) -> str:
    if taint.place:
        return taint.place
    told = place_of(taint) if taint.path else ""
    name = taint.expression.partition("(")[0].partition(" ")[0]
    return told or (functions.line_in(function, name) if function is not None else "")


@contextmanager
def deep() -> Iterator[None]:
    """Room for a recursion as deep as a plan of some thousand nodes."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
