"""What one SQL statement does, as far as the rules ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verb = Literal[
    "select",
    "insert",  # adds rows
    "overwrite",  # INSERT OVERWRITE
    "replace",  # REPLACE INTO, INSERT OR REPLACE
    "upsert",  # ON CONFLICT DO UPDATE, ON DUPLICATE KEY
    "ignore",  # ON CONFLICT DO NOTHING, INSERT IGNORE
    "merge",
    "update",
    "delete",
    "truncate",
    "drop",
    "create",  # a table without rows
    "create_as",
    "view",
    "copy",  # COPY of files into a table
    "rename",
    "begin",
    "commit",
    "other",
]


@dataclass(frozen=True)
class Pick:
    """Some row is taken and no order says which."""

    offset: int
    reason: str


@dataclass(frozen=True)
class Stored:
    """A column that is written, and the marks that decide its value."""

    name: str
    marks: tuple[str, ...]


@dataclass(frozen=True)
class Lower:
    """A comparison `column > bound` without a partner that ends the range."""

    column: str
    mark: str


@dataclass(frozen=True)
class Statement:
    verb: Verb
    offset: int
    target: str = ""
    temporary: bool = False
    if_not_exists: bool = False
    replacing: bool = False
    columns: tuple[str, ...] = ()
    stored: tuple[Stored, ...] = ()
    filters: tuple[str, ...] = ()
    until: frozenset[str] = frozenset()
    picks: tuple[Pick, ...] = ()
    sources: frozenset[str] = frozenset()
    where: bool = False
    against_target: bool = False
    # Name, mark, and whether the order follows an id.
    ranks: tuple[tuple[str, str, bool], ...] = ()
    unordered_ranks: tuple[tuple[str, str], ...] = ()
    lower: tuple[Lower, ...] = ()
    star: bool = False
    # The names of what a query gives, in their order; empty where a star stands among them.
    projected: tuple[str, ...] = ()
    serial_columns: tuple[str, ...] = ()
    serial_offset: int = 0
    unique: bool = False
    partitioned: bool = False
    literal_rows: bool = False
    maximum: bool = False
    # More tables that a TRUNCATE or a DROP names.
    also: tuple[str, ...] = ()
    # The column whose new value is made of its old one.
    accumulates: str = ""
    parsed: bool = True
    text: str = ""
