"""Glue: dynamic frames, their sinks, and paths that are purged."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.lint.flows import as_read
from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge.columns import as_frame
from setpoint.lint.knowledge.files import path_target
from setpoint.lint.knowledge.sparkcolumns import expression
from setpoint.lint.knowledge.sparkwrite import keyed
from setpoint.lint.knowledge.statements import table_target
from setpoint.lint.model import Mode
from setpoint.lint.values import NO_TAINTS, Frame, Function, Taint, Value

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_GLUE_WRITES = frozenset(
    ["write_dynamic_frame_from_options", "write_dynamic_frame_from_catalog", "write_from_options"]
)
_CLEARS = re.compile(r"delete|truncate|drop|merge|begin|insert|call", re.IGNORECASE)
_PREDICATES = ("push_down_predicate", "catalogPartitionPredicate")


def model(machine: Machine, call: Call) -> Value | None:
    chain = call.receiver.label if call.receiver is not None else ""
    written = _written(machine, call)
    if written is not None:
        return written
    if call.name in _GLUE_WRITES or (
        call.name in ("from_options", "from_catalog", "from_jdbc_conf")
        and ("write_dynamic_frame" in chain or "write_data_frame" in chain)
    ):
        frame = as_frame(call.argument(0, "frame") or Value())
        options = call.kwargs.get("connection_options") or Value()
        fields = options.fields or {}
        name = (
            fields.get("path") or fields.get("dbtable") or call.kwargs.get("table_name") or Value()
        )
        kind = (call.kwargs.get("connection_type") or Value()).text
        # Deletes first, or replaces by key.
        mode: Mode = "merge" if _acts(fields) or keyed(kind or "", fields) else "append"
        target = path_target(name) if "path" in fields else table_target(name)
        machine.wrote(
            call.place,
            target,
            mode,
            f"write_dynamic_frame.{call.name}",
            columns=frame.columns,
            rows=frame.rows,
            location=name.everything(),
            partitioned=partitions(fields.get("partitionKeys")),
        )
        return Value(const=None)
    if call.name in ("fromDF", "toDF", "apply", "resolveChoice", "rename_field"):
        given = call.argument(0, "frame", "dataframe", "frame1")
        if given is not None and given.frame is not None:
            return _transformed(machine, call, given)
    if call.name.startswith("create_dynamic_frame") or (
        call.name in ("from_options", "from_catalog") and "create_dynamic_frame" in chain
    ):
        return Value(thing=Frame(rows=_predicate(machine, call), engine="spark"), ref="glue()")
    if call.name == "purge_s3_path" and call.args:
        gone = call.args[0]
        machine.wrote(
            call.place, path_target(gone), "delete", call.name, location=gone.everything()
        )
        return Value(const=None)
    return None


def _predicate(machine: Machine, call: Call) -> frozenset[Taint]:
    """What decides which partitions are read."""
    given = [call.kwargs[key] for key in _PREDICATES if key in call.kwargs]
    found: frozenset[Taint] = NO_TAINTS
    for value in given:
        found = found | value.everything()
        if value.parts is not None:
            found = found | expression(machine, value, call).taints
    return frozenset(taint for taint in as_read(found) if taint.via == "read")


def _transformed(machine: Machine, call: Call, given: Value) -> Value:
    """A transformation of Glue; `Filter.apply(frame, f)` chooses rows by a function."""
    chooses = call.argument(1, "f")
    if chooses is None or not isinstance(chooses.thing, Function):
        return given
    frame = as_frame(given)
    row = machine.enter(chooses.thing, [Value(taints=frame.everything())], {}, call.place)
    if call.receiver is not None and call.receiver.label == "Filter":
        chosen = frozenset(taint for taint in as_read(row.everything()) if taint.via == "read")
        return replace(given, thing=replace(frame, rows=frame.rows | chosen))
    return given


def _acts(options: dict[str, Value]) -> bool:
    """Does a sink do something about the old rows before or after it writes?"""
    given = [options[key] for key in ("preactions", "postactions") if key in options]
    return any(value.text is None or _CLEARS.search(value.text) for value in given)


def _written(machine: Machine, call: Call) -> Value | None:
    """A sink of Glue that is given its frame last, or a frame that writes itself."""
    receiver = call.receiver
    if call.name == "getSink":
        path = call.kwargs.get("path") or Value()
        return Value(ref="glue.sink()", label="sink", fields={"__path__": path})
    if receiver is None:
        return None
    if receiver.ref == "glue.sink()" and call.name == "writeFrame" and call.args:
        path, frame = (receiver.fields or {}).get("__path__", Value()), as_frame(call.args[0])
    elif call.method == "write" and {"connection_type", "connection_options"} <= set(call.kwargs):
        fields = call.kwargs["connection_options"].fields or {}
        if keyed(call.kwargs["connection_type"].text or "", fields):
            return Value(const=None)
        path, frame = fields.get("path") or fields.get("dbtable") or Value(), as_frame(receiver)
    else:
        return None
    machine.wrote(
        call.place, path_target(path), "append", call.name,
        columns=frame.columns, rows=frame.rows, location=path.everything(),
    )  # fmt: skip
    return Value(const=None)


def partitions(columns: Value | None) -> tuple[str, ...]:
    items = columns.items if columns is not None else None
    return tuple(item.text or "" for item in items or ())
