"""The check as the engine calls it: the findings of a frame."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from setpoint.model.determinism import ROWS, Finding
from setpoint.spark.determinism import analysed, connect, functions, pickled
from setpoint.spark.determinism.facts import Taint
from setpoint.spark.determinism.search import Search
from setpoint.spark.determinism.tree import Expression, Node
from setpoint.spark.failures import is_passing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A chain of some hundred withColumn is a plan of that depth.
_DEPTH = 12_000


def _no_broadcast(expression: Expression, ident: int) -> bytes:
    raise LookupError(f"{expression.label} came with no broadcast variable {ident}")


def findings(frame: DataFrame, keys: Collection[str], function: Any = None) -> tuple[Finding, ...]:
    """What would make a second run of the frame differ; no Spark job runs for it.

    `keys` are the columns by which rows are found again, `function` is the user's function in
    which a line is looked for when Spark does not tell it. If the search itself fails, that is a
    finding too: nothing passes unsearched, and whoever wants to go on can allow it.
    """
    try:
        with deep():
            return _findings(frame, keys, function)
    except Exception as error:
        if isinstance(error, AnalysisException) or is_passing(error):
            raise  # the frame itself is wrong, or Spark does not answer
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return (Finding("unchecked", ROWS, f"the search failed with {said:.200}"),)


def _findings(frame: DataFrame, keys: Collection[str], function: Any) -> tuple[Finding, ...]:
    if hasattr(frame, "_jdf"):
        plan = analysed.plan_of(frame)

        def code_of(expression: Expression) -> Sequence[bytes]:
            return [analysed.command_of(frame, expression.path)]

        def broadcast_of(expression: Expression, ident: int) -> bytes:
            return analysed.broadcast_of(frame, expression.path, ident)

        def place_of(taint: Taint) -> str:
            return analysed.origin_of(frame, taint.path)

    else:
        plan, sent = connect.plan_of(frame)

        def code_of(expression: Expression) -> Sequence[bytes]:
            return sent.get(expression.label, ())

        broadcast_of = _no_broadcast

        def place_of(taint: Taint) -> str:
            return ""

    found = found_in(plan, keys, code_of, broadcast_of)
    return tuple(
        Finding(taint.kind, column, taint.expression, _place(taint, place_of, function))
        for column, taint in found
    )


def found_in(
    plan: Node,
    keys: Collection[str],
    code_of: Callable[[Expression], Sequence[bytes]],
    broadcast_of: Callable[[Expression, int], bytes] = _no_broadcast,
) -> list[tuple[str, Taint]]:
    """The taints of a plan that refuse it, each with the column that it shows in."""

    def judge(expression: Expression) -> Sequence[Taint]:
        commands = code_of(expression)
        if expression.type == "nondeterministic" or b"" in commands:
            return [Taint("udf", f"{expression.label}() says that it is not deterministic")]
        if not commands:
            return [functions.unreadable(expression.label)]
        return [
            taint
            for one in commands
            for taint in _judged(one, expression.label, partial(broadcast_of, expression))
        ]

    search = Search(judge)
    facts = search.visit(plan)
    found: dict[tuple[str, str, str], tuple[str, Taint]] = {}
    for taint in search.rows:
        found.setdefault((taint.kind, ROWS, taint.expression), (ROWS, taint))
    decisive = {_plain(taint) for taint in search.rows}
    folded = {name.lower() for name in keys}
    for item in facts.output:
        for taint in sorted(facts.taints.get(item.id, ()), key=lambda one: one.expression):
            stored = taint.kind == "float_key" and item.name.lower() not in folded
            if _plain(taint) not in decisive and not stored:
                found.setdefault((taint.kind, item.name, taint.expression), (item.name, taint))
    return list(found.values())


def _plain(taint: Taint) -> Taint:
    """A taint without what could still heal it on its way."""
    return replace(taint, array=False, tied=None)


def _judged(command: bytes, name: str, broadcast: Callable[[int], bytes]) -> list[Taint]:
    try:
        function = pickled.loaded(command, broadcast)
    except Exception:  # whatever the user's module does when it is imported
        return [functions.unreadable(name)]
    return functions.judged(function, name)


def _place(taint: Taint, place_of: Callable[[Taint], str], function: Any) -> str:
    if taint.place:
        return taint.place
    try:
        told = place_of(taint) if taint.path else ""
    except Exception:  # a line is a help, no more
        told = ""
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
