"""SQL that a program runs: its statements become writes, reads and transactions."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.lint.findings import Place
from setpoint.lint.flows import as_read
from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge.columns import as_frame
from setpoint.lint.knowledge.running import Running
from setpoint.lint.knowledge.words import is_temporary
from setpoint.lint.model import ARGUMENTS, Maximum, Mode, Table, Target, Write
from setpoint.lint.sql.mask import WORD
from setpoint.lint.sql.statement import Statement
from setpoint.lint.texts import Hole, shown
from setpoint.lint.values import NO_TAINTS, Connection, Frame, Taint, Value, joined_frames

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_SQL = re.compile(
    r"(?:^|[\s;(])(?:insert\s+(?:into|overwrite|or|ignore)|delete\s+from|truncate\b|merge\s+into|update\s+[\w.{}\"`\[\]]+\s+(?:(?:as\s+)?\w+\s+)?set"
    r"|create\s+(?:or\s+replace\s+)?(?:temp|table|view|external)|drop\s+table|copy\s+[\w.{}\"`]+|load\s+data\s|select\b|with\s+\w+\s+as"
    r"|replace\s+into|begin\b|commit\b|alter\s+table|call\s+\w+|exec\s)",
    re.IGNORECASE,
)
_MODES: dict[str, Mode] = {
    "insert": "append", "copy": "append", "overwrite": "overwrite", "replace": "merge",
    "upsert": "merge", "ignore": "ignore", "merge": "merge", "update": "update",
    "delete": "delete", "truncate": "truncate", "drop": "drop", "create": "create",
    "create_as": "create_as", "rename": "rename",
}  # fmt: skip
_FILLED = ("insert", "replace", "upsert", "ignore")
# How a table is made like another, without its rows.
_NO_ROWS = re.compile(
    r"\bwhere\s+(?:false|1\s*=\s*(?:0|2)|0\s*=\s*1)\s*\)?\s*;?\s*$", re.IGNORECASE
)
_AWAY = re.compile(
    r"^\s*put\s+'?file:\S+\s+'?(@\S+)|\bunload\s*\(.*?\)\s*to\s+'([^']+)'"
    r"|\bcopy\s+into\s+(@\S+|'(?:s3|gcs|gs|azure|abfss|wasbs)[^']*')",
    re.IGNORECASE | re.DOTALL,
)
_CALLED = re.compile(
    r"(?:^|[;\n])\s*(?:exec(?:ute)?|call)\s+(?!immediate\b)([\w.\[\]{}\"]+)", re.IGNORECASE
)
_ANY_CONFLICT = re.compile(r"\bon\s+conflict\s+do\s+nothing\b", re.IGNORECASE)
_RETURNING = re.compile(r"\breturning\s+[\w.]*(?:id|key|sk)\b", re.IGNORECASE)
_KEY_MAX = re.compile(
    r"select\s+(?:(?:coalesce|nvl|ifnull|isnull)\s*\(\s*)?max\s*\(\s*[`\"]?(?:\w+\.)*[`\"]?"
    r"(\w*?(?:id|key|sk|number|no|seq))[`\"]?\s*\)",
    re.IGNORECASE,
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


def named_by(name: Value) -> frozenset[Taint]:
    """What differs from run to run in the name of a table."""
    return frozenset(o for o in name.everything() if o.kind in ("clock", "random"))


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
    if value is None or value.parts is None:
        return None
    if value.others:
        given = (dialect, params, own, api)
        return _one_of(machine, value, call_place, connection, *given)
    _sent_away(machine, value, call_place)
    _procedure(machine, value, call_place, params)
    if not looks_like_sql(value):
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
                named = statement.projected if frame.columns else ()
                connection.last_row = tuple(
                    frame.columns.get("" if WORD.search(name) else name, NO_TAINTS)
                    for name in named
                )
        elif statement.verb in _MODES:
            if single:
                transaction = machine.transaction(connection)
            write = _write(machine, running, statement, transaction, api)
            for name in statement.also:
                other = replace(statement, target=name, also=())
                _write(machine, running, other, transaction, api)
            if connection is not None and write.mode == "append" and not write.guarded:
                connection.last_read = _returned(running, statement)
                connection.last_row = ()
    return frame


def _one_of(
    machine: Machine, value: Value, call_place: Place, connection: Connection | None,
    dialect: str, params: Value | None, own: bool, api: str,
) -> Frame | None:  # fmt: skip
    """Runs each text that a value may be; a run has one of them, never two."""
    frames: list[Frame] = []
    texts = (value.parts, *value.others)
    outer = len(machine.sides)
    for mine, parts in enumerate(texts):
        for other in range(len(texts)):
            if other != mine:
                pair = hash((id(value), min(mine, other), max(mine, other)))
                machine.sides.append((pair, mine < other))
        frame = run_sql(
            machine, replace(value, parts=parts, others=()), call_place, connection,
            dialect=dialect, params=params, own=own, api=api,
        )  # fmt: skip
        frames += [frame] if frame is not None else []
        del machine.sides[outer:]
    return joined_frames(frames) if frames else None


def _sent_away(machine: Machine, value: Value, place: Place) -> None:
    """Files that a statement writes: staged by PUT, exported by UNLOAD or COPY INTO a location."""
    holes = [part for part in value.parts or () if isinstance(part, Hole)]
    drawn = [part for part in holes if any(o.kind == "clock" for o in part.value.everything())]
    match = _AWAY.search(shown(value.parts or ())) if drawn else None
    if match is None:
        return
    where = next(group for group in match.groups() if group is not None)
    location: frozenset[Taint] = NO_TAINTS
    for part in drawn:
        if "{" + part.label + "}" in where:
            location = location | part.value.everything()
    if location:
        machine.wrote(place, Target(where.lower(), "object"), "put", "SQL", location=location)


def _procedure(machine: Machine, value: Value, place: Place, params: Value | None) -> None:
    """A procedure that is called for a day which the clock names."""
    match = _CALLED.search(shown(value.parts or ())[:4000])
    if match is None:
        return
    given = value.everything() | (params.everything() if params is not None else NO_TAINTS)
    clocks = frozenset(o for o in given if o.kind == "clock" and not o.via)
    if clocks:
        told = Target(f"{ARGUMENTS}{match[1].strip('[]')}", "path")
        machine.wrote(place, told, "put", "CALL", location=clocks)


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
    if running.unmarked is not None and statement.verb in _FILLED:
        cells = as_frame(running.unmarked)
        rows = rows | cells.rows
        for name, taints in cells.columns.items():
            columns[name] = columns.get(name, NO_TAINTS) | taints
    if "copy" in statement.text[:20].lower():
        rows = rows - _staged(machine, rows)
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
    mode = _MODES[statement.verb]
    if mode == "create_as" and _NO_ROWS.search(statement.text):
        mode, columns, rows = "create", {}, NO_TAINTS
    if mode == "ignore" and _never_conflicts(machine, statement, key):
        mode = "append"
    accumulating = mode in ("merge", "update") and bool(statement.accumulates)
    if accumulating:
        mode = "append"
    known = {running.key(source) for source in statement.sources}
    diffed = not accumulating and (
        statement.against_target
        or (key in known and bool(key.strip("{}")))
        or _through_difference(machine, running, statement, key)
    )
    return machine.wrote(
        place,
        target,
        mode,
        api,
        transaction=transaction,
        columns=columns,
        rows=rows | running.new if statement.verb not in ("delete", "truncate") else NO_TAINTS,
        where=rows if statement.verb in ("delete", "update") else NO_TAINTS,
        location=frozenset(o for o in location if o.kind in ("clock", "random")),
        names=statement.columns,
        temporary=temporary,
        outlives=temporary and _outlives(machine, statement, key),
        diffed=diffed,
        accumulating=accumulating,
        scoped=statement.partitioned,
        literal=statement.literal_rows,
        statement=replace(statement, text=statement.text[:4000]),
    )


def _staged(machine: Machine, rows: frozenset[Taint]) -> frozenset[Taint]:
    """Clocks in the name of a file that the same run has written before."""
    written = {
        taint.place
        for write in machine.trace.writes
        if write.target.kind != "table"
        for taint in write.location
    }
    return frozenset(taint for taint in rows if taint.kind == "clock" and taint.place in written)


def _returned(running: Running, statement: Statement) -> frozenset[Taint]:
    """The number that an insert gives back: a counter has drawn it."""
    match = _RETURNING.search(statement.text)
    if match is None:
        return NO_TAINTS
    return frozenset({Taint("serial", running.place(statement.offset), match[0])})


def _never_conflicts(machine: Machine, statement: Statement, key: str) -> bool:
    """Is the number that the database draws the only key there is?"""
    return bool(_ANY_CONFLICT.search(statement.text)) and any(
        table.serial and not table.unique and table.serial not in statement.columns
        for table in machine.program.tables
        if table.key == key
    )


def _created_temporary(machine: Machine, key: str) -> bool:
    return any(table.key == key and table.temporary for table in machine.program.tables) or any(
        write.temporary for write in machine.trace.shaped(Target(key))
    )


def _outlives(machine: Machine, statement: Statement, key: str) -> bool:
    """Does a table that a script calls temporary belong to other scripts as well?"""
    if not machine.program.script or statement.temporary or key.startswith(("#", "{")):
        return False
    made_here = any(
        write.mode in ("create", "create_as") for write in machine.trace.shaped(Target(key))
    )
    if made_here or "." not in key:
        return False
    name = re.escape(key.rsplit(".", 1)[1])
    made = rf"(?i)\b(?:create|drop)\b[^;]*?\btable\b[^;(]*\b{name}\b|\bprocedure\b|\bfunction\b"
    return not re.search(made, "\n".join(machine.lines))


def _through_difference(
    machine: Machine, running: Running, statement: Statement, target: str
) -> bool:
    """Does a table that was compared with the target feed the statement?"""
    made = [
        write
        for source in statement.sources
        for write in machine.trace.shaped(Target(running.key(source)))
    ]
    sources = [Target(running.key(source)) for source in statement.sources]
    made += [
        write
        for write in machine.trace.writes
        if write.mode == "append"
        and write.temporary
        and any(write.target.same(source) for source in sources)
    ]
    for write in made:
        if write.mode in ("create_as", "append", "delete") and write.statement is not None:
            # A delete takes out what the target has already.
            labels = {o.label for o in write.rows | write.where if o.kind == "read"}
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
