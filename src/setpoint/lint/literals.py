"""String literals in the file: the line and column of each character of the decoded text.

Prefixes, escapes, continued lines, literals side by side and the holes of f-strings all lie
between an offset in a text and its place. The literal is scanned once, when a place is asked for.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

_OPENING = re.compile(r"(?i)([rbfut]{0,3})('''|\"\"\"|'|\")")
_PLAIN = re.compile(r"[^\\{}'\"]+")
_ESCAPE = re.compile(
    r"\\(?:\r?\n|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|[0-7]{1,3}|.)",
    re.DOTALL,
)


@dataclass
class _Runs:
    """Characters that follow each other in the text and in the file: where each run begins."""

    offsets: list[int] = field(default_factory=list)
    raw: list[int] = field(default_factory=list)
    length: int = 0

    def add(self, index: int, count: int) -> None:
        self.offsets.append(self.length)
        self.raw.append(index)
        self.length += count


class StringSource:
    """A string literal of the program."""

    __slots__ = ("_column", "_lines", "_node", "_runs", "_starts")

    def __init__(self, node: ast.expr, lines: Sequence[str]) -> None:
        self._node = node
        self._lines = lines
        self._runs: _Runs | None = None
        self._starts: list[int] = []
        self._column = 0

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of a character of the decoded text, holes left out."""
        if self._runs is None:
            self._runs = self._scan()
        runs = self._runs
        if not runs.length:
            return self._node.lineno, self._node.col_offset + 1
        offset = min(max(offset, 0), runs.length - 1)
        run = bisect_right(runs.offsets, offset) - 1
        index = runs.raw[run] + offset - runs.offsets[run]
        row = bisect_right(self._starts, index) - 1
        shift = self._column if row == 0 else 0
        return self._node.lineno + row, index - self._starts[row] + 1 + shift

    def _scan(self) -> _Runs:
        runs = _Runs()
        first, last = self._node.lineno, self._node.end_lineno or self._node.lineno
        if first < 1 or last > len(self._lines):
            return runs
        opening = self._lines[first - 1]
        # Columns of the syntax tree count bytes.
        self._column = len(opening.encode()[: self._node.col_offset].decode(errors="ignore"))
        raw = "\n".join([opening[self._column :], *self._lines[first:last]])
        self._starts = [0, *(match.end() for match in re.finditer("\n", raw))]
        index = 0
        while index < len(raw):
            if raw[index] == "#":
                end = raw.find("\n", index)
                index = len(raw) if end < 0 else end
                continue
            quote = _OPENING.match(raw, index)
            index = _literal(raw, quote, runs) if quote is not None else index + 1
        return runs


def _literal(raw: str, opening: re.Match[str], runs: _Runs) -> int:
    prefix, quote = opening[1].lower(), opening[2]
    index = opening.end()
    while index < len(raw):
        plain = _PLAIN.match(raw, index)
        if plain is not None:
            runs.add(index, plain.end() - index)
            index = plain.end()
            continue
        if raw.startswith(quote, index):
            return index + len(quote)
        character = raw[index]
        if character == "\\" and "r" not in prefix:
            escape = _ESCAPE.match(raw, index)
            if escape is None or escape[0][-1] != "\n":
                runs.add(index, 1)
            index = escape.end() if escape is not None else index + 1
        elif character in "{}" and "f" in prefix and not raw.startswith(character * 2, index):
            index = _behind_hole(raw, index)
        else:
            runs.add(index, 1)
            index += 2 if character in "{}" and "f" in prefix else 1
    return index


def _behind_hole(raw: str, index: int) -> int:
    depth = 0
    while index < len(raw):
        if raw[index] == "{":
            depth += 1
        elif raw[index] == "}":
            depth -= 1
            if depth <= 0:
                return index + 1
        index += 1
    return index
