"""Reading the analysed plan of classic Spark.

One call brings the plan over as JSON; it holds no data, and takes a few milliseconds where a walk
by py4j takes a call for every node. The JVM is asked again only for what the JSON leaves out, and
only where it matters: the line behind a finding, the code of a Python function.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

from setpoint.spark.determinism import tree
from setpoint.spark.determinism.tree import Attribute, Expression, Node, Path

# Classes whose SQL name does not follow from their own.
_NAMES = {
    "ApproximatePercentile": "percentile_approx",
    "AttachDistributedSequence": "distributed_sequence_id",
    "Average": "avg",
    "CallMethodViaReflection": "reflect",
    "CreateNamedStruct": "named_struct",
    "CurrentDatabase": "current_schema",
    "CurrentTimeZone": "current_timezone",
    "DistributedSequenceID": "distributed_sequence_id",
    "HyperLogLogPlusPlus": "approx_count_distinct",
    "ListAgg": "listagg",
    "LocalTimestamp": "localtimestamp",
    "MonotonicallyIncreasingID": "monotonically_increasing_id",
    "Murmur3Hash": "hash",
    "NTile": "ntile",
    "ParseToDate": "to_date",
    "ParseToTimestamp": "to_timestamp",
    "PosExplode": "posexplode",
    "RandStr": "randstr",
    "SparkPartitionID": "spark_partition_id",
    "SparkVersion": "version",
    "StructsToJson": "to_json",
    "VariancePop": "var_pop",
    "VarianceSamp": "var_samp",
    "XxHash64": "xxhash64",
}
_SUBQUERIES = ("ScalarSubquery", "Exists", "ListQuery", "LateralSubquery")
_UDFS = ("PythonUDF", "PythonUDAF", "PythonUDTF")
_WHOLE = ("UnboundedPreceding$", "UnboundedFollowing$")


def plan_of(frame: Any) -> Node:
    """The analysed plan of a frame."""
    return read(json.loads(frame._jdf.queryExecution().analyzed().toJSON()))


def read(nodes: list[dict[str, Any]], path: Path = ()) -> Node:
    """A plan from Spark's JSON: its nodes in order, each followed by its children."""
    return _node(iter(nodes), path)


def origin_of(frame: Any, path: Path) -> str:
    """The line of Python or SQL that an expression or a node came from, if Spark knows it.

    A function knows the line of the method that it was used in, not its own: so the way up is
    searched, as far as the node of the plan.
    """
    for length in range(len(path), -1, -1):
        site = _site(_at(frame, path[:length]).origin().context())
        if site or length == 0 or path[length - 1][0] in ("child", "plan"):
            return site
    return ""


def _site(context: Any) -> str:
    if str(context.contextType()) != "SQL":
        site = os.path.basename(str(context.callSite()))
        return site if re.fullmatch(r"(.*\.py|<.*>):\d+", site) else ""
    if context.startIndex() < 0:
        return ""
    found = re.search(r"line (\d+), position (\d+)", context.summary())
    where = f"SQL line {found[1]}, position {found[2]}" if found else "SQL"
    return f"{where}: {' '.join(context.fragment().split())}"


def command_of(frame: Any, path: Path) -> bytes:
    """The pickled code of a Python function in the plan."""
    return bytes(_at(frame, path).func().command().unsafeArray())


def broadcast_of(frame: Any, path: Path, ident: int) -> bytes:
    """The file of a broadcast variable that a Python function in the plan came with."""
    found = next(one for one in _at(frame, path).func().broadcastVars() if one.id() == ident)
    return FilePath(found.value().path()).read_bytes()


def _at(frame: Any, path: Path) -> Any:
    found = frame._jdf.queryExecution().analyzed()
    for step, place in path:
        match step:
            case "expression":
                found = found.expressions().apply(place)
            case "plan":
                found = found.plan()
            case _:
                found = found.children().apply(place)
    return found


def _node(nodes: Iterator[dict[str, Any]], path: Path) -> Node:
    fields = next(nodes)
    name = _simple(fields["class"])
    parts = _parts(fields, path)
    output = _attributes(parts.pop("output", ()))
    number, word = -1, ""
    lists: tuple[tuple[Expression, ...], ...] = ()
    defines = [*parts.pop("projectList", ()), *parts.pop("windowExpressions", ())]
    defines += parts.pop("aggregateExpressions", ())
    order = [*parts.pop("order", ()), *parts.pop("orderSpec", ())]
    match name:
        case "GlobalLimit" | "LocalLimit" | "Offset" | "Tail":
            (amount,) = next(iter(parts.values()), None) or (Expression(tree.GROUP),)
            number = int(amount.label) if amount.label.isdigit() else -1
        case "CTERelationDef":
            number = fields["id"]
        case "CTERelationRef":
            number = fields["cteId"]
        case "Join" | "LateralJoin":
            word = _word(fields["joinType"])
        case "SubqueryAlias":
            word = str((fields.get("identifier") or {}).get("name", ""))
        case "Intersect" | "Except":
            word = "all" if fields.get("isAll") else ""
        case "Generate":
            output = _attributes(parts.pop("generatorOutput", ()))
        case "Expand":
            width = len(output)
            flat = parts.pop("projections", ())
            lists = tuple(
                tuple(flat[start : start + width]) for start in range(0, len(flat), width or 1)
            )
    uses = tuple(item for part in parts.values() for item in part)
    children = tuple(
        _node(nodes, (*path, ("child", place))) for place in range(fields["num-children"])
    )
    return Node(
        name, children, tuple(defines), uses, tuple(order), lists, output, number, word, path
    )


