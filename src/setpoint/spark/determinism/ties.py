"""Rows that tie and have changed places: when nobody can tell.

`lag(ts)` in the order of `ts` gives rows that tie other values on another run, but together they
have the same values. So a sum over all of them is certain: the session number of every textbook.
"""

from __future__ import annotations

from dataclasses import replace

from setpoint.spark.determinism.facts import Facts, Ids, Taint, Taints
from setpoint.spark.determinism.tree import Expression

NOTHING: Ids = frozenset()


def healed(taints: Taints, divided: Ids) -> Taints:
    """What is left after all rows that tie were taken together.

    They are, if the rows were divided by nothing but columns in which those that tie agree.
    """
    return frozenset(item for item in taints if item.tied is None or not divided <= item.tied)


def loosened(taints: Taints, expression: Expression, facts: Facts) -> Taints:
    """Taints of a value that is made of other columns too, in which rows that tie may differ."""
    if all(item.tied is None for item in taints):
        return taints
    return frozenset(
        item if _others(item, expression, facts) <= (item.tied or NOTHING) else _untied(item)
        for item in taints
    )


def untied(taints: Taints) -> Taints:
    return frozenset(_untied(item) for item in taints)


def without_ties(facts: Facts) -> Facts:
    """Facts about rows of which some may be gone, or there twice."""
    if all(item.tied is None for taints in facts.taints.values() for item in taints):
        return facts
    return replace(facts, taints={one: untied(taints) for one, taints in facts.taints.items()})


def _others(taint: Taint, expression: Expression, facts: Facts) -> Ids:
    return frozenset(
        one for one in expression.references if taint not in facts.taints.get(one, frozenset())
    )


def _untied(taint: Taint) -> Taint:
    return taint if taint.tied is None else replace(taint, tied=None)
