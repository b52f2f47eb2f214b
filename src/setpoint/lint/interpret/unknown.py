"""Calls that no model speaks for: what they are given may come back, changed or not."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.lint.flows import as_read
from setpoint.lint.interpret.call import Call, label_of, place_of
from setpoint.lint.knowledge.library import CONVERSIONS
from setpoint.lint.values import Function, Taint, Value
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
_SECRET = re.compile(
    r"token|auth|secret|credential|session|logger|log|client|connection|engine", re.IGNORECASE
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
        return machine.enter(functions[0], rest, call.kwargs, place_of(call.node))
    receiver = call.receiver
    taints = call.taints()
    if receiver is not None:
        if call.method in _PASS and isinstance(call.node.func, ast.Attribute):
            machine.put_into(call.node.func.value, receiver, call, taints)
        # An instance holds much that its methods do not use.
        instance = "__class__" in (receiver.fields or {})
        taints = taints | (receiver.taints if instance else receiver.everything())
    kept = frozenset(o for o in taints if o.kind not in ("clock", "random") or _carries(call))
    if _asks(call):
        # What is fetched with a clock value depends on it.
        kept = kept | frozenset(o for o in as_read(call.taints()) if o.via == "read")
    frame = None
    if receiver is not None and receiver.frame is not None:
        frame = replace(receiver.frame, rows=receiver.frame.rows | _decisive(call.taints()))
    ref = f"{call.ref}()" if call.ref else ""
    parts = receiver.parts if receiver is not None and call.method in _SAME_TEXT else None
    return Value(taints=kept, ref=ref, label=label_of(call.node)[:60], thing=frame, parts=parts)


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


def _asks(call: Call) -> bool:
    """Does a call that is not known fetch something?"""
    return bool(_FETCHING.match(call.name)) and not _SECRET.search(call.name) and not _carries(call)


def _decisive(taints: frozenset[Taint]) -> frozenset[Taint]:
    return frozenset(o for o in taints if o.kind in ("pick", "mono") or o.via == "read")
