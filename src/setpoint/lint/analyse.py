"""One file to its findings: document, tree, model, rules."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from dataclasses import replace
from pathlib import PurePosixPath

from setpoint.lint import rules
from setpoint.lint.document import Document, SqlCell, read_document
from setpoint.lint.findings import Finding, Place
from setpoint.lint.interpret.machine import Machine
from setpoint.lint.kinds import META, UNREADABLE
from setpoint.lint.knowledge.running import Running
from setpoint.lint.knowledge.statements import run_sql
from setpoint.lint.knowledge.words import tokens
from setpoint.lint.model import Program, Target
from setpoint.lint.parsing import parse
from setpoint.lint.texts import Piece
from setpoint.lint.values import Connection, Value
from setpoint.lint.vocabulary import vocabulary

_DBT = re.compile(
    r"\{\{-?\s*(?:config\s*\(|ref\s*\(|source\s*\()|\{%-?\s*(?:snapshot|if\s+is_incremental)"
)
# A macro is a text that models fill in; what becomes of it is seen there.
_MACRO = re.compile(r"\{%-?\s*(?:macro|materialization|test)\b")
_CONFIG = re.compile(r"\{\{-?\s*config\s*\((.*?)\)\s*-?\}\}", re.DOTALL)
# What a file calls itself: a maker of test data, a first filling of an empty database.
_MAKERS = vocabulary("dummy generator generation fake mock synthetic simulator faker")
_SEEDS = vocabulary("init seed seeds setup bootstrap fixtures sample migrate migration")
# Folders through which an application reaches its database: a request asked for what they insert.
_ACCESS = vocabulary("db dao crud repository repositories models api views routes webserver web")
_CELL = "__setpoint_sql_cell__"


def analyse(path: str, content: bytes) -> list[Finding]:
    """The findings of one file, in the order of its lines."""
    document = read_document(path, content)
    program = _called(document)
    lost: tuple[int, ...] = ()
    if document.unreadable:
        return [_unreadable(path, 1, document.unreadable)]
    if document.language == "sql":
        _sql_file(document, program)
    else:
        tree, lost = parse(document.python)
        machine = _Notebook(program, document)
        machine.module(tree)
        program.generator = program.generator or bool(tokens(path) & _MAKERS)
    found = [_placed(document, finding) for finding in rules.check(program)]
    found = [
        replace(finding, path=path, text=_line(document, finding.place.line)) for finding in found
    ]
    if lost:
        found.append(
            _unreadable(
                path,
                document.line(lost[0]),
                f"{len(lost)} line(s) could not be parsed and were left out",
            )
        )
    return sorted(set(found), key=Finding.order)


def _called(document: Document) -> Program:
    """An empty program that knows what its file and its folder say about it."""
    path = PurePosixPath(document.path)
    return Program(
        seeds=document.language == "sql" and bool(tokens(path.stem) & _SEEDS),
        script=document.language == "sql",
        access=document.language == "python" and not _ACCESS.isdisjoint(path.parts[:-1]),
    )


def _unreadable(path: str, line: int, why: str) -> Finding:
    return Finding(
        UNREADABLE,
        META[UNREADABLE],
        Place(line),
        f"{why[:200]}.",
        "Mend the syntax, or leave the file out.",
        "info",
        path,
    )


def _placed(document: Document, finding: Finding) -> Finding:
    if not document.lines:
        return finding
    place = finding.place
    if place.line < 0:
        # A place inside a SQL cell is one of the file already.
        return replace(finding, place=replace(place, line=-place.line, end_line=-place.line))
    return replace(
        finding,
        place=replace(
            place,
            line=document.line(place.line),
            end_line=document.line(place.end_line or place.line),
        ),
    )


def _line(document: Document, number: int) -> str:
    return document.source[number - 1] if 0 < number <= len(document.source) else ""


class _CellSource:
    """Finds characters of a SQL cell in the file; lines are negative to tell them apart."""

    def __init__(self, cell: SqlCell, sign: int = -1) -> None:
        self._cell = cell
        self._sign = sign
        self._starts = [0]
        for match in re.finditer("\n", cell.text):
            self._starts.append(match.end())

    def place(self, offset: int) -> tuple[int, int]:
        row = min(bisect_right(self._starts, offset) - 1, len(self._cell.lines) - 1)
        if row < 0:
            return self._sign, 1
        return self._sign * self._cell.lines[row], offset - self._starts[row] + self._cell.columns[
            row
        ]


class _Notebook(Machine):
    """A program whose SQL cells run where they stand."""

    def __init__(self, program: Program, document: Document) -> None:
        super().__init__(program, document.python.split("\n"))
        self._cells = document.cells

    def _do_expr(self, node: ast.Expr) -> None:
        value = node.value
        if (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Name)
            and value.func.id == _CELL
        ):
            number = getattr(value.args[0], "value", 0)
            if isinstance(number, int) and number < len(self._cells):
                cell = self._cells[number]
                text = Value(parts=(Piece(cell.text, _CellSource(cell)),))
                # Each statement of a SQL cell is a commit of its own.
                connection = Connection("cell", autocommit=True)
                run_sql(
                    self,
                    text,
                    Place(-cell.lines[0] if cell.lines else 1),
                    connection,
                    dialect="spark",
                    api="%sql",
                )
            return
        super()._do_expr(node)


def _sql_file(document: Document, program: Program) -> None:
    text = "\n".join(document.source)
    lines = tuple(range(1, len(document.source) + 1))
    cell = SqlCell(text, lines, tuple(1 for _ in lines))
    value = Value(parts=(Piece(text, _CellSource(cell, 1)),))
    machine = Machine(program, document.source)
    if _MACRO.search(text):
        return
    if _DBT.search(text):
        _model(machine, value, text, program)
        return
    # Nobody knows who runs a script: as long as it does not say so, its statements are not split.
    run_sql(machine, value, Place(1), Connection("script"), api="INSERT")


def _model(machine: Machine, value: Value, text: str, program: Program) -> None:
    """A dbt model: its query is what gets stored."""
    program.model = True
    config = " ".join(match[1] for match in _CONFIG.finditer(text))
    kind = re.search(r"materialized['\"]?\s*[=:]\s*['\"](\w+)", config)
    materialised = kind[1] if kind else ""
    if materialised in ("view", "ephemeral"):
        return
    running = Running(machine, value, Place(1), "", None)
    incremental = materialised == "incremental"
    strategy = re.search(r"incremental_strategy['\"]?\s*[=:]\s*['\"](\w+)", config)
    keyed = "unique_key" in config or (
        strategy is not None
        and strategy[1]
        in ("insert_overwrite", "merge", "delete+insert", "microbatch", "replace_where")
    )
    for statement in running.statements:
        if statement.verb != "select":
            continue
        place = running.place(statement.offset)
        if incremental and not keyed:
            match = re.search(r"materialized['\"]?\s*[=:]", text)
            line = text.count("\n", 0, match.start()) + 1 if match else 1
            place = Place(line)
        machine.wrote(
            place,
            Target("this model"),
            "append" if incremental and not keyed else "merge" if incremental else "overwrite",
            "dbt's incremental append" if incremental else "dbt",
            columns=running.columns(statement),
            rows=running.rows(statement),
        )