def _parts(fields: dict[str, Any], path: Path) -> dict[str, tuple[Expression, ...]]:
    """The expressions of a plan node by the name of their field, in the order of the JVM's."""
    parts, place = {}, 0
    for name, value in fields.items():
        found = []
        for nodes in _expressions(value):
            found.append(_expression(iter(nodes), (*path, ("expression", place))))
            place += 1
        if found:
            parts[name] = tuple(found)
    return parts


def _expressions(value: Any) -> Iterator[list[dict[str, Any]]]:
    if not isinstance(value, list) or not value:
        return
    if isinstance(value[0], dict) and "class" in value[0]:
        if ".expressions." in value[0]["class"] or ".catalyst.plans." not in value[0]["class"]:
            yield value
    elif isinstance(value[0], list):
        for inner in value:
            yield from _expressions(inner)


def _expression(nodes: Iterator[dict[str, Any]], path: Path) -> Expression:
    fields = next(nodes)
    kind = _simple(fields["class"])
    children = tuple(
        _expression(nodes, (*path, ("argument", place))) for place in range(fields["num-children"])
    )
    match kind:
        case "AttributeReference":
            ident, type_ = fields["exprId"]["id"], _type(fields["dataType"])
            return Expression(tree.ATTRIBUTE, (), ident, fields["name"], type_, path=path)
        case "OuterReference":
            return _expression(iter(fields["e"]), path)
        case "Alias":
            ident = fields["exprId"]["id"]
            return Expression(tree.ALIAS, children, ident, fields["name"], path=path)
        case "Literal":
            type_ = _type(fields["dataType"])
            return Expression(tree.LITERAL, (), -1, str(fields["value"]), type_, path=path)
        case "AggregateExpression":
            return (
                children[0] if len(children) == 1 else Expression(tree.GROUP, children, path=path)
            )
        case "NamedLambdaVariable":
            label = f"{fields['name']}#{fields['exprId']['id']}"
            return Expression(tree.VARIABLE, (), label=label, path=path)
        case "GetStructField" | "GetArrayStructFields":
            field = fields.get("name") or (fields.get("field") or {}).get("name") or ""
            return Expression(_sql_name(kind), children, label=str(field), path=path)
        case "First" | "Last":
            label = tree.IGNORES_NULLS if fields.get("ignoreNulls") else ""
            return Expression(_sql_name(kind), children, label=label, path=path)
        case "Mode":
            label = "" if fields.get("reverseOpt") is None else "ordered"
            return Expression("mode", children, label=label, path=path)
        case "SortOrder":
            return Expression(tree.ORDER, children[:1], path=path)
        case "Cast":
            return Expression("cast", children, type=_type(fields["dataType"]), path=path)
        case "WindowExpression":
            return _window(children[0], children[1], path)
        case "WindowSpecDefinition":
            partition = tuple(children[place] for place in fields["partitionSpec"])
            order = tuple(children[place] for place in fields["orderSpec"])
            frame = children[fields["frameSpecification"]]
            parts = (Expression(tree.GROUP, partition), Expression(tree.GROUP, order), frame)
            return Expression("windowspecdefinition", parts, path=path)
        case "SpecifiedWindowFrame":
            rows = "row" in str(fields["frameType"]).lower()
            whole = [child.label for child in children] == list(_WHOLE)
            label = "whole" if whole else "rows" if rows else "range"
            return Expression(tree.LITERAL, (), label=label, path=path)
        case "UnboundedPreceding$" | "UnboundedFollowing$" | "CurrentRow$":
            return Expression(tree.LITERAL, (), label=kind, path=path)
        case _ if kind in _SUBQUERIES:
            plan = read(fields["plan"], (*path, ("plan", 0)))
            return Expression(tree.SUBQUERY, children, label=kind.lower(), plan=plan, path=path)
        case _ if kind in _UDFS:
            steady = fields.get("udfDeterministic", True)
            mark = "" if steady else "nondeterministic"
            return Expression(tree.UDF, children, -1, fields["name"], mark, path=path)
        case _:
            steady = fields.get("udfDeterministic", True)
            mark = "" if steady else "nondeterministic"
            return Expression(_sql_name(kind), children, type=mark, path=path)


def _window(function: Expression, spec: Expression, path: Path) -> Expression:
    return Expression(tree.WINDOW, (function, *spec.children), path=path)


def _attributes(items: tuple[Expression, ...]) -> tuple[Attribute, ...]:
    return tuple(Attribute(item.id, item.label, item.type) for item in items)


def _simple(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _sql_name(kind: str) -> str:
    return _NAMES.get(kind) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()


def _type(value: Any) -> str:
    """A type in the words of SQL."""
    if not isinstance(value, dict):
        return str(value or "")
    match value.get("type"):
        case "array":
            return f"array<{_type(value['elementType'])}>"
        case "map":
            return f"map<{_type(value['keyType'])},{_type(value['valueType'])}>"
        case "struct":
            fields = [f"{field['name']}:{_type(field['type'])}" for field in value["fields"]]
            return f"struct<{','.join(fields)}>"
        case other:
            return str(other or "")


def _word(value: Any) -> str:
    name = value.get("object") or value.get("product-class", "") if isinstance(value, dict) else ""
    return _simple(str(name)).rstrip("$").lower()
