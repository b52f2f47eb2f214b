"""Steps from frame to frame: what each does to the taints of rows and columns."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.lint.flows import as_read
from setpoint.lint.growth import fewer, together
from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge.columns import as_frame, of_columns
from setpoint.lint.knowledge.sparkcolumns import expression, resolved
from setpoint.lint.knowledge.sparkwrite import write_to
from setpoint.lint.knowledge.statements import table_target
from setpoint.lint.values import NO_TAINTS, Frame, Function, Taint, Value, joined_frames
from setpoint.lint.vocabulary import vocabulary

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_SAME = vocabulary(
    "cache persist repartition coalesce checkpoint localCheckpoint hint unpersist na fillna",
    "dropna fill replace withWatermark to toDF repartitionByRange withMetadata",
)
# A key has a few columns; who names more of them drops rows that are equal throughout.
_KEY_COLUMNS = 5


def frame_step(machine: Machine, call: Call, receiver: Value) -> Value | None:
    """A step from frame to frame."""
    method = call.method
    if receiver.frame is None and method not in _STARTS:
        return None
    frame = as_frame(receiver)
    if method == "count" and frame.grouped is None and not call.args:
        # How many rows are taken does not depend on which.
        return Value(taints=frozenset(o for o in frame.rows if o.kind != "pick"))
    if method == "head" and call.args and call.args[0].const == 0:
        return Value(thing=replace(frame, empty=True), ref="frame()", label=receiver.label)
    if method == "writeTo" and call.args:
        return write_to(frame, call.args[0])
    changed = _step(machine, call, method, frame)
    if changed is None:
        return None
    result = Value(thing=changed, ref="frame()", label=receiver.label)
    node = call.node.func
    if (call.kwargs.get("inplace") or Value()).const is True and isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name):
            machine.scope.rebind(node.value.id, result)
        return Value(const=None)
    return result


_STARTS = vocabulary(
    "withColumn withColumns dropDuplicates selectExpr createOrReplaceTempView",
    "createTempView createOrReplaceGlobalTempView registerTempTable orderBy unionByName",
    "toPandas withColumnRenamed exceptAll groupBy limit writeTo select repartition",
)


def _step(machine: Machine, call: Call, method: str, frame: Frame) -> Frame | None:
    args = call.args
    match method:
        case "withColumn" if len(args) == 2:
            name = args[0].text if args[0].parts is not None else None
            return frame.with_column(name or args[0].label, resolved(frame, args[1].everything()))
        case "withColumns" if args and args[0].fields is not None:
            for name, value in args[0].fields.items():
                frame = frame.with_column(name, resolved(frame, value.everything()))
            return frame
        case "select":
            listed = any(isinstance(node, (ast.Starred, ast.ListComp)) for node in call.node.args)
            given = [item for value in args for item in (value.items or [value])]
            if listed and not all(item.text or item.alias for item in given):
                return frame  # which columns is not known
            return of_columns(frame, [_known(frame, value) for value in args], keep=False)
        case "selectExpr":
            values = [
                expression(machine, item, call) if item.parts is not None else item
                for value in args
                for item in (value.items or [value])
            ]
            named = [replace(value, alias=value.alias or "*", parts=None) for value in values]
            kept = of_columns(frame, named, keep=True)
            return replace(
                kept, columns={k: v for k, v in kept.columns.items() if k != "*" or v}, chosen=None
            )
        case "filter" | "where":
            return _filtered(machine, call, frame)
        case "limit" if not frame.ordered and frame.engine != "pandas":
            if args and args[0].const == 0:
                return frame
            return replace(
                frame, rows=frame.rows | {Taint("pick", call.place, "limit() without orderBy()")}
            )
        case "sample" if frame.engine:
            seeded = {"seed", "random_state"} & set(call.kwargs)
            shuffled = (call.kwargs.get("frac") or Value()).const == 1
            if seeded or shuffled or (frame.engine == "spark" and len(args) > 1):
                return frame
            return replace(
                frame, rows=frame.rows | {Taint("pick", call.place, "sample() without a seed")}
            )
        case "orderBy" | "sort" | "sort_values":
            return replace(frame, ordered=True)
        case "dropDuplicates" | "drop_duplicates" | "dropDuplicatesWithinWatermark":
            return _deduplicated(call, frame)
        case "join" | "crossJoin" | "merge":
            return _join(call, frame)
        case "union" | "unionAll" | "unionByName" | "concat" if args:
            pair = [frame, as_frame(args[0])]
            both = joined_frames(pair)
            rows = both.rows | together(pair, call.place)
            return replace(both, rows=rows, engine=frame.engine, ordered=False)
        case "subtract" | "exceptAll" if args:
            rest = replace(frame, rows=fewer(frame.rows))
            return replace(rest, diffed=frame.diffed | _labels(as_frame(args[0])))
        case "groupBy" | "groupby":
            keys = tuple(v.text or v.alias for v in args)
            return replace(frame, rows=fewer(frame.rows), grouped=keys, ordered=False)
        case "pivot":
            return replace(frame, pivoted=True)
        case "agg" | "count" | "sum" | "max" | "min" | "avg" | "mean" if frame.grouped is not None:
            return _aggregated(call, frame)
        case "agg" if frame.engine != "pandas" and args and args[0].fields is None:
            return _aggregated(call, replace(frame, grouped=()))
        case "drop" if "index" in call.kwargs:
            left = as_read(call.kwargs["index"].everything())
            chosen = frozenset(o for o in left if o.via == "read")
            return replace(frame, rows=fewer(frame.rows) | chosen)
        case "drop":
            names = {value.text for value in args} | {
                item.text for value in args for item in value.items or ()
            }
            return replace(
                frame, columns={k: v for k, v in frame.columns.items() if k not in names}
            )
        case "withColumnRenamed" if len(args) == 2:
            old, new = args[0].text or "", args[1].text or ""
            return replace(
                frame, columns={(new if k == old else k): v for k, v in frame.columns.items()}
            )
        case (
            "createOrReplaceTempView"
            | "createTempView"
            | "registerTempTable"
            | "createOrReplaceGlobalTempView"
        ) if args:
            machine.views[table_target(args[0]).key] = frame
            return frame
        case "toPandas":
            return replace(frame, engine="pandas", ordered=True)
        case "distinct":
            return replace(frame, rows=fewer(frame.rows), ordered=False)
        case _ if method in _SAME:
            return frame
    return None


def _known(frame: Frame, value: Value) -> Value:
    """A column of a selection, with what the columns behind it depend on."""
    if value.items is not None:
        return replace(value, items=[_known(frame, item) for item in value.items])
    return replace(value, taints=resolved(frame, value.taints)) if value.taints else value


def _filtered(machine: Machine, call: Call, frame: Frame) -> Frame:
    taints: frozenset[Taint] = NO_TAINTS
    for value in (*call.args, *call.kwargs.values()):
        if isinstance(value.thing, Function):
            chosen = machine.enter(value.thing, [Value()], {}, call.place)
            taints = taints | chosen.everything()
        elif value.parts is not None:
            taints = taints | expression(machine, value, call).taints | value.everything()
        else:
            taints = taints | value.everything()
    taints = resolved(frame, taints)
    windowed = frame.windowed or any(o.kind in ("outside", "logical", "clock") for o in taints)
    deciding = frozenset(
        o
        for o in as_read(taints)
        if o.via == "read" or o.kind in ("outside", "logical", "pick", "new", "mono")
    )
    # Rows that are kept by a number nobody ordered are some rows.
    numbered = frozenset(
        o for o in deciding if o.kind == "mono" and o.label.startswith("row_number")
    )
    picked = frozenset(Taint("pick", o.place, "a row number without an order") for o in numbered)
    rows = fewer(frame.rows) | (deciding - numbered) | picked
    return replace(frame, rows=rows, windowed=windowed)


def _deduplicated(call: Call, frame: Frame) -> Frame:
    subset = call.argument(0, "subset")
    frame = replace(frame, rows=fewer(frame.rows))
    if subset is None or (call.name == "drop_duplicates" and frame.engine != "spark"):
        return frame
    given = subset.items if subset.items is not None else [subset]
    names = {item.text or item.label for item in given}
    if frame.chosen is not None and frame.chosen <= names:
        return frame
    if frame.ordered or len(names) > _KEY_COLUMNS:
        return frame
    return replace(
        frame,
        rows=frame.rows | {Taint("pick", call.place, f"{call.name}() on some columns")},
        ordered=False,
    )


def _join(call: Call, frame: Frame) -> Frame:
    if not call.args:
        return frame
    other = as_frame(call.args[0])
    how = call.argument(2, "how")
    if how is not None and "anti" in (how.text or ""):
        return replace(frame, rows=fewer(frame.rows), diffed=frame.diffed | _labels(other))
    on = call.argument(1, "on")
    names = (
        {item.text for item in on.items}
        if on is not None and on.items is not None
        else {on.text if on else None}
    )
    both = joined_frames([frame, other])
    decided = frozenset(
        o
        for name in names
        if name
        for o in both.columns.get(name, NO_TAINTS)
        if o.kind in ("mono", "random", "clock")
    )
    if on is not None:
        decided = decided | frozenset(o for o in on.taints if o.kind in ("mono", "random"))
    return replace(both, rows=both.rows | decided, engine=frame.engine, ordered=False)


def _labels(frame: Frame) -> frozenset[str]:
    return frozenset(taint.label for taint in frame.rows if taint.kind == "read")


def _aggregated(call: Call, frame: Frame) -> Frame:
    columns = {k: v for k, v in frame.columns.items() if k in (frame.grouped or ())}
    result = replace(frame, columns=columns, grouped=None, pivoted=False, chosen=None)
    for value in call.args:
        for item in value.items if value.items is not None else [value]:
            taints = resolved(frame, item.everything())
            if frame.pivoted:
                taints = frozenset(o for o in taints if o.kind != "pick")
            result = result.with_column(item.alias, taints)
    return result
