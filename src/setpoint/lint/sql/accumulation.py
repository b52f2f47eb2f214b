"""Assignments that start from what is stored: `SET n = n + x` counts a repetition twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sqlglot import expressions as exp

_STEPS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.DPipe)
# Numbers about the row itself: how often it was touched, not what it says.
_TALLY = re.compile(r"version|revision|attempt|retr(?:y|ies)|(?:^|_)(?:seq|fail\w*|tries)(?:$|_)")


def accumulated(tree: Any) -> str:
    """The column that an UPDATE, an upsert or a MERGE moves on from its own value."""
    mine = _names(tree)
    for assignment in _assignments(tree):
        column = assignment.this.name.lower()
        if column and not _TALLY.search(column) and _own(assignment.expression, column, mine):
            return str(column)
    return ""


def _names(tree: Any) -> set[str]:
    node = tree.this
    node = node.this if isinstance(node, exp.Schema) else node
    if not isinstance(node, exp.Table):
        return {""}
    return {"", node.name.lower(), node.alias.lower()}


def _assignments(tree: Any) -> Iterator[Any]:
    if isinstance(tree, exp.Update):
        found = [tree]
    elif isinstance(tree, exp.Merge):
        found = list(tree.find_all(exp.Update))
    elif isinstance(tree, exp.Insert) and tree.args.get("conflict") is not None:
        found = [tree.args["conflict"]]
    else:
        return
    for holder in found:
        yield from (item for item in holder.expressions if isinstance(item, exp.EQ))


def _own(expression: Any, column: str, mine: set[str]) -> bool:
    for node in expression.find_all(exp.Column):
        if node.name.lower() != column or node.table.lower() not in mine:
            continue
        inside = node.parent
        step = False
        while inside is not None and inside is not expression.parent:
            if isinstance(inside, (exp.Select, exp.Values, exp.Greatest, exp.Least)):
                step = False
                break
            if isinstance(inside, exp.Anonymous) and inside.name.lower() == "values":
                step = False
                break
            step = step or isinstance(inside, _STEPS)
            inside = inside.parent
        if step:
            return True
    return False
