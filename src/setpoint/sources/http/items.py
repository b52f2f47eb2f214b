"""Items of an API: their JSON in one spelling, their ids, and the places in an answer."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

MISSING = object()


@dataclass(frozen=True)
class Number:
    """A number with a fraction, as the server spelled it: a float would not keep every digit."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Item:
    """One item: its id as text, its JSON in one spelling, and the fields by name."""

    id: str
    text: str
    fields: Any

    @property
    def hashes(self) -> tuple[int, int]:
        """128 bits for the whole item, and 64 for its id."""
        whole = hashlib.sha256(f"{len(self.id)}:{self.id}{self.text}".encode("utf-8", "replace"))
        own = hashlib.sha256(self.id.encode("utf-8", "replace"))
        return int.from_bytes(whole.digest()[:16], "big"), int.from_bytes(own.digest()[:8], "big")


def parse(content: bytes) -> Any:
    """An answer's JSON; ValueError when it is none."""
    try:
        return json.loads(content, parse_float=Number, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def at(body: Any, place: str) -> Any:
    """What lies at a place such as `data` or `result.items`; the body itself at no place."""
    for name in place.split(".") if place else ():
        if not isinstance(body, dict) or name not in body:
            return MISSING
        body = body[name]
    return body


def item_of(value: Any, id_place: str) -> Item | None:
    """An item of an answer; None when it has no id that tells it from others."""
    found = at(value, id_place)
    if isinstance(found, bool) or not isinstance(found, (str, int)) or found == "":
        return None
    return Item(str(found), spelled(value), value)


def spelled(value: Any) -> str:
    """JSON with one spelling per value: names in order, no blanks, numbers as they came."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except TypeError:  # it holds a Number
        return _spelled(value)
    return text if _is_storable(text) else _spelled(value)


def _spelled(value: Any) -> str:
    """The same, part by part, for what the quick way cannot take."""
    match value:
        case Number():
            return value.text
        case dict():
            pairs = (f"{_quoted(name)}:{_spelled(value[name])}" for name in sorted(value))
            return f"{{{','.join(pairs)}}}"
        case list():
            return f"[{','.join(map(_spelled, value))}]"
        case str():
            return _quoted(value)
        case _:
            return json.dumps(value)


def _quoted(text: str) -> str:
    plain = json.dumps(text, ensure_ascii=False)
    return plain if _is_storable(plain) else json.dumps(text)


def _is_storable(text: str) -> bool:
    """Half of a surrogate pair cannot be stored as it is."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
