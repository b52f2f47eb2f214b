"""SQL that a program runs: its statements become writes, reads and transactions."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.lint.findings import Place
from setpoint.lint.flows import as_read
from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge.words import is_dated, is_temporary
from setpoint.lint.model import Mode, Table, Target, Write
from setpoint.lint.sql.mask import WORD, Mark, Masked
from setpoint.lint.sql.parse import read_sql
from setpoint.lint.sql.statement import Statement
from setpoint.lint.texts import Rendered, shown
from setpoint.lint.values import BY_ID, NO_TAINTS, Connection, Frame, Taint, TaintKind, Value

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_SQL = re.compile(
    r"(?:^|[\s;(])(?:insert\s+(?:into|overwrite|or|ignore)|delete\s+from|truncate\b|merge\s+into|update\s+[\w.{}\"`]+\s+set"
    r"|create\s+(?:or\s+replace\s+)?(?:temp|table|view|external)|drop\s+table|copy\s+[\w.{}\"`]+|select\b|with\s+\w+\s+as"
    r"|replace\s+into|begin\b|commit\b|alter\s+table|call\s+\w+|exec\s)",
    re.IGNORECASE,
)
_LOGICAL = re.compile(
    r"\b(?:ds|ds_nodash|ts|execution_date|logical_date|data_interval\w*|next_ds|prev_ds|dag_run)\b"
)
_MODES: dict[str, Mode] = {
    "insert": "append", "copy": "append", "overwrite": "overwrite", "replace": "merge",
    "upsert": "merge", "ignore": "ignore", "merge": "merge", "update": "update",
    "delete": "delete", "truncate": "truncate", "drop": "drop", "create": "create",
    "create_as": "create_as", "rename": "rename",
}  # fmt: skip
_RETURNING = re.compile(r"\breturning\s+[\w.]*(?:id|key|sk)\b", re.IGNORECASE)
_KEY_MAX = re.compile(r"max\s*\(\s*[\w.`\"]*?(?:id|key|sk|number|no|seq)[`\"]?\s*\)", re.IGNORECASE)


def looks_like_sql(value: Value | None) -> bool:
    """Is a text SQL, as far as its first words tell?"""
    if value is None or value.parts is None:
        return False
    return bool(_SQL.search(shown(value.parts)[:20_000]))


def table_target(name: Value, schema: Value | None = None) -> Target:
    """A table by the value that names it."""
    text = _key(name)
    if schema is not None and (schema.parts is not None or schema.label) and "." not in text:
        text = f"{_key(schema)}.{text}"
    return Target(text, "table")


def _key(value: Value) -> str:
    text = (
        shown(value.parts)
        if value.parts is not None
        else "{" + value.label + "}"
        if value.label
        else ""
    )
    return re.sub(r"[`\"\[\]]", "", text).strip().lower()


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
        given = params.everything() if params is not None else NO_TAINTS
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


def run_sql(
    machine: Machine,
    value: Value | None,
    call_place: Place,
    connection: Connection | None,
    *,
    dialect: str = "",
    params: Value | None = None,
    own: bool = False,
    api: str = "execute",
) -> Frame | None:
    """Runs a text in the model. With `own` the text is one transaction of its own."""
    if value is None or value.parts is None or not looks_like_sql(value):
        return None
    running = Running(machine, value, call_place, dialect, params)
    transaction = machine.transaction(None if own else connection)
    frame: Frame | None = None
    began = 0
    single = connection is not None and connection.autocommit and not machine.atomic and not own
    for statement in running.statements:
        if statement.verb == "begin":
            began += 1
            transaction = f"{transaction}/{began}"
            single = False
        elif statement.verb == "commit":
            if not began and statement.text.lower().startswith("end"):
                continue  # the end of a block, not of a transaction
            if connection is not None:
                connection.transaction += 1
            transaction = machine.transaction(None if own else connection)
        elif statement.verb in ("select", "view"):
            frame = _select(machine, running, statement)
            if connection is not None:
                connection.last_read = frame.rows
        elif statement.verb in _MODES:
            if single:
                transaction = machine.transaction(connection)
            write = _write(machine, running, statement, transaction, api)
            if connection is not None and write.mode == "append" and not write.guarded:
                connection.last_read = _returned(running, statement)
    return frame


def _select(machine: Machine, running: Running, statement: Statement) -> Frame:
    rows = running.rows(statement)
    columns = dict(running.columns(statement))
    for source in statement.sources:
        view = machine.views.get(running.key(source))
        if view is not None:
            text = statement.text.lower()
            for name, taints in view.columns.items():
                if statement.star or not statement.parsed or name.lower() in text:
                    columns[name] = columns.get(name, NO_TAINTS) | taints
    if _KEY_MAX.search(statement.text):
        place = running.place(statement.offset)
        for source in statement.sources:
            machine.program.readbacks.append((place, running.key(source)))
    if not statement.filters and re.search(r"group\s+by", statement.text, re.IGNORECASE):
        rows = frozenset(o for o in rows if o.kind != "bound")
    frame = Frame(
        rows=rows,
        columns=columns,
        ordered=bool(re.search(r"order\s+by", statement.text, re.IGNORECASE)),
        windowed=any(o.kind in ("outside", "logical", "clock") for o in rows),
        literal=not statement.sources,
    )
    if statement.verb == "view" and statement.target:
        machine.views[running.key(statement.target)] = frame
    return frame


def _write(
    machine: Machine, running: Running, statement: Statement, transaction: str, api: str
) -> Write:
    key = running.key(statement.target)
    target = Target(key, "table")
    place = running.place(statement.offset)
    columns = running.columns(statement)
    rows = running.rows(statement)
    for source in statement.sources:
        view = machine.views.get(running.key(source))
        if view is not None:
            for name, taints in view.columns.items():
                columns[name] = columns.get(name, NO_TAINTS) | taints
    location: frozenset[Taint] = NO_TAINTS
    for match in WORD.finditer(statement.target):
        location = location | running.taints(match[0])
    if statement.verb == "create":
        machine.program.tables.append(
            Table(
                key,
                running.place(statement.serial_offset) if statement.serial_columns else place,
                statement.serial_columns[0] if statement.serial_columns else "",
                statement.unique,
                tuple(
                    (s.name, o)
                    for s in statement.stored
                    for w in s.marks
                    for o in running.taints(w)
                ),
                statement.temporary,
                not statement.if_not_exists,
            )
        )
        columns = {}
    # A table variable lives as long as its batch.
    temporary = (
        statement.temporary
        or key.startswith("{@")
        or is_temporary(key)
        or _created_temporary(machine, key)
    )
    known = {running.key(source) for source in statement.sources}
    diffed = (
        statement.against_target
        or key in known
        or _through_difference(machine, running, statement, key)
    )
    return machine.wrote(
        place,
        target,
        _MODES[statement.verb],
        api,
        transaction=transaction,
        columns=columns,
        rows=rows | running.new if statement.verb not in ("delete", "truncate") else NO_TAINTS,
        where=rows if statement.verb in ("delete", "update") else NO_TAINTS,
        location=frozenset(o for o in location if o.kind in ("clock", "random")),
        names=statement.columns,
        temporary=temporary,
        diffed=diffed,
        scoped=statement.partitioned,
        literal=statement.literal_rows,
        statement=replace(statement, text=statement.text[:4000]),
    )


def _returned(running: Running, statement: Statement) -> frozenset[Taint]:
    """The number that an insert gives back: a counter has drawn it."""
    match = _RETURNING.search(statement.text)
    if match is None:
        return NO_TAINTS
    return frozenset({Taint("serial", running.place(statement.offset), match[0])})


def _created_temporary(machine: Machine, key: str) -> bool:
    return any(table.key == key and table.temporary for table in machine.program.tables) or any(
        write.temporary for write in machine.trace.shaped(Target(key))
    )


def _through_difference(
    machine: Machine, running: Running, statement: Statement, target: str
) -> bool:
    """Does a table that was compared with the target feed the statement?"""
    made = [
        write
        for source in statement.sources
        for write in machine.trace.shaped(Target(running.key(source)))
    ]
    for write in made:
        if write.mode == "create_as" and write.statement is not None:
            labels = {o.label for o in write.rows if o.kind == "read"}
            if any(Target(target).same(Target(label)) for label in labels):
                return True
    return False


def read_query(machine: Machine, query: Value, call: Call, connection: Value | None) -> Frame:
    """A query whose rows the program takes."""
    params = call.kwargs.get("params") or call.kwargs.get("parameters")
    frame = run_sql(machine, query, call.place, None, params=params, own=True, api=call.name)
    if frame is None:
        return Frame(rows=as_read(query.everything()))
    return frame
