"""Conditions that let a write happen only when its rows are not there yet."""

from __future__ import annotations

import ast
import re

from setpoint.lint.values import Value

_DONE = re.compile(
    r"already|processed|imported|ingested|\bseen|duplicate|completed|is_loaded|has_loaded|has_run"
    r"|is_done|skip",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"IntegrityError|UniqueViolation|Duplicate(?:Key|Entry)|UniqueConstraint")
_EXISTS = re.compile(r"exist|is_?delta_?table", re.IGNORECASE)
_NEW = re.compile(
    r"\bis_new|\bmissing|not_exist|\bnew_(?:ids|rows|records|keys|files)", re.IGNORECASE
)


def words(node: ast.AST) -> str:
    """The names that an expression mentions."""
    found = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found.append(inner.id)
        elif isinstance(inner, ast.Attribute):
            found.append(inner.attr)
    return " ".join(found)


def verdict(test: ast.expr, value: Value) -> tuple[int, frozenset[str]]:
    """Says a true test that the rows are there (+1), that they are not (-1), or neither (0)?

    The second part names the tables that the test has looked at; empty means any.
    """
    sign, inner = 1, test
    while True:
        if isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.Not):
            sign, inner = -sign, inner.operand
        elif isinstance(inner, ast.Compare) and len(inner.ops) == 1:
            sign *= _sign(inner.ops[0], inner.comparators[0])
            inner = inner.left
        else:
            break
    if _decided(test):
        return -1, frozenset()
    named = words(test)
    if _NEW.search(named):
        return -sign, frozenset()
    if _DONE.search(named) or _EXISTS.search(named):
        return sign, frozenset()
    tables = frozenset(
        taint.label for taint in value.everything() if taint.kind in ("read", "whole")
    )
    return (sign, tables) if tables else (0, frozenset())


def _decided(test: ast.expr) -> bool:
    """Was it decided before what becomes of the row? `if row["action"] == "INSERT"`"""
    return any(
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.lower() in ("insert", "update", "upsert", "new", "changed", "delete")
        for node in ast.walk(test)
    )


def _sign(operator: ast.cmpop, other: ast.expr) -> int:
    empty = isinstance(other, ast.Constant) and other.value in (0, None, False)
    match operator:
        case ast.Is() | ast.Eq():
            return -1 if empty else 1
        case ast.NotIn():
            return -1
        case ast.NotEq() | ast.IsNot():
            return 1 if empty else -1
        case ast.LtE() | ast.Lt():
            return -1
    return 1


def refuses(caught: ast.expr) -> bool:
    """Is a handler there for rows that the database has already, and refuses?"""
    return bool(_REFUSED.search(words(caught)))


def ends(body: list[ast.stmt]) -> bool:
    """Does a block leave its function or its turn of the loop?"""
    for statement in body:
        if isinstance(statement, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
            return True
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            name = words(statement.value.func).split(" ")
            if name[-1] in ("exit", "_exit") or name[0] in ("exit", "quit") or "exit" in name:
                return True
    return False
