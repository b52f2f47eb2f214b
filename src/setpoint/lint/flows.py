"""How origins change on their way: by deciding what is read, by standing in for a parameter."""

from __future__ import annotations

from dataclasses import replace

from setpoint.lint.values import Origin, Value


def as_read(origins: frozenset[Origin]) -> frozenset[Origin]:
    """Origins after they decided what was read."""
    return frozenset(
        replace(origin, via="read") if origin.kind == "clock" and not origin.via else origin
        for origin in origins
    )


def as_default(value: Value) -> Value:
    """The value as a stand-in for a parameter that was not given."""
    return replace(
        value,
        origins=frozenset(
            replace(origin, via="default") if origin.kind == "clock" and not origin.via else origin
            for origin in value.origins
        ),
    )


def is_clock(value: Value) -> bool:
    return any(origin.kind == "clock" and not origin.via for origin in value.origins)


def from_outside(value: Value) -> bool:
    """Was it given to the run, as an argument or as its logical date?"""
    return any(origin.kind in ("outside", "logical") for origin in value.everything())
