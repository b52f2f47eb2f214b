"""A file as cells of Python and SQL: scripts, notebooks, Databricks sources, SQL files.

Python cells are put together into one text, since a notebook is one program; `lines` leads
from a line of that text back to the line of the file.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import re
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

_SEPARATOR = re.compile(r"^\s*(?:#|--|//) COMMAND -{5,}\s*$")
_MAGIC = re.compile(r"^\s*(?:#|--|//) MAGIC ?(.*)$")
_LINE_SQL = re.compile(r"^\s*%sql\s+(\S.*)$")
_DATABRICKS = re.compile(r"^(?:#|--|//) Databricks notebook source")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SOURCE = re.compile(r"\s*\"source\"\s*:\s*(\".*\")\s*,?\s*$")
SUFFIXES = (".py", ".sql", ".ipynb", ".hql", ".ddl")


@dataclass(frozen=True)
class SqlCell:
    """SQL of a notebook; `lines` has the file's line of each of its lines."""

    text: str
    lines: tuple[int, ...]
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Document:
    """What one file holds."""

    path: str
    source: tuple[str, ...]
    language: Literal["python", "sql"]
    python: str = ""
    # The file's line of each line of `python`; empty when they are the same.
    lines: tuple[int, ...] = ()
    cells: tuple[SqlCell, ...] = ()
    notebook: bool = False
    unreadable: str = ""

    def line(self, number: int) -> int:
        """The line of the file for a line of the Python text."""
        if not self.lines:
            return number
        return self.lines[min(max(number - 1, 0), len(self.lines) - 1)] if self.lines else number


@dataclass
class _Builder:
    """Collects the cells of a notebook in their order."""

    python: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    cells: list[SqlCell] = field(default_factory=list)

    def add(self, content: list[tuple[int, int, str]], magic: str) -> None:
        if magic in ("", "python", "pyspark", "time", "capture", "spark"):
            self._python(content)
        elif magic in ("sql", "sparksql", "bigquery", "bq"):
            self._sql(content)

    def _python(self, content: list[tuple[int, int, str]]) -> None:
        for number, column, text in content:
            inline = _LINE_SQL.match(text)
            if inline:
                self._sql([(number, column, inline[1])])
                text = ""
            if text.lstrip().startswith(("%", "!", "?")):
                text = text[: len(text) - len(text.lstrip())] + "pass"
            self.python.append(text)
            self.lines.append(number)

    def _sql(self, content: list[tuple[int, int, str]]) -> None:
        self.python.append(f"__setpoint_sql_cell__({len(self.cells)})")
        self.lines.append(content[0][0] if content else 1)
        self.cells.append(
            SqlCell(
                "\n".join(text for _, _, text in content),
                tuple(number for number, _, _ in content),
                tuple(column for _, column, _ in content),
            )
        )

    def document(self, path: str, source: list[str]) -> Document:
        return Document(
            path,
            tuple(source),
            "python",
            "\n".join(self.python) + "\n",
            tuple(self.lines) or (1,),
            tuple(self.cells),
            notebook=True,
        )


def read_document(path: str, content: bytes) -> Document:
    """The cells of a file; what cannot be read becomes an empty document that says why."""
    # Database consoles save scripts as UTF-16; its mark tells.
    encoding = "utf-16" if content.startswith(_UTF_16) else "utf-8-sig"
    text = content.decode(encoding, errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    text = text.replace("\f", " ")
    source = text.split("\n")
    if "\0" in text:
        return Document(path, tuple(source), "python", unreadable="the file is binary")
    suffix = PurePath(path).suffix.lower()
    if suffix == ".ipynb":
        return _notebook(path, text, source)
    if source and _DATABRICKS.match(source[0]):
        return _databricks(path, source, "python" if suffix == ".py" else "sql")
    if suffix in (".sql", ".hql", ".ddl"):
        return Document(path, tuple(source), "sql", text)
    return Document(path, tuple(source), "python", text)


def _databricks(path: str, source: list[str], language: str) -> Document:
    built = _Builder()
    cell: list[tuple[int, int, str]] = []
    magic: str | None = None

    def end() -> None:
        nonlocal cell, magic
        if cell:
            built.add(cell, language if magic is None else magic)
        cell, magic = [], None

    default = language
    for number, line in enumerate(source, 1):
        if _SEPARATOR.match(line):
            end()
            continue
        match = _MAGIC.match(line)
        if match:
            word = re.match(r"%(\w+)\s*(.*)", match[1])
            if word and magic is None:
                if any(text.strip() for _, _, text in cell):
                    built.add(cell, default)
                cell, magic = [], word[1].lower()
                cell.append((number, len(line) - len(word[2]) + 1, word[2]))
            else:
                cell.append((number, len(line) - len(match[1]) + 1, match[1]))
        else:
            cell.append((number, 1, line))
    end()
    return built.document(path, source)


def _notebook(path: str, text: str, source: list[str]) -> Document:
    built = _Builder()
    try:
        data = json.loads(text)
        cells = [cell for cell in data.get("cells", []) if cell.get("cell_type") == "code"]
        sources = [cell.get("source", []) for cell in cells]
        contents = ["".join(_lines(cell)) for cell in sources]
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        return Document(path, tuple(source), "python", unreadable=f"not a notebook: {error}")
    placed, whole = _placed(source), _whole(source)
    position = 0
    for cell, body in zip(sources, contents, strict=True):
        lines = body.split("\n")
        if isinstance(cell, str) and body in whole:
            # The cell is one string: all of it stands on one line of the file.
            content = [(whole[body], 1, line) for line in lines]
        else:
            position = _start(placed, position, lines)
            content = [
                (*placed[min(position + index, len(placed) - 1)][:2], line)
                for index, line in enumerate(lines)
            ]
            position += max(len(lines) - (lines[-1] == ""), 0)
        first = next((line.strip() for _, _, line in content if line.strip()), "")
        magic = re.match(r"%%(\w+)", first)
        if magic:
            content = content[1:] if content[0][2].strip() == first else content
        built.add(content, magic[1].lower() if magic else "")
    return built.document(path, source)


def _lines(source: object) -> list[str]:
    if isinstance(source, list):
        return [str(line) for line in source]
    return [str(source)]


def _placed(source: list[str]) -> list[tuple[int, int, str]]:
    """The strings of the file that stand on a line of their own, decoded."""
    found = []
    for number, line in enumerate(source, 1):
        stripped = line.strip().rstrip(",")
        if stripped.startswith('"') and stripped.endswith('"') and len(stripped) > 1:
            try:
                found.append((number, len(line) - len(line.lstrip()) + 2, json.loads(stripped)))
            except ValueError:
                continue
    decoded = [(number, column, str(text).rstrip("\n")) for number, column, text in found]
    return decoded or [(1, 1, "")]


def _whole(source: list[str]) -> dict[str, int]:
    """The cells that stand in the file as one string each, with their lines."""
    found: dict[str, int] = {}
    for number, line in enumerate(source, 1):
        match = _SOURCE.match(line)
        if match:
            with contextlib.suppress(ValueError):
                found.setdefault(str(json.loads(match[1])), number)
    return found


def _start(placed: list[tuple[int, int, str]], position: int, lines: list[str]) -> int:
    """Where the lines of a cell begin: they follow each other, one string a line."""
    wanted = lines[:4]
    for index in range(position, len(placed)):
        if [text for _, _, text in placed[index : index + len(wanted)]] == wanted:
            return index
    wanted = lines[:1]
    for index in range(position, len(placed)):
        if placed[index][2] == wanted[0]:
            return index
    return position
