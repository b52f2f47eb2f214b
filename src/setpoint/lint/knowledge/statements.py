"""SQL that a program runs: its statements become writes, reads and transactions."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.lint.findings import Place
from setpoint.lint.flows import as_read
from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge.running import Running
from setpoint.lint.knowledge.words import is_temporary
from setpoint.lint.model import Maximum, Mode, Table, Target, Write
from setpoint.lint.sql.mask import WORD
from setpoint.lint.sql.statement import Statement
from setpoint.lint.texts import shown
from setpoint.lint.values import NO_TAINTS, Connection, Frame, Taint, Value

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_SQL = re.compile(
    r"(?:^|[\s;(])(?:insert\s+(?:into|overwrite|or|ignore)|delete\s+from|truncate\b|merge\s+into|update\s+[\w.{}\"`]+\s+set"
    r"|create\s+(?:or\s+replace\s+)?(?:temp|table|view|external)|drop\s+table|copy\s+[\w.{}\"`]+|select\b|with\s+\w+\s+as"
    r"|replace\s+into|begin\b|commit\b|alter\s+table|call\s+\w+|exec\s)",
    re.IGNORECASE,
)
_MODES: dict[str, Mode] = {
    "insert": "append", "copy": "append", "overwrite": "overwrite", "replace": "merge",
    "upsert": "merge", "ignore": "ignore", "merge": "merge", "update": "update",
    "delete": "delete", "truncate": "truncate", "drop": "drop", "create": "create",
    "create_as": "create_as", "rename": "rename",
}  # fmt: skip
_RETURNING = re.compile(r"\breturning\s+[\w.]*(?:id|key|sk)\b", re.IGNORECASE)
_KEY_MAX = re.compile(
    r"max\s*\(\s*[`\"]?(?:\w+\.)*[`\"]?(\w*?(?:id|key|sk|number|no|seq))[`\"]?\s*\)", re.IGNORECASE
)


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
    largest = _KEY_MAX.search(statement.text)
    if largest:
        place = running.place(statement.offset)
        for source in statement.sources:
            machine.trace.maxima.append(
                Maximum(place, running.key(source), largest[1].lower(), machine.order)
            )
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
