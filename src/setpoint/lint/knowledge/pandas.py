"""pandas: frames in memory, `to_sql`, `to_gbq`, `to_csv`."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.lint.findings import Place
from setpoint.lint.flows import as_read
from setpoint.lint.growth import together, whole
from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge.columns import as_frame
from setpoint.lint.knowledge.files import path_target
from setpoint.lint.knowledge.statements import named_by, read_query, table_target
from setpoint.lint.model import Mode, Target
from setpoint.lint.values import Connection, Frame, Taint, Value, joined_frames
from setpoint.lint.vocabulary import vocabulary

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_READS = vocabulary(
    "read_csv read_parquet read_json read_excel read_table read_feather read_pickle",
    "read_fwf read_html read_xml read_orc",
)
_QUERIES = vocabulary(
    "read_sql read_sql_query read_sql_table read_gbq get_pandas_df get_df",
)
_FILES = vocabulary(
    "to_csv to_parquet to_json to_excel to_feather to_pickle to_orc",
)


def model(machine: Machine, call: Call) -> Value | None:
    name = call.name
    if call.ref.startswith(("awswrangler.", "wr.")):
        return None
    if name in _READS:
        path = call.argument(0, "filepath_or_buffer", "path", "io", "path_or_buf")
        taints = as_read(path.everything()) if path is not None else frozenset()
        if path is not None and path.parts is not None:
            taints = taints | whole(call.place, path_target(path).key)
        return Value(thing=Frame(rows=_deciding(taints), engine="pandas"), ref="pandas()")
    if name in _QUERIES:
        query = call.argument(0, "sql", "query")
        connection = call.argument(1, "con", "conn")
        frame = read_query(machine, query, call, connection) if query is not None else Frame()
        return Value(thing=replace(frame, engine="pandas"), ref="pandas()")
    if call.ref.endswith(
        ("DataFrame", "DataFrame.from_records", "DataFrame.from_dict", "json_normalize")
    ):
        frame = as_frame(call.args[0]) if call.args else as_frame(call.kwargs.get("data", Value()))
        return Value(thing=replace(frame, engine="pandas"), ref="pandas()")
    if call.ref.startswith(("pyarrow.", "pa.", "pq.")):
        return _arrow(machine, call)
    if call.ref.startswith(("pd.", "pandas.")) and name in ("concat", "merge"):
        values = (call.args[0].items or [call.args[0]]) if call.args else []
        frames = [as_frame(value) for value in [*values, *call.args[1:]]]
        both = joined_frames(frames or [Frame()])
        if name == "concat":
            both = replace(both, rows=both.rows | together(frames, call.place))
        return Value(thing=replace(both, engine="pandas"), ref="pandas()")
    receiver = call.receiver
    if receiver is None:
        return _bare(machine, call)
    if receiver.frame is not None and receiver.frame.empty:
        return Value(const=None)  # only the table is made
    if name == "to_sql":
        _to_sql(machine, call, as_frame(receiver))
        return Value(const=None)
    if name == "write_pandas" and "table_name" in call.kwargs:
        overwrite = call.kwargs.get("overwrite")
        mode: Mode = "overwrite" if overwrite is not None and overwrite.const is True else "append"
        given = as_frame(call.argument(0, "df") or Value())
        target = table_target(call.kwargs["table_name"], call.kwargs.get("schema"))
        _frame_write(machine, call, given, target, mode, None, name=call.kwargs["table_name"])
        return Value(const=None)
    if name == "to_gbq":
        _to_gbq(machine, call, as_frame(receiver), call.argument(0, "destination_table"))
        return Value(const=None)
    if name in _FILES and (call.args or call.kwargs):
        return _to_file(machine, call, as_frame(receiver))
    if name == "head" and call.args and call.args[0].const == 0:
        return Value(thing=Frame(empty=True, engine="pandas"), ref="pandas()")
    if name == "assign" and receiver.frame is not None:
        frame = receiver.frame
        for column, value in call.kwargs.items():
            frame = frame.with_column(column, value.everything())
        return replace(receiver, thing=frame)
    if name == "insert" and len(call.args) >= 3 and receiver.frame is not None:
        changed = receiver.frame.with_column(call.args[1].text or "", call.args[2].everything())
        _rebind(machine, call, replace(receiver, thing=changed))
        return Value(const=None)
    return None


def _arrow(machine: Machine, call: Call) -> Value | None:
    """pyarrow: tables of lists, dictionaries and frames, and the files that they become."""
    name = call.name
    if name in ("table", "from_pylist", "from_pydict", "from_pandas") and call.args:
        return Value(thing=replace(as_frame(call.args[0]), engine="pandas"), ref="pandas()")
    path = call.argument(1, "where", "root_path", "base_dir", "output_file")
    if not call.args or path is None or path.parts is None:
        return None
    mode: Mode = "put"
    if name == "write_to_dataset":
        # Its files have new names each time, unless it is told otherwise.
        told = call.kwargs.keys() & {"basename_template", "existing_data_behavior"}
        mode = "put" if told else "append"
    elif name not in ("write_table", "write_feather", "write_csv", "write_dataset"):
        return None
    frame = as_frame(call.args[0])
    machine.wrote(
        call.place, path_target(path), mode, name,
        columns=frame.columns, rows=frame.rows, location=path.everything(),
        diffed=bool(frame.diffed),
    )  # fmt: skip
    return Value(const=None)


def _rebind(machine: Machine, call: Call, value: Value) -> None:
    node = call.node.func
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        machine.scope.rebind(node.value.id, value)


def _bare(machine: Machine, call: Call) -> Value | None:
    if call.ref.endswith("pandas_gbq.to_gbq") and len(call.args) > 1:
        _to_gbq(machine, call, as_frame(call.args[0]), call.args[1])
        return Value(const=None)
    table = call.argument(2, "table_name")
    if call.name == "write_pandas" and table is not None:
        overwrite = call.kwargs.get("overwrite")
        mode: Mode = "overwrite" if overwrite is not None and overwrite.const is True else "append"
        given = as_frame(call.argument(1, "df") or Value())
        _frame_write(machine, call, given, table_target(table), mode, None, name=table)
        return Value(const=None)
    return None


def _deciding(taints: frozenset[Taint]) -> frozenset[Taint]:
    return frozenset(
        o
        for o in taints
        if o.via == "read" or o.kind in ("outside", "logical", "pick", "whole", "grown")
    )


def _to_sql(machine: Machine, call: Call, frame: Frame) -> None:
    mode = (call.kwargs.get("if_exists") or Value()).text or (
        "fail" if "if_exists" not in call.kwargs else ""
    )
    if len(call.args) > 3:
        mode = call.args[3].text or mode
    name = call.argument(0, "name") or Value()
    target = table_target(name, call.kwargs.get("schema"))
    place = call.keyword_place("if_exists") or call.place
    if mode == "append":
        own = call.argument(1, "con", "conn", "engine")
        method = call.kwargs.get("method")
        upserts = (
            method is not None
            and method.text is None
            and method.const is not None
            and method.label != ""
        )
        connection = _connection(machine, own)
        chosen: Mode = "merge" if upserts else "append"
        _frame_write(machine, call, frame, target, chosen, connection, place, name)
    elif mode == "replace":
        _frame_write(machine, call, frame, target, "overwrite", None, place, name)
    else:
        _frame_write(machine, call, frame, target, "create", None, place, name)


def _connection(machine: Machine, value: Value | None) -> Connection | None:
    """The connection that rows are sent over; an engine or a URL opens one for each call."""
    if value is None or value.parts is not None or "engine" in value.label.lower():
        return value.thing if value is not None and isinstance(value.thing, Connection) else None
    return machine.connection(value)


def _to_gbq(machine: Machine, call: Call, frame: Frame, name: Value | None) -> None:
    mode = (call.kwargs.get("if_exists") or Value()).text or "fail"
    modes: dict[str, Mode] = {"append": "append", "replace": "overwrite"}
    place = call.keyword_place("if_exists") or call.place
    target, chosen = table_target(name or Value()), modes.get(mode, "create")
    _frame_write(machine, call, frame, target, chosen, None, place, name)


def _frame_write(
    machine: Machine, call: Call, frame: Frame, target: Target, mode: Mode,
    connection: Connection | None, place: Place | None = None, name: Value | None = None,
) -> None:  # fmt: skip
    machine.wrote(
        place or call.place,
        target,
        mode,
        call.name,
        columns=frame.columns,
        rows=frame.rows,
        location=named_by(name) if name is not None else frozenset(),
        windowed=frame.windowed,
        diffed=bool(frame.diffed),
        transaction=machine.transaction(connection) if connection is not None else None,
    )


def _to_file(machine: Machine, call: Call, frame: Frame) -> Value | None:
    path = call.argument(0, "path_or_buf", "path", "excel_writer")
    if path is None or (path.parts is None and not path.label):
        return None
    inner = (path.fields or {}).get("__target__", path)
    mode = (call.kwargs.get("mode") or Value()).text
    appends = mode == "a"
    place = call.keyword_place("mode") if appends else None
    machine.wrote(
        place or call.place,
        path_target(inner),
        "append" if appends else "put",
        call.name,
        columns=frame.columns,
        rows=frame.rows,
        location=inner.everything(),
        diffed=bool(frame.diffed),
    )
    return Value(const=None)
