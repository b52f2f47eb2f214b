"""Calls that no model speaks for: what they are given may come back, changed or not."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.lint.flows import as_read
from setpoint.lint.interpret.call import Call, label_of, place_of
from setpoint.lint.knowledge.library import CONVERSIONS
from setpoint.lint.values import Frame, Function, Taint, Value
from setpoint.lint.vocabulary import vocabulary

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_PASS = vocabulary(
    "append extend add insert update appendleft put fit train partial_fit setdefault push"
)
# What starts like this converts, what holds such a word makes a name.
_CONVERTING = ("to_", "from_", "format", "str", "as_", "parse", "make_", "build_", "_")
_NAMING = ("path", "prefix", "filename", "file_name", "object_key")
_FETCHING = re.compile(
    r"(?:get|fetch|list|read|download|query|search|find|extract|pull|scan)(?:_|$|[A-Z])"
)
# Arguments that say from when to when, and functions that make dates of them.
_RANGE = re.compile(r"(?:after|since|before|until|(?:start|end|from|to)(?:_?(?:date|time|day))?)$")
_MAKING = re.compile(r"date_range|bdate_range|period_range|between|random|uniform|replace|[A-Z]")
_SECRET = re.compile(
    r"token|auth|secret|credential|session|logger|log|client|connection|engine", re.IGNORECASE
)
# What looks at rows, or gives them away, has others to give back, or none.
_ABOUT_ROWS = re.compile(
    r"_?(?:is|has|count|len|check|validate|assert|show|display|print|log|write|save|load|upload|insert"
    r"|store|send|plot|publish|export|persist|put|to_|append|create|get_|isinstance|dumps?|fit|train)",
    re.IGNORECASE,
)
_SAME_TEXT = vocabulary(
    "strip lstrip rstrip lower upper replace dedent encode decode title",
)


def unknown(machine: Machine, call: Call) -> Value:
    """A call that nothing is known about: what it was given may come back."""
    functions = [
        v.thing for v in (*call.args, *call.kwargs.values()) if isinstance(v.thing, Function)
    ]
    if (
        call.method in ("submit", "map", "apply", "apply_async", "run", "start_new_thread")
        and functions
    ):
        rest = [v for v in call.args if v.thing is not functions[0]]
        frame = call.receiver.frame if call.receiver is not None else None
        if frame is not None and call.method == "map":
            return _each(machine, call, functions[0], frame)
        return machine.enter(functions[0], rest, call.kwargs, place_of(call.node))
    receiver = call.receiver
    taints = call.taints()
    if receiver is not None:
        if call.method in _PASS and isinstance(call.node.func, ast.Attribute):
            machine.put_into(call.node.func.value, receiver, call, taints)
        # An instance holds much that its methods do not use.
        instance = "__class__" in (receiver.fields or {})
        taints = taints | (receiver.taints if instance else receiver.everything())
    kept = frozenset(
        o for o in taints if o.kind not in ("clock", "random") or o.via == "read" or _carries(call)
    )
    if _asks(call):
        # What is fetched with a clock value depends on it.
        kept = kept | frozenset(o for o in as_read(_asked(call)) if o.via == "read")
    frame = None
    if receiver is not None and receiver.frame is not None:
        frame = replace(receiver.frame, rows=receiver.frame.rows | _decisive(call.taints()))
    elif not (receiver is not None and call.method in _PASS):
        frame = _through(call)
    ref = f"{call.ref}()" if call.ref else ""
    parts = receiver.parts if receiver is not None and call.method in _SAME_TEXT else None
    label = label_of(call.node)[:60]
    return Value(
        taints=kept, ref=ref, label=label, thing=frame, parts=parts,
        given=_made_with(call), fields=_as_fields(call),
    )  # fmt: skip


def _made_with(call: Call) -> dict[str, Value] | None:
    """What an object is made with, if a call looks like that of a class."""
    made = call.name[:1].isupper() and not call.name.isupper() and call.kwargs and not call.args
    if not made:
        return None
    spread = call.kwargs.get("**", Value()).fields or {}
    return {**spread, **{name: value for name, value in call.kwargs.items() if name != "**"}}


def _as_fields(call: Call) -> dict[str, Value] | None:
    """An object as a dictionary: `asdict(thing)`, `thing.model_dump()`."""
    if call.name not in ("asdict", "dict", "model_dump", "to_dict", "_asdict"):
        return None
    thing = call.args[0] if call.args else call.receiver
    return dict(thing.given) if thing is not None and thing.given is not None else None


def _through(call: Call) -> Frame | None:
    """Rows that a function of another module is given: it gives them back, changed or not."""
    if "." not in call.ref.lstrip(".") or _ABOUT_ROWS.match(call.name):
        return None
    given = [*call.args, *call.kwargs.values()]
    return next((value.frame for value in given if value.frame is not None), None)


def _each(machine: Machine, call: Call, function: Function, frame: Frame) -> Value:
    """A function that is applied to each row: its columns may be new, the rows stay."""
    row = machine.enter(function, [Value(taints=frame.everything())], {}, place_of(call.node))
    for name, value in (row.fields or {}).items():
        frame = frame.with_column(name, value.everything() - frame.rows)
    cells = row.taints - frame.rows if row.fields is None else frozenset()
    return Value(thing=frame.with_column("", cells) if cells else frame, ref="frame()")


def _carries(call: Call) -> bool:
    """Does a clock or a random value come back out of a call that is not known?

    Conversions and constructors hand it on. Whatever fetches or does something does not.
    """
    name = call.name.lower()
    receiver = call.receiver
    if (
        receiver is not None
        and "__class__" not in (receiver.fields or {})
        and receiver.everything()
    ):
        return True
    return (
        name in CONVERSIONS or name.startswith(_CONVERTING) or any(word in name for word in _NAMING)
    )


def _asked(call: Call) -> frozenset[Taint]:
    """What a question depends on; a default is what is taken when there is no answer."""
    found: frozenset[Taint] = frozenset()
    for node, value in zip(call.node.args, call.args, strict=False):
        if not label_of(node).lower().startswith(("default", "fallback")):
            found = found | value.everything()
    for name, value in call.kwargs.items():
        if not name.lower().startswith(("default", "fallback")):
            found = found | value.everything()
    return found


def _asks(call: Call) -> bool:
    """Does a call that is not known fetch something?"""
    if _SECRET.search(call.name) or _carries(call):
        return False
    ranged = call.receiver is not None and any(map(_RANGE.match, call.kwargs))
    return bool(_FETCHING.match(call.name)) or (ranged and not _MAKING.match(call.name))


def _decisive(taints: frozenset[Taint]) -> frozenset[Taint]:
    return frozenset(o for o in taints if o.kind in ("pick", "mono") or o.via == "read")
