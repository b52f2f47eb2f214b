"""How taints change on their way: by deciding what is read, by standing in for a parameter."""

from __future__ import annotations

from dataclasses import replace

from setpoint.lint.values import Taint, Value


def as_read(taints: frozenset[Taint]) -> frozenset[Taint]:
    """Taints after they decided what was read."""
    return frozenset(
        replace(taint, via="read") if taint.kind == "clock" and not taint.via else taint
        for taint in taints
    )


def as_new(taints: frozenset[Taint]) -> frozenset[Taint]:
    """Taints of what is not in a table that was read."""
    return taints | {
        Taint("new", taint.place, taint.label)
        for taint in taints
        if taint.kind in ("read", "whole")
    }


def as_default(value: Value) -> Value:
    """The value as a stand-in for a parameter that was not given."""
    return replace(
        value,
        taints=frozenset(
            replace(taint, via="default") if taint.kind == "clock" and not taint.via else taint
            for taint in value.taints
        ),
    )


def held(value: Value, name: str) -> Value:
    """The value under the name that the program gives it first."""
    if not any(taint.kind == "clock" and not taint.holder for taint in value.taints):
        return value
    return replace(
        value,
        taints=frozenset(
            replace(taint, holder=name) if taint.kind == "clock" and not taint.holder else taint
            for taint in value.taints
        ),
    )


def is_clock(value: Value) -> bool:
    return any(taint.kind == "clock" and not taint.via for taint in value.taints)


def from_outside(value: Value) -> bool:
    """Was it given to the run, as an argument or as its logical date?"""
    return any(taint.kind in ("outside", "logical") for taint in value.everything())
