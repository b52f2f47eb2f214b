"""Reading a plan under Spark Connect, which has no JVM to ask.

The server tells the analysed plan as text only, and there a string looks like code. So the plan
is sent for explanation with such strings made harmless; what is explained is never run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql.types import StructType

from setpoint.spark.determinism import explained
from setpoint.spark.determinism.catalogue import COLLECTS, FLOAT_SUMS, KIND_OF, PICKS
from setpoint.spark.determinism.tree import Node

_FIELDS = "spark.sql.debug.maxToStringFields"
_CALL = re.compile(rf"\b({'|'.join(sorted([*KIND_OF, *PICKS, *COLLECTS]))})\s*\(", re.IGNORECASE)
_SUM = re.compile(rf"\b({'|'.join(sorted(FLOAT_SUMS))})\(")
# Tables have a name of several parts, views are told as such; other aliases are of subqueries.
_TABLE = re.compile(r"SubqueryAlias (\w+\.[\w.]+)$|View \(`([^`]+)`", re.MULTILINE)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_BRACKETS = {"(": ")", "[": "]"}


def plan_of(frame: Any) -> tuple[Node, Mapping[str, Sequence[bytes]]]:
    """The analysed plan of a frame, and the Python functions that were sent with it by name."""
    client = frame.sparkSession.client
    plan = frame._plan.to_proto(client)
    functions: dict[str, list[bytes]] = {}
    for name, command in _functions(plan):
        functions.setdefault(name, []).append(command)
    harmless = type(plan)()
    harmless.CopyFrom(plan)
    changed = _disarm(harmless)
    with _all_fields(frame.sparkSession):
        text = ""
        if changed:
            try:
                text = client.explain_string(harmless, explain_mode="extended")
            except Exception:  # a string that meant something: a schema, a format
                text = ""
        text = text or client.explain_string(plan, explain_mode="extended")
    return explained.read(text, _types(frame, plan, text)), functions


@contextmanager
def _all_fields(session: Any) -> Iterator[None]:
    """Explain tells 25 columns of a node unless it is told to tell all."""
    before = session.conf.get(_FIELDS)
    session.conf.set(_FIELDS, "2147483647")
    try:
        yield
    finally:
        session.conf.set(_FIELDS, before)


def _types(frame: Any, plan: Any, text: str) -> dict[str, str]:
    """The types of columns by name; the text has none, and sums of some types are not exact.

    Where two relations disagree about a name, the floating point number is believed.
    """
    schemas = [frame.schema]
    if _SUM.search(text):
        schemas += [StructType.fromJson(json.loads(one)) for one in _schemas(plan)]
        names = {found[1] or found[2] for found in _TABLE.finditer(text)}
        for name in sorted(names):
            try:
                schemas.append(frame.sparkSession.table(name).schema)
            except Exception:  # a table that this session may read but not describe
                continue
    types: dict[str, str] = {}
    for schema in schemas:
        for field in schema.fields:
            kind = field.dataType.simpleString()
            if kind in ("double", "float") or field.name not in types:
                types[field.name] = kind
    return types


def _schemas(message: Any) -> Iterator[str]:
    """The schemas of local relations, as JSON."""
    for field, value in message.ListFields():
        local = message.DESCRIPTOR.name == "LocalRelation" and field.name == "schema"
        if local and value.startswith("{"):
            yield value
        for inner in _messages(field, value):
            yield from _schemas(inner)


def _functions(message: Any) -> Iterator[tuple[str, bytes]]:
    """The Python functions in a plan with their pickled code, empty if they disown themselves."""
    for field, value in message.ListFields():
        if field.name in ("python_udf", "python_udtf") and message.function_name:
            yield message.function_name, value.command if message.deterministic else b""
        for inner in _messages(field, value):
            yield from _functions(inner)


def _disarm(message: Any) -> bool:
    """Make strings harmless that the text of a plan would show as code; whether there were any."""
    changed = False
    kind = message.DESCRIPTOR.name
    for field, value in message.ListFields():
        if kind == "Literal" and field.name == "string" and _is_misleading(value):
            setattr(message, field.name, _harmless(value))
            changed = True
        elif isinstance(value, str) and field.name in ("query", "expression"):
            told = _QUOTED.sub(
                lambda found: _harmless(found[0]) if _is_misleading(found[0]) else found[0], value
            )
            if told != value:
                setattr(message, field.name, told)
                changed = True
        for inner in _messages(field, value):
            changed = _disarm(inner) or changed
    return changed


def _messages(field: Any, value: Any) -> Iterator[Any]:
    if field.message_type is None:
        return
    if field.message_type.GetOptions().map_entry:
        for inner in value.values():
            if hasattr(inner, "ListFields"):
                yield inner
    elif hasattr(value, "ListFields"):
        yield value
    else:
        yield from value


def _is_misleading(text: str) -> bool:
    """Whether a string looks like code in the text of a plan, or breaks its lines or brackets."""
    if _CALL.search(text) or "\n" in text or "\r" in text or re.search(r"#\d| AS ", text):
        return True
    open_: list[str] = []
    for character in text:
        if character in _BRACKETS:
            open_.append(_BRACKETS[character])
        elif character in _BRACKETS.values() and (not open_ or open_.pop() != character):
            return True
    return bool(open_)


def _harmless(text: str) -> str:
    return re.sub(r"[()\[\]#\r\n]| AS ", "_", text)
