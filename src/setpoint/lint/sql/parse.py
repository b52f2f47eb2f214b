"""Masked SQL to statements, through sqlglot where there is something to understand."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from setpoint.lint.sql.mask import Masked, statements
from setpoint.lint.sql.shallow import shallow
from setpoint.lint.sql.statement import Statement

_WORTH = re.compile(
    r"sp_(?:clock|random|mono|serial|rownum|limit|user)_|distinct\s+on\b|any_value|\bfirst(?:_value)?\s*\("
    r"|max\s*\(|qualify\b|>=?\s*(?:'?\s*sp_|coalesce|to_|cast|date|\()",
    re.IGNORECASE,
)
_CLAUSES = re.compile(r"^[ \t]*sp_hole_\d+[ \t]*$", re.MULTILINE)
_LONGEST = 40_000
_DIALECTS = ("postgres", "spark", "bigquery", "snowflake", "tsql", "mysql")


def read_sql(text: str, dialect: str = "", *, deep: bool = False) -> tuple[Masked, list[Statement]]:
    """The statements of a text. With `deep` plain queries are understood too."""
    masked = Masked(text)
    found = []
    for start, statement in statements(masked.text):
        offset = masked.offset(start)
        found.append(_read(statement, offset, start, masked, dialect, deep))
    return masked, found


def _read(
    statement: str, offset: int, start: int, masked: Masked, dialect: str, deep: bool
) -> Statement:
    plain = shallow(statement, offset, lambda position: masked.offset(start + position))
    queries = plain.verb in ("select", "view")
    if plain.verb not in _TREES or (queries and not deep and not _WORTH.search(statement)):
        return plain
    if len(statement) > _LONGEST:
        return plain
    # Inside a block the statement is a part of the text.
    tree = _tree(plain.text or statement, dialect)
    if tree is None:
        return plain
    from setpoint.lint.sql.tree import understood

    return understood(plain, tree, masked.marks)


_TREES = (
    "select",
    "insert",
    "overwrite",
    "replace",
    "upsert",
    "ignore",
    "merge",
    "update",
    "delete",
    "create_as",
    "view",
)


@lru_cache(maxsize=2048)
def _tree(statement: str, dialect: str) -> Any | None:
    import logging

    import sqlglot

    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    tried = [dialect] if dialect else []
    tried += [name for name in _DIALECTS if name not in tried]
    attempts = [(statement, name) for name in tried[:4]]
    # A hole that has a line for itself may stand for whole clauses, such as joins.
    without = _CLAUSES.sub("", statement)
    if without != statement:
        attempts += [(without, name) for name in tried[:2]]
    for text, name in attempts:
        try:
            tree = sqlglot.parse_one(text, dialect=name)
        except Exception:
            # Anything may be wrong with a text from a stranger's file, and the parser raises more
            # than its own errors; the shallow reading remains.
            continue
        if type(tree).__name__ != "Command":
            return tree
    return None
