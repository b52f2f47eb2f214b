"""Values that are what was read and more: written back, they grow with every repetition."""

from __future__ import annotations

from setpoint.lint.findings import Place
from setpoint.lint.values import NO_TAINTS, Frame, Taint

_WHOLE = ("whole", "grown")


def whole(place: Place, key: str) -> frozenset[Taint]:
    """All that a file or an object holds, by the name that it is read by."""
    return frozenset({Taint("whole", place, key)}) if key else NO_TAINTS


def more(old: frozenset[Taint], new: frozenset[Taint], place: Place) -> frozenset[Taint]:
    """What is added to the whole of a file, unless it was compared with it before."""
    known = {taint.label for taint in new if taint.kind in ("whole", "new")}
    return frozenset(
        Taint("grown", place, taint.label)
        for taint in old
        if taint.kind == "whole" and taint.label not in known
    )


def fewer(taints: frozenset[Taint]) -> frozenset[Taint]:
    """Of what was read, some rows were left out: those that come again may be among them."""
    return frozenset(taint for taint in taints if taint.kind not in _WHOLE)


def together(frames: list[Frame], place: Place) -> frozenset[Taint]:
    """Frames that are put below each other."""
    found: frozenset[Taint] = NO_TAINTS
    if len(frames) > 1:
        for frame in frames:
            for other in frames:
                if other is not frame:
                    found = found | more(frame.rows, other.rows, place)
    return found


def grows(rows: frozenset[Taint], key: str) -> bool:
    """Are these the rows of a place, and more?"""
    return any(taint.kind == "grown" and taint.label == key for taint in rows)
