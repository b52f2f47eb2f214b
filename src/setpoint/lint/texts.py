"""Strings as the program builds them: literal pieces that know their place, and holes.

More than half of the SQL in real pipelines is an f-string, `.format` or `%`. A text keeps the
literal pieces apart from what is filled in, so that the pieces can be read as SQL and every
word of them can be pointed at in the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from setpoint.lint.findings import Place

if TYPE_CHECKING:
    from setpoint.lint.values import Value

_PERCENT = re.compile(r"%(?:\((\w+)\))?[-#0 +]*\d*(?:\.\d+)?[sdifrxeg]|%%")
_BRACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


class Source(Protocol):
    """Where a text stands; knows the place of each of its characters."""

    def place(self, offset: int) -> tuple[int, int]: ...


@dataclass(frozen=True)
class Piece:
    """Literal characters; `start` counts the characters of the literal before them."""

    text: str
    source: Source | None
    start: int = 0

    def cut(self, begin: int, end: int) -> Piece:
        return Piece(self.text[begin:end], self.source, self.start + begin)


@dataclass(frozen=True)
class Hole:
    """What a program fills in: a value, by the words it has in the source."""

    value: Value
    label: str


Part = Piece | Hole


def flatten(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Holes that are texts themselves become their own parts."""
    flat: list[Part] = []
    for part in parts:
        inner = part.value.parts if isinstance(part, Hole) else None
        if inner is not None and len(inner) < 200:
            flat.extend(inner)
        elif isinstance(part, Hole) or part.text:
            flat.append(part)
    return tuple(flat[:2000])


def plain(parts: Sequence[Part] | None) -> str | None:
    """The text, if nothing is filled in."""
    if parts is None or any(isinstance(part, Hole) for part in parts):
        return None
    return "".join(part.text for part in parts if isinstance(part, Piece))


def shown(parts: Sequence[Part]) -> str:
    """The text with its holes between braces, for names and messages."""
    return "".join(p.text if isinstance(p, Piece) else "{" + p.label + "}" for p in parts)


def percent(parts: Sequence[Part], named: dict[str, Value], ordered: list[Value]) -> list[Part]:
    """`text % values`."""
    given = iter(ordered)

    def fill(match: re.Match[str]) -> Value | None:
        return named.get(match[1]) if match[1] else next(given, None)

    return _filled(parts, _PERCENT, lambda match: match[0] == "%%", fill)


def braces(parts: Sequence[Part], named: dict[str, Value], ordered: list[Value]) -> list[Part]:
    """`text.format(...)`."""
    given = iter(ordered)

    def fill(match: re.Match[str]) -> Value | None:
        name = re.split(r"[.\[!:]", match[1] or "", maxsplit=1)[0].strip()
        if not name:
            return next(given, None)
        return (
            ordered[int(name)] if name.isdigit() and int(name) < len(ordered) else named.get(name)
        )

    return _filled(parts, _BRACE, lambda match: match[0] in ("{{", "}}"), fill)


def _filled(
    parts: Sequence[Part],
    holes: re.Pattern[str],
    literal: Callable[[re.Match[str]], bool],
    fill: Callable[[re.Match[str]], Value | None],
) -> list[Part]:
    result: list[Part] = []
    for part in parts:
        if isinstance(part, Hole):
            result.append(part)
            continue
        done = 0
        for match in holes.finditer(part.text):
            result.append(part.cut(done, match.start()))
            if literal(match):
                result.append(part.cut(match.start(), match.start() + 1))
            else:
                value = fill(match)
                if value is None:
                    result.append(part.cut(match.start(), match.end()))
                else:
                    result.append(Hole(value, value.label or match[0].strip("{}%")))
            done = match.end()
        result.append(part.cut(done, len(part.text)))
    return result


class Rendered:
    """A text as one string, with a word for each hole, and the way back to the file."""

    def __init__(self, parts: Sequence[Part], fallback: Place) -> None:
        self.holes: list[Hole] = []
        self._starts: list[int] = []
        self._parts: list[Part] = []
        self._fallback = fallback
        written: list[str] = []
        length = 0
        for part in parts:
            self._starts.append(length)
            self._parts.append(part)
            if isinstance(part, Hole):
                word = f"sp_hole_{len(self.holes)}"
                self.holes.append(part)
            else:
                word = part.text
            written.append(word)
            length += len(word)
        self.text = "".join(written)

    def place(self, offset: int) -> Place:
        """Where a character of the string stands in the file."""
        if not self._parts:
            return self._fallback
        index = max(bisect_right(self._starts, offset) - 1, 0)
        near = self._parts[index]
        if isinstance(near, Hole) or near.source is None:
            for step in range(1, len(self._parts)):
                for other in (index - step, index + step):
                    if 0 <= other < len(self._parts):
                        part = self._parts[other]
                        if isinstance(part, Piece) and part.source is not None and part.text:
                            at = part.start + (len(part.text) - 1 if other < index else 0)
                            return Place(*part.source.place(at))
            return self._fallback
        return Place(*near.source.place(near.start + offset - self._starts[index]))
