"""A landed generation: what an origin returned for a window, as the record beside it tells."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from setpoint.model.fingerprint import canonical, digest

FORMAT = "setpoint.landing"
VERSION = 1


@dataclass(frozen=True)
class Landing:
    """The record of one generation, written in the same commit as its items.

    `request` is what the origin was asked, `asked` its digest together with the window's bounds.
    `contents` is the fingerprint of the items, whatever their order. `notes` say what was left
    out of them.
    """

    name: str
    window: str
    start: str
    end: str
    generation: int
    attempt: str
    landed_at: str
    asked: str
    items: int
    contents: str
    request: Mapping[str, Any] = field(default_factory=dict)
    pages: int | None = None
    readings: int = 1
    notes: Sequence[str] = ()
    version: int = VERSION

    def seal(self) -> str:
        """The text that the commit carries."""
        body = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return canonical({"format": FORMAT, "landing": body})


def unseal(text: object) -> Landing | None:
    """The record in a commit's text; None when somebody else wrote the commit."""
    try:
        body = json.loads(text) if isinstance(text, str) and FORMAT in text else {}
        held = body["landing"] if body.get("format") == FORMAT else None
        if held is None:
            return None
        return Landing(
            **{name: held[name] for name in Landing.__dataclass_fields__ if name in held}
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def asked_of(request: Mapping[str, object], start: str, end: str) -> str:
    """The digest of a question: what the origin is asked, and for which stretch of time."""
    return digest(canonical(request), start, end)
