"""Spark: frames, windows, writers, SQL, Delta tables, Glue sinks."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.lint.flows import as_read
from setpoint.lint.growth import whole
from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge.columns import as_frame
from setpoint.lint.knowledge.files import path_target
from setpoint.lint.knowledge.sparkcolumns import expression, function, literal, over, ranked, window
from setpoint.lint.knowledge.sparkframe import frame_step
from setpoint.lint.knowledge.sparkwrite import sink
from setpoint.lint.knowledge.statements import run_sql, table_target
from setpoint.lint.knowledge.words import is_dated
from setpoint.lint.sql.shallow import between
from setpoint.lint.texts import shown
from setpoint.lint.values import (
    NO_TAINTS,
    Frame,
    Function,
    Ranking,
    Taint,
    Value,
    Writer,
)
from setpoint.lint.vocabulary import vocabulary

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_FEW = 2
_FUNCTION = re.compile(
    r"(?:pyspark\.sql\.functions|[Ff]|fn|sf|psf|snowflake\.snowpark\.functions)\.\w+$"
)
# Functions of columns that other models speak for, or that are no functions of columns.
_SPECIAL = vocabulary("udf pandas_udf broadcast expr")
_READERS = vocabulary(
    "csv parquet json orc text load table jdbc delta avro",
)
_SAME = vocabulary(
    "cache persist repartition coalesce checkpoint localCheckpoint hint unpersist na",
    "fillna dropna replace withWatermark to toDF repartitionByRange withMetadata",
)
_RANKS = frozenset(["row_number"])
_FIRSTS = vocabulary(
    "first any_value first_value last",
)
_MODULES = (
    "pyspark.",
    "F.",
    "f.",
    "fn.",
    "sf.",
    "func.",
    "functions.",
    "psf.",
    "snowflake.snowpark",
)


def model(machine: Machine, call: Call) -> Value | None:
    receiver = call.receiver
    if receiver is not None and isinstance(receiver.thing, Writer):
        return sink(machine, call, receiver.thing)
    if receiver is not None and isinstance(receiver.thing, Ranking) and call.method == "over":
        return ranked(call, receiver.thing)
    if call.name in _RANKS and (call.ref.startswith(_MODULES) or call.ref == call.name):
        return Value(thing=Ranking(call.place), label="row_number()")
    if call.name in _FIRSTS and call.ref.startswith(_MODULES) and call.args:
        found = Taint("pick", call.place, f"{call.name}() of a group")
        taken = function(call)
        return replace(taken, taints=taken.taints | {found}, ref="first()")
    if (
        call.name in ("udf", "pandas_udf")
        and call.args
        and isinstance(call.args[0].thing, Function)
    ):
        return call.args[0]
    spec = window(call)
    if spec is not None:
        return spec
    if call.name == "expr" and call.args and call.args[0].parts is not None:
        return expression(machine, call.args[0], call)
    if call.name in ("lit", "col", "column") and len(call.args) == 1 and call.receiver is not None:
        return literal(call)
    if call.name in ("lit", "col", "column") and len(call.args) == 1 and not call.method:
        return literal(call)
    if (
        call.method in ("alias", "name")
        and receiver is not None
        and receiver.frame is None
        and call.args
    ):
        return replace(receiver, alias=call.args[0].text or "")
    if call.method == "over" and receiver is not None:
        return over(call, receiver)
    if _FUNCTION.match(call.ref) and call.name not in _SPECIAL and (call.args or call.kwargs):
        return function(call)
    if receiver is None:
        return None
    return _session(machine, call, receiver) or frame_step(machine, call, receiver)


def _session(machine: Machine, call: Call, receiver: Value) -> Value | None:
    """What a Spark session is asked."""
    method = call.method
    if method == "sql" and call.args and call.args[0].parts is not None and receiver.frame is None:
        frame = run_sql(
            machine, call.args[0], call.place, None, dialect="spark", api="spark.sql", own=True
        )
        return Value(thing=replace(frame or Frame(), engine="spark"), ref="spark.sql()")
    if method == "createDataFrame" and (call.args or call.kwargs):
        data = call.argument(0, "data") or Value()
        frame = as_frame(data)
        # A few rows that stand in the program are a change, not a table.
        literal = data.items is not None and 0 < len(data.items) <= _FEW
        return Value(
            thing=replace(frame, engine="spark", literal=literal),
            ref="spark()",
        )
    if method == "table" and receiver.frame is None and len(call.args) == 1 and _sparkish(receiver):
        return _read(machine, call, call.args[0], table=True)
    if method in _READERS and ".read" in f".{receiver.ref}.{receiver.label}":
        path = call.argument(0, "path", "paths", "tableName")
        if method == "jdbc":
            path = call.argument(1, "table")
        return _read(
            machine,
            call,
            path,
            table=method == "table",
            stream="readStream" in receiver.ref + receiver.label,
        )
    if (
        method in ("option", "options", "format", "schema")
        and ".read" in f".{receiver.ref}.{receiver.label}"
    ):
        return receiver.tainted(as_read(call.taints()))
    if method in ("set", "config", "setConf") and len(call.args) == 2:
        key, value = (call.args[0].text or ""), (call.args[1].text or "")
        if "partitionOverwriteMode" in key and value.lower() == "dynamic":
            machine.program.dynamic_overwrite = True
        return None
    if method in ("forPath", "forName") and call.args:
        name = call.args[-1]
        target = path_target(name) if method == "forPath" else table_target(name)
        return Value(ref="DeltaTable()", label=target.key, fields={"__delta__": name})
    return _delta(machine, call, receiver)


def _sparkish(receiver: Value) -> bool:
    return "spark" in f"{receiver.label}{receiver.ref}".lower() or receiver.label in (
        "session",
        "sqlContext",
        "sc",
    )


def _delta(machine: Machine, call: Call, receiver: Value) -> Value | None:
    chain = receiver.ref.startswith("DeltaTable()")
    if not chain:
        return None
    method = call.method
    target = table_target(Value(label=receiver.label.strip("{}")))
    if method == "delete":
        where = call.taints()
        machine.wrote(
            call.place,
            replace(target, key=receiver.label),
            "delete",
            "DeltaTable.delete",
            where=as_read(where),
        )
        return Value(const=None)
    if method.startswith(("whenMatched", "whenNotMatched")):
        values = call.argument(-1, "set", "values") or next(
            (v for v in call.args if v.fields), None
        )
        frame = as_frame(values) if values is not None else Frame()
        fields = (values.fields if values is not None else None) or {}
        adding = method == "whenMatchedUpdate" and any(
            between(name, shown(value.parts) if value.parts is not None else value.label)
            for name, value in fields.items()
        )
        if frame.columns or adding:
            machine.wrote(
                call.place,
                replace(target, key=receiver.label),
                "append" if adding else "merge",
                "merge",
                columns=frame.columns,
                accumulating=adding,
            )
    return Value(ref=f"{receiver.ref}.{method}", label=receiver.label, taints=receiver.taints)


def _read(
    machine: Machine, call: Call, path: Value | None, *, table: bool, stream: bool = False
) -> Value:
    found: frozenset[Taint] = call.receiver.taints if call.receiver is not None else NO_TAINTS
    if path is None:
        return Value(thing=Frame(rows=found, engine="spark", streaming=stream), ref="spark.read()")
    target = table_target(path) if table else path_target(path)
    view = machine.views.get(target.key)
    if view is not None:
        return Value(thing=replace(view, engine="spark"), ref="spark.read()")
    taints = as_read(path.everything())
    rows = frozenset(o for o in taints if o.kind in ("clock", "logical", "outside", "pick")) | found
    rows = rows | {Taint("read", call.place, target.key)} | whole(call.place, target.key)
    windowed = any(o.kind in ("logical", "clock", "outside") for o in rows) or _dated_holes(path)
    return Value(
        thing=Frame(rows=rows, windowed=windowed, engine="spark", streaming=stream),
        ref="spark.read()",
    )


def _dated_holes(path: Value) -> bool:
    return path.parts is not None and any(
        is_dated(word) for word in re.findall(r"\{([^{}]*)\}", shown(path.parts))
    )
