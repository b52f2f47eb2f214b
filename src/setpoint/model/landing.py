"""A landed generation: what an origin returned for a window, as the record beside it tells."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from setpoint.model.fingerprint import canonical, digest
from setpoint.model.secret import ENV, is_secret, without_passwords

FORMAT = "setpoint.landing"
VERSION = 1
_DIGEST = "digest:"
# What certainly is no key: parts of the window, the name of a variable, a small number.
_HOLE = re.compile(r"\{[A-Za-z_]+(?::[^{}]*)?\}")
_NUMBER = re.compile(r"[0-9]{1,4}")


@dataclass(frozen=True)
class Landing:
    """The record of one generation, written in the same commit as its items.

    `request` is what the origin was asked, with a digest in place of whatever may be a key;
    `asked` is the digest of all of it together with the window's bounds.
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
        known = {name: held[name] for name in Landing.__dataclass_fields__ if name in held}
        # Records of a time when keys were written down.
        return Landing(**{**known, "request": recorded(known.get("request") or {})})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def asked_of(request: Mapping[str, object], start: str, end: str) -> str:
    """The digest of a question: what the origin is asked, and for which stretch of time."""
    return digest(canonical(request), start, end)


def recorded(request: Mapping[str, object]) -> dict[str, object]:
    """A request as its record keeps it; a record that is kept already stays what it is."""
    return {name: _recorded(name, value) for name, value in request.items()}


def _recorded(name: str, value: object) -> object:
    match name, value:
        case "params", dict():
            return {key: _sealed(str(text)) for key, text in value.items()}
        case "options", dict():
            return {key: _sealed(text) if is_secret(key) else text for key, text in value.items()}
        case "url", str():
            place, mark, query = value.partition("?")
            return place + mark + "&".join(_pair(pair) for pair in query.split("&"))
        case _, str():
            return without_passwords(value)
        case _, list():
            return [_recorded("", item) for item in value]
        case _:
            return value


def _pair(pair: str) -> str:
    name, equals, text = pair.partition("=")
    return f"{name}={_sealed(text)}" if equals else _sealed(pair)


def _sealed(text: str) -> str:
    """A value, if it cannot be a key; otherwise what tells it from others, and no more."""
    plain = not re.search(r"\w", _HOLE.sub("", text)) or _NUMBER.fullmatch(text)
    if plain or ENV.fullmatch(text) or text.startswith(_DIGEST):
        return text
    return f"{_DIGEST}{digest(text)[:12]}"
