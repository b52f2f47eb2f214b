"""Clients of other stores: polars, Iceberg, ClickHouse, Supabase, worksheets, indexes, Django."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge.columns import as_frame
from setpoint.lint.knowledge.files import path_target
from setpoint.lint.knowledge.statements import table_target
from setpoint.lint.model import Mode, Target
from setpoint.lint.values import Value
from setpoint.lint.vocabulary import vocabulary

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_POLARS_FILES = vocabulary(
    "write_parquet write_csv write_ndjson write_ipc write_avro sink_parquet sink_csv"
)
# What Django deletes and creates is taken for one transaction: who opens it is not seen here.
_OBJECTS = re.compile(r"([\w.]+\.objects)\.")
_DJANGO = "django"
_TABLES = re.compile(r"\.(?:table|from_)\(")


def model(machine: Machine, call: Call) -> Value | None:
    receiver, name = call.receiver, call.name
    if receiver is None:
        return None
    if name == "write_database" and call.args:
        _add(machine, call, table_target(call.args[0]), receiver, _told(call, "if_table_exists"))
        return Value(const=None)
    if name in _POLARS_FILES and call.args and call.args[0].parts is not None:
        path, frame = call.args[0], as_frame(receiver)
        machine.wrote(
            call.place, path_target(path), "put", name,
            columns=frame.columns, rows=frame.rows, location=path.everything(),
        )  # fmt: skip
        return Value(const=None)
    objects = _OBJECTS.match(receiver.label)
    if name == "delete" and objects:
        gone = Target("{" + objects[1].lower() + "}")
        machine.wrote(call.place, gone, "delete", name, transaction=_DJANGO)
        return Value(const=None)
    added = _added(machine, call, receiver)
    if added is not None:
        _add(machine, call, added, call.args[-1] if call.args else Value(), "append")
        return Value(ref="stored()")
    return None


def _added(machine: Machine, call: Call, receiver: Value) -> Target | None:
    """Where a call adds rows that no key holds together."""
    name, given = call.name, set(call.kwargs)
    label = Target("{" + receiver.label.lower() + "}")
    looped = any(frame.loops for frame in machine.stack)
    match name:
        case "append" if receiver.ref.endswith("load_table()") and call.args:
            return label
        case "append_row" | "append_rows" if call.args:
            return label
        case "insert" | "insert_df" if len(call.args) > 1 and (
            "column_names" in given or name == "insert_df" or "clickhouse" in receiver.ref
        ):
            return table_target(call.args[0])
        case "insert" if call.args and _TABLES.search(receiver.label):
            return label
        case "index" if "index" in given and given & {"body", "document"} and "id" not in given:
            return table_target(call.kwargs["index"])
        case "create" if receiver.label.endswith(".objects") and looped:
            return label
        case "bulk_create" if receiver.label.endswith(".objects") and not (
            given & {"ignore_conflicts", "update_conflicts"}
        ):
            return label
        case "run" if (call.kwargs.get("write_disposition") or Value()).text == "append":
            return table_target(call.kwargs.get("table_name") or Value())
    return None


def _told(call: Call, key: str) -> Mode:
    word = (call.kwargs.get(key) or Value()).text
    return "append" if word == "append" else "overwrite" if word == "replace" else "create"


def _add(machine: Machine, call: Call, target: Target, rows: Value, mode: Mode) -> None:
    frame = as_frame(rows)
    place = call.keyword_place("if_table_exists") or call.keyword_place("write_disposition")
    machine.wrote(
        place or call.place, target, mode, call.name,
        columns=frame.columns, rows=frame.rows,
        transaction=_DJANGO if target.key.endswith(".objects}") else None,
    )  # fmt: skip
