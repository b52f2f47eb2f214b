"""Spark's writers: `df.write`, `df.writeTo`, streams."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.lint.findings import Place
from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge.files import path_target
from setpoint.lint.knowledge.statements import table_target
from setpoint.lint.model import Mode, Target
from setpoint.lint.values import Frame, Value, Writer
from setpoint.lint.vocabulary import vocabulary

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_FORMATS = vocabulary(
    "parquet csv json orc text avro delta save jdbc saveAsTable insertInto save_as_table",
)
_TABLES = frozenset(["saveAsTable", "insertInto", "save_as_table"])
# Stores that replace a row by its key, whatever the mode says.
_KEYED = re.compile(r"dynamodb|cassandra|hbase|phoenix|kudu|redis|aerospike|cosmos", re.IGNORECASE)
_PARTITION = re.compile(
    r"\w+=[^/]*\{|\$\{|\{[^{}]*(?:date|ds|day|dt|month|year|hour|week|partition)[^{}]*\}",
    re.IGNORECASE,
)


def sink(machine: Machine, call: Call, writer: Writer) -> Value | None:
    """A step of `df.write...`; the last one writes."""
    method = call.method
    if method in ("mode", "outputMode"):
        mode = (call.args[0].text if call.args else None) or ""
        chosen = bool(call.args) and call.args[0].text is None
        return Value(thing=replace(writer, mode=mode, mode_place=call.place, conditional=chosen))
    if method in ("option", "options"):
        options = {**writer.options, **call.kwargs}
        if len(call.args) == 2:
            options[call.args[0].text or ""] = call.args[1]
        return Value(thing=replace(writer, options=options))
    if method == "format":
        return Value(thing=replace(writer, format=(call.args[0].text if call.args else "") or ""))
    if method in ("partitionBy", "partition_by"):
        names = tuple(
            (item.text or item.label) for value in call.args for item in (value.items or [value])
        )
        return Value(thing=replace(writer, partitioned=writer.partitioned + names))
    if method in (
        "bucketBy",
        "sortBy",
        "clusterBy",
        "using",
        "tableProperty",
        "trigger",
        "queryName",
        "foreachBatch",
        "foreach",
    ):
        return Value(thing=writer)
    if method in ("start", "toTable"):
        return Value(ref="stream()")
    if method in _FORMATS:
        _save(machine, call, writer)
        return Value(const=None)
    if writer.table is not None:
        return _second(machine, call, writer)
    return None


def write_to(frame: Frame, table: Value) -> Value:
    """`df.writeTo(table)`."""
    return Value(thing=Writer(frame, table=table))


def _second(machine: Machine, call: Call, writer: Writer) -> Value | None:
    """The verbs of `writeTo`."""
    modes: dict[str, Mode] = {
        "append": "append",
        "overwritePartitions": "replace_slice",
        "overwrite": "replace_slice",
        "create": "create",
        "createOrReplace": "overwrite",
        "replace": "overwrite",
    }
    if call.method in modes and writer.table is not None:
        _record(
            machine,
            writer,
            table_target(writer.table),
            modes[call.method],
            call.place,
            "writeTo",
            writer.table,
        )
        return Value(const=None)
    return Value(thing=writer)


def _save(machine: Machine, call: Call, writer: Writer) -> None:
    if writer.frame.streaming:
        return
    place = writer.mode_place or call.place
    mode = writer.mode.lower()
    name = call.argument(0, "path", "name", "tableName")
    if "mode" in call.kwargs:
        mode = (call.kwargs["mode"].text or "").lower()
        place = call.keyword_place("mode") or place
    if call.method == "jdbc":
        name = call.argument(1, "table")
    if name is None:
        name = next(
            (
                writer.options[key]
                for key in ("path", "table", "dbtable", "collection", "topic")
                if key in writer.options
            ),
            None,
        )
    overwrite = call.argument(1, "overwrite")
    if call.method == "insertInto":
        if overwrite is not None and overwrite.const is True:
            mode = "overwrite"
        elif not mode and not writer.conditional:
            mode = "append"
    tabled = call.method in _TABLES or call.method == "jdbc" or "dbtable" in writer.options
    target = (
        (table_target(name) if tabled else path_target(name))
        if name is not None
        else Target("", "path")
    )
    if writer.format in ("kafka", "console", "memory", "noop") or "kafka" in writer.format:
        return
    modes: dict[str, Mode] = {"append": "append", "overwrite": "overwrite"}
    _record(machine, writer, target, modes.get(mode, "create"), place, f"write.{call.method}", name)


def _record(
    machine: Machine,
    writer: Writer,
    target: Target,
    mode: Mode,
    place: Place,
    api: str,
    name: Value | None,
) -> None:
    frame = writer.frame
    options = {key.lower(): value for key, value in writer.options.items()}
    dynamic = (options.get("partitionoverwritemode") or Value()).text
    scoped = (
        "replacewhere" in options
        or (dynamic or "").lower() == "dynamic"
        or "$" in target.key
        or bool(_PARTITION.search(target.key))
        or api == "write.insertInto"
    )
    once = "txnappid" in options and "txnversion" in options
    if mode == "overwrite" and "replacewhere" in options:
        mode = "replace_slice"
    location = name.everything() if name is not None else frozenset()
    machine.wrote(
        place,
        target,
        "merge" if mode == "append" and (once or keyed(writer.format, options)) else mode,
        api,
        columns=frame.columns,
        rows=frame.rows,
        location=frozenset(
            o for o in location if o.kind in ("clock", "random", "logical", "outside", "env")
        ),
        partitioned=writer.partitioned or _partition_option(options),
        windowed=frame.windowed,
        literal=frame.literal,
        scoped=scoped,
        diffed=any(
            Target(label, target.kind).same(target) or label == target.key for label in frame.diffed
        ),
    )


def keyed(format_: str, options: dict[str, Value]) -> bool:
    """Does a store replace rows by their key, although the mode says that it appends?"""
    if "hudi" in format_ or any(key.startswith("hoodie.") for key in options):
        operation = (options.get("hoodie.datasource.write.operation") or Value()).text or "upsert"
        return operation not in ("insert", "bulk_insert")
    return bool(_KEYED.search(format_))


def _partition_option(options: dict[str, Value]) -> tuple[str, ...]:
    found = options.get("partitionfield")
    return (found.text or "",) if found is not None else ()
