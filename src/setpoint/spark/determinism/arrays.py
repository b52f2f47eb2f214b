"""Functions of arrays: when the order of the elements shows in their answer.

A lambda is read as the plan has it: its body, then its variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from setpoint.spark.determinism import tree
from setpoint.spark.determinism.catalogue import FOLDS, KEEPS_ARRAY, ORDERLESS
from setpoint.spark.determinism.facts import Taints
from setpoint.spark.determinism.tree import Expression

_LAMBDA = "lambda_function"
_COMPARISON = frozenset(
    (_LAMBDA, "if", "and", "is_null", "isnull", "less_than", "greater_than")
) | {tree.VARIABLE, tree.LITERAL, tree.GROUP}
_COMPARISON_WORDS = frozenset(
    ("0", "1", "-1", "if", "else", "AND", "<", ">", "-", "lambda", "left", "right", "false", "true")
) | {"lambda left", "lambda right"}
# Operations whose result is the same in whatever order they are done, on whole numbers.
_COMMUTES = frozenset(
    ("add", "multiply", "and", "or", "greatest", "least", "bitwise_and", "bitwise_or")
) | {"bitwise_xor"}
_COMMUTES_WORDS = frozenset(["+", "*", "AND", "OR", "&", "|", "^"])
_WHOLE = re.compile(r"-?\d+L?|true|false")


def after(expression: Expression, arguments: Sequence[Taints]) -> Taints:
    """The taints of a value, given those of its arguments."""
    name = expression.name
    if arguments and (_is_orderless(expression) or _is_sum(expression)):
        first = frozenset(item for item in arguments[0] if not item.array)
        return first | settled(union(arguments[1:]))
    keeps = name in KEEPS_ARRAY and not _sees_places(expression)
    found = union(arguments)
    return found if keeps or name in (tree.ALIAS, tree.GROUP) else settled(found)


def union(parts: Iterable[Taints]) -> Taints:
    return frozenset(item for part in parts for item in part)


def settled(taints: Taints) -> Taints:
    """Taints after a function for which the order of an array counts."""
    return frozenset(replace(item, array=False) if item.array else item for item in taints)


def _is_orderless(expression: Expression) -> bool:
    """Whether the order does not count; with a comparison of the user's there may be ties."""
    if expression.name != "array_sort" or len(expression.children) < 2:
        return expression.name in ORDERLESS
    names = {item.name for item in expression.children[1]}
    words = {item.label for item in expression.children[1] if item.name == tree.LITERAL}
    return names <= _COMPARISON and words <= _COMPARISON_WORDS


def _is_sum(expression: Expression) -> bool:
    """Whether an array is folded by an addition or the like, of whole numbers.

    The beginning tells the type: Spark takes no other one for what is added to it.
    """
    if expression.name not in FOLDS or len(expression.children) < 3:
        return False
    zero, merge = expression.children[1:3]
    while zero.name == "cast" and zero.type not in ("double", "float") and zero.children:
        zero = zero.children[0]
    variables = _variables(merge)
    if zero.name != tree.LITERAL or not _WHOLE.fullmatch(zero.label) or len(variables) != 2:
        return False
    body = merge.children[0]
    while body.name == tree.GROUP and len(body.children) == 1:
        body = body.children[0]
    operands = list(body.children)
    if body.name == tree.GROUP:
        if len(operands) != 3 or operands.pop(1).label not in _COMMUTES_WORDS:
            return False
    elif body.name not in _COMMUTES:
        return False
    mentions = [operand for operand in operands if variables[0] in _labels(operand)]
    return len(mentions) == 1 and mentions[0].label == variables[0]


def _sees_places(expression: Expression) -> bool:
    """Whether a lambda uses the place of an element: `(x, i) -> ...`."""
    for child in expression.children:
        if child.name == _LAMBDA:
            variables = _variables(child)
            return len(variables) == 2 and variables[1] in _labels(child.children[0])
    return False


def _variables(function: Expression) -> list[str]:
    """The names of a lambda's variables; text has the word `lambda` before each."""
    if function.name != _LAMBDA:
        return []
    return [
        item.label
        for item in function.children[1:]
        if item.name == tree.VARIABLE or item.label.startswith("lambda ")
    ]


def _labels(expression: Expression) -> set[str]:
    return {item.label for item in expression}
