"""Functions of other modules, known by nothing but their names: they run SQL or store rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from setpoint.lint.findings import Place
from setpoint.lint.interpret.call import Call, place_of
from setpoint.lint.knowledge.files import path_target
from setpoint.lint.knowledge.statements import run_sql, table_target
from setpoint.lint.model import Target
from setpoint.lint.texts import shown
from setpoint.lint.values import Value

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_RUNS = re.compile(r"sql|query|execute|exec_|run_|submit|statement")
_MARKS = re.compile(
    r"^(?:set|save|update|write|store|put|persist|advance|record)_(?:\w+_)?(?:high_?water_?mark|hwm"
    r"|water_?mark|checkpoint|bookmark|last_(?:run|processed|loaded|sync\w*|id|timestamp|offset|date))"
)
_WRITES = re.compile(r"write|save|load|upload|insert|store|export|persist|sink|to_|salvar|guardar")
# Names that say that rows are given away for good.
_STORES = re.compile(
    r"^_?(?:write|save|upload|insert|upsert|store|export|persist|load|ingest|append|publish"
    r"|push|bulk)(?!s\b|ing)"
    r"|^(?:overwrite|merge_(?:delta|into|to)|replace_(?:partition|table))"
    r"|_to_(?:db|database|sql|postgres\w*|mysql|snowflake|redshift|bigquery|bq|s3|gcs|blob|lake|dwh?"
    r"|warehouse|table|delta|iceberg|parquet|csv)$"
)
_FIRST = re.compile(r"^\s*(?:truncate|delete\s+from)\b", re.IGNORECASE)
_PLACES = re.compile(
    r"path|key|file|prefix|partition|dest|target|location|uri|folder|particao", re.IGNORECASE
)
# A function that stores, and the day that it is told to store for.
_GIVES = re.compile(r"^_?(?:upload|save|write|store|export|persist|publish)(?:_|$)")
_DAYS = re.compile(
    r"^(?:(?:run|partition|batch|snapshot|execution|process(?:ing)?|logical|business|target|report)_)?"
    r"(?:date|day|ds|dt)$"
)
_VERB = re.compile(
    r"\s*(?:--[^\n]*\s*)*(?:insert\s|delete\s+from|truncate\s|merge\s+into|update\s+\S+\s+(?:(?:as\s+)?\w+\s+)?set|create\s+(?:or\s+replace\s+)?(?:temp\w*\s+)?table|drop\s+table|select\s|with\s+\w+\s+as|copy\s)",
    re.IGNORECASE,
)
# A script that sets something first.
_WITHIN = re.compile(
    r"[;\n]\s*(?:insert\s+(?:into|overwrite)\s+(?:table\s+)?[\w{`\"\[]|merge\s+into\s+\S|delete\s+from\s+\S"
    r"|truncate\s+table\s)",
    re.IGNORECASE,
)


def named_for_it(machine: Machine, call: Call) -> Value | None:
    """Functions of other modules that say by their name that they run SQL or write rows."""
    name = call.name.lower()
    if _MARKS.search(name) and (call.args or call.kwargs):
        values = [*call.args, *call.kwargs.values()]
        target = Target("{" + call.name + "}", "state")
        machine.wrote(
            call.place, target, "put", call.name, columns={"value": values[-1].everything()}
        )
        return Value(const=None)
    if _RUNS.search(name) and not machine.streaming():
        for value in (*call.args, *call.kwargs.values()):
            if value.parts is not None and is_verb(value):
                frame = run_sql(machine, value, call.place, None, own=True, api=call.name)
                return Value(thing=frame, ref="sql()") if frame is not None else Value(ref="sql()")
    if _WRITES.search(name):
        _placed(machine, call)
        told = _told(machine, call)
        if told is not None:
            return told
    if _STORES.search(name) and (call.receiver is None or call.receiver.frame is None):
        _handed(machine, call)
    return None


def is_verb(text: Value) -> bool:
    """Does a text begin like a statement of SQL?"""
    words = shown(text.parts or ())
    return bool(_VERB.match(words[:2000]) or _WITHIN.search(words[:20_000]))


def _told(machine: Machine, call: Call) -> Value | None:
    """Is a writing function told to append, and not to remove the old rows first?"""
    if any(_FIRST.search(value.text or "") for value in call.kwargs.values()):
        return None
    makes = call.receiver is None and call.name[:1].isupper()  # a class
    for index, value in enumerate(() if makes else call.args):
        if (value.text or "").lower() in ("append", "write_append") and len(call.args) > 1:
            return _told_to_append(machine, call, place_of(call.node.args[index]))
    for key in ("mode", "write_mode", "save_mode", "if_exists", "write_disposition"):
        if (call.kwargs[key].text if key in call.kwargs else "") in ("append", "WRITE_APPEND"):
            return _told_to_append(machine, call, call.keyword_place(key) or call.place)
    return None


def _handed(machine: Machine, call: Call) -> None:
    """Rows that a function of another module is given to store; how it does so is not known."""
    for value in (*call.args, *call.kwargs.values()):
        if value.frame is not None and not value.frame.literal and value.frame.everything():
            target = Target(f"what {call.name} stores", "path")
            frame = value.frame
            machine.wrote(
                call.place, target, "create", call.name, columns=frame.columns, rows=frame.rows
            )


def _placed(machine: Machine, call: Call) -> None:
    """A writing function of another module: where it writes may come from the clock."""
    named = [*((value.label, value) for value in call.args), *call.kwargs.items()]
    stores = bool(_GIVES.search(call.name))
    for name, value in named:
        drawn = [
            taint for taint in value.taints if taint.kind in ("clock", "random") and not taint.via
        ]
        told = bool(_PLACES.search(name)) or (stores and bool(_DAYS.search(name)))
        if drawn and told and value.frame is None:
            target = path_target(value)
            machine.wrote(call.place, target, "put", call.name, location=value.everything())


def _told_to_append(machine: Machine, call: Call, place: Place) -> Value:
    frames = [value for value in (*call.args, *call.kwargs.values()) if value.frame is not None]
    names = [
        value
        for value in (*call.args, *call.kwargs.values())
        if value.frame is None
        and (value.parts is not None or value.ref)
        and (value.text or "").lower() not in ("append", "write_append")
    ]
    names.sort(key=lambda value: value.parts is None)
    frame = frames[0].frame if frames else None
    machine.wrote(
        place,
        table_target(names[0] if names else Value()),
        "append",
        call.name,
        columns=frame.columns if frame else {},
        rows=frame.rows if frame else frozenset(),
    )
    return Value(const=None)
