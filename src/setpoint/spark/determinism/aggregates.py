"""Functions of many rows: when their answer depends on the order in which the rows come."""

from __future__ import annotations

from dataclasses import dataclass

from setpoint.spark.determinism import tree
from setpoint.spark.determinism.catalogue import (
    APPROXIMATE,
    BY_PLACE,
    BY_VALUE,
    COLLECTS,
    EXTREMES,
    FLOAT_SUMS,
    JOINS_TEXT,
    PICKS,
)
from setpoint.spark.determinism.facts import (
    NONE,
    Facts,
    Ids,
    Taint,
    Taints,
    condition_of,
    constants,
    identified,
)
from setpoint.spark.determinism.numbers import is_float
from setpoint.spark.determinism.tree import Expression


@dataclass(frozen=True)
class Group:
    """The rows that an aggregate is made of: what is the same in all of them.

    `keys` are the columns that the keys of the groups are made of.
    """

    fixed: Ids
    keys: Ids
    facts: Facts

    @property
    def single(self) -> bool:
        """Whether there is at most one row, by the way the rows were made."""
        return self.facts.is_one_row(self.fixed)


@dataclass(frozen=True)
class Over:
    """The window of a window function; `live` are the columns that somebody needs."""

    facts: Facts
    fixed: Ids
    ordered: Ids
    has_order: bool
    frame: str
    live: Ids

    def is_total(self, arguments: Ids) -> bool:
        """Whether rows that tie are the same in all that counts."""
        return self.live | arguments <= self.ordered or self.facts.is_one_row(self.ordered)


def aggregate_taints(function: Expression, facts: Facts, group: Group) -> Taints:
    """What taints an aggregate by itself, beside what taints its arguments."""
    if group.single:
        return NONE
    if function.name in FLOAT_SUMS:
        return _float(function)
    if function.references <= group.fixed:
        return NONE
    if _is_pivoted(function, group):
        return NONE
    return _by_values(function, facts, group.fixed) or _by_order(function)


def window_taints(function: Expression, over: Over) -> Taints:
    """What taints a window function by itself."""
    if function.name == tree.GROUP and function.children:
        function = function.children[0]  # the others are its filter
    name, arguments = function.name, function.references
    if name in BY_VALUE or over.facts.is_one_row(over.fixed):
        return NONE
    if over.has_order and over.is_total(arguments):
        return _float(function)
    kind = "ties" if over.has_order else "unordered"
    if name in BY_PLACE:
        # Which values there are among rows that tie is certain; which row has which is not.
        tied = over.ordered if over.has_order and arguments <= over.ordered else None
        return _one(kind, function, tied=tied)
    if name in PICKS or name == "nth_value":
        settled = arguments <= (over.ordered if over.has_order else over.fixed)
        return NONE if settled else _one(kind, function)
    if name in COLLECTS:
        if arguments <= over.fixed and over.frame != "rows":
            return NONE
        return _one(kind, function, array=over.frame != "rows")
    if over.frame == "rows":
        return _one(kind, function)
    return _by_values(function, over.facts, over.fixed) or _by_order(function)


def _by_values(function: Expression, facts: Facts, fixed: Ids) -> Taints:
    """Functions that can be exact, if what they order by tells rows apart."""
    name, children = function.name, function.children
    if name in EXTREMES and len(children) >= 2:
        decided = facts.closure(fixed | identified(children[1]))
        return NONE if children[0].references <= decided else _one("ties", function)
    if name in JOINS_TEXT:
        order = [item for item in children if item.name == tree.ORDER]
        decided = facts.closure(fixed.union(*(identified(item) for item in order)))
        kind = "ties" if order else "unordered"
        return NONE if children[0].references <= decided else _one(kind, function)
    if name == "mode":
        return NONE if function.label == "ordered" else _one("ties", function)
    if name in APPROXIMATE:
        return _one("approximate", function)
    return _float(function)


def _by_order(function: Expression) -> Taints:
    name = function.name
    if name in PICKS:
        return _one("unordered", function)
    return _one("unordered", function, array=True) if name in COLLECTS else NONE


def _float(function: Expression) -> Taints:
    if function.name in FLOAT_SUMS and any(is_float(item) for item in function.children):
        return _one("float_key", function)
    return NONE


def _is_pivoted(function: Expression, group: Group) -> bool:
    """Whether a pick has one row to pick from: first(if(month = 'May', total, null), true)."""
    children = function.children
    told = children and children[-1].name == tree.LITERAL and children[-1].label == "true"
    ignores = function.label == tree.IGNORES_NULLS or told
    condition = condition_of(children[0]) if function.name in PICKS and ignores else None
    if condition is None:
        return False
    facts = group.facts
    return facts.is_one_row(facts.closure(group.fixed.union(constants(condition))))


def _one(
    kind: str, function: Expression, *, array: bool = False, tied: Ids | None = None
) -> Taints:
    return frozenset((Taint(kind, function.text, function.path, array=array, tied=tied),))
