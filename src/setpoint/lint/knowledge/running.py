"""A SQL text on its way to the database: its statements, with the values of their marks."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.lint.findings import Place
from setpoint.lint.flows import as_read
from setpoint.lint.knowledge.words import is_dated
from setpoint.lint.sql.mask import WORD, Mark, Masked
from setpoint.lint.sql.parse import read_sql
from setpoint.lint.sql.statement import Statement
from setpoint.lint.texts import Rendered
from setpoint.lint.values import BY_ID, NO_TAINTS, Taint, TaintKind, Value

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_LOGICAL = re.compile(
    r"\b(?:ds|ds_nodash|ts|execution_date|logical_date|data_interval\w*|next_ds|prev_ds|dag_run)\b"
)


class Running:
    """A text on its way to the database: statements, with the values of their marks."""

    def __init__(
        self, machine: Machine, value: Value, place: Place, dialect: str, params: Value | None
    ) -> None:
        self.machine = machine
        self.rendered = Rendered(value.parts or (), place)
        self.masked: Masked
        self.masked, self.statements = read_sql(
            self.rendered.text, dialect, deep=machine.program.model
        )
        self._params = _bound(machine, self.masked, params)
        # Values whose marks the program fills in: `VALUES ({", ".join(["%s"] * n)})`.
        marked = any(mark.kind == "param" for mark in self.masked.marks.values())
        self.unmarked = params if not marked else None
        given = value.taints | (params.everything() if params is not None else NO_TAINTS)
        self.new = frozenset(taint for taint in given if taint.kind == "new")

    def place(self, offset: int) -> Place:
        return self.rendered.place(offset)

    def taints(self, word: str) -> frozenset[Taint]:
        """What stands behind a mark."""
        mark = self.masked.marks.get(word)
        if mark is None:
            return NO_TAINTS
        kinds: dict[str, TaintKind] = {
            "clock": "clock", "random": "random", "mono": "mono", "serial": "serial",
        }  # fmt: skip
        if mark.kind in kinds:
            return frozenset({Taint(kinds[mark.kind], self.place(mark.offset), mark.text)})
        if mark.kind == "param":
            return self._params.get(word, NO_TAINTS)
        if mark.kind == "hole":
            return self._hole(mark)
        return NO_TAINTS

    def _hole(self, mark: Mark) -> frozenset[Taint]:
        if mark.hole is not None and mark.hole < len(self.rendered.holes):
            hole = self.rendered.holes[mark.hole]
            found = hole.value.everything()
            if not found and is_dated(hole.label):
                found = frozenset({Taint("outside", self.place(mark.offset), hole.label)})
            return found
        if _LOGICAL.search(mark.text):
            return frozenset({Taint("logical", self.place(mark.offset), mark.text)})
        if is_dated(mark.text):
            return frozenset({Taint("outside", self.place(mark.offset), mark.text)})
        return NO_TAINTS

    def key(self, name: str) -> str:
        """A name of the statement with the program's words in its holes."""

        def word(match: re.Match[str]) -> str:
            mark = self.masked.marks.get(match[0])
            if mark is None:
                return match[0]
            if mark.hole is not None and mark.hole < len(self.rendered.holes):
                return "{" + self.rendered.holes[mark.hole].label.lower() + "}"
            return "{" + mark.text.strip("{}$ ").lower() + "}" if mark.kind != "this" else "this"

        return WORD.sub(word, name)

    def columns(self, statement: Statement) -> dict[str, frozenset[Taint]]:
        found: dict[str, frozenset[Taint]] = {}
        for stored in statement.stored:
            taints: frozenset[Taint] = NO_TAINTS
            for word in stored.marks:
                taints = taints | self.taints(word)
            if taints:
                found[stored.name] = found.get(stored.name, NO_TAINTS) | taints
        for name, word in statement.unordered_ranks:
            found[name] = found.get(name, NO_TAINTS) | {
                Taint("mono", self._at(word), "row_number() without an order")
            }
        for name, word, by_id in statement.ranks:
            label = BY_ID if by_id else "row_number()"
            found[name] = found.get(name, NO_TAINTS) | {Taint("rank", self._at(word), label)}
        return found

    def _at(self, word: str) -> Place:
        return self.place(self.masked.marks[word].offset)

    def rows(self, statement: Statement) -> frozenset[Taint]:
        """What decides which rows the statement takes."""
        found: set[Taint] = set()
        for word in statement.filters:
            taints = as_read(self.taints(word))
            if word in statement.until:
                taints = frozenset(
                    replace(taint, via="until") if taint.via == "read" else taint
                    for taint in taints
                )
            found |= taints
        for pick in statement.picks:
            offset = pick.offset
            if offset < 0:
                match = re.search(r"distinct\s+on", self.rendered.text, re.IGNORECASE)
                offset = match.start() if match else statement.offset
            found.add(Taint("pick", self.place(offset), pick.reason))
        for lower in statement.lower:
            if is_dated(lower.column) or re.search(r"updat|modif|creat|_at$", lower.column):
                found.add(Taint("bound", self._at(lower.mark), lower.column))
        for source in statement.sources:
            key = self.key(source)
            view = self.machine.views.get(key)
            if view is not None:
                found |= view.rows
            else:
                found.add(Taint("read", self.place(statement.offset), key))
        return frozenset(found)


def _bound(machine: Machine, masked: Masked, params: Value | None) -> dict[str, frozenset[Taint]]:
    words = [word for word, mark in masked.marks.items() if mark.kind == "param"]
    if params is None or not words:
        return {}
    row = params
    if (
        row.items
        and len(row.items) == 1
        and (row.items[0].items is not None or row.items[0].fields is not None)
    ):
        row = row.items[0]
    found: dict[str, frozenset[Taint]] = {}
    for index, word in enumerate(words):
        name = re.sub(r"[%():@s]", "", masked.marks[word].text, count=0)
        exact = re.sub(r"^%\(|\)s$|^[:@]", "", masked.marks[word].text)
        if row.fields is not None and (exact in row.fields or name in row.fields):
            found[word] = row.fields.get(exact, row.fields.get(name, Value())).everything()
        elif row.items is not None and len(row.items) >= len(words) > 0:
            # Where a part of the text is filled in, its values come first.
            found[word] = row.items[index - len(words)].everything()
        else:
            found[word] = row.everything()
    return found
