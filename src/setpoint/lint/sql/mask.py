"""Masks what no SQL parser takes, and names what the rules look for.

Holes of f-strings, Jinja, parameters, and the calls that matter (clocks, randomness, counters,
row numbers, limits) become words such as `sp_clock_3`. The words survive every dialect's
parser, and each one remembers where it stood. That is how a clock inside a nested query is
found on its own line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

MarkKind = Literal[
    "hole", "param", "clock", "random", "mono", "serial", "rownum", "limit", "this", "user"
]
WORD = re.compile(r"sp_(hole|param|clock|random|mono|serial|rownum|limit|this|user)_(\d+)")

_CLOCK = (
    r"(?:current_timestamp|current_date|current_time|current_datetime|localtimestamp|sysdate"
    r"|systimestamp)\b(?:\s*\([^()]{0,40}\))?"
    r"|(?:now|getdate|getutcdate|sysdatetime|sysutcdatetime|curdate|curtime|utc_timestamp|utc_date"
    r"|unix_timestamp|today|clock_timestamp|transaction_timestamp|statement_timestamp"
    r"|sysdatetimeoffset|unix_millis|localtime)\s*\(\s*\d?\s*\)"
    r"|(?:date|datetime|julianday|strftime|unixepoch)\s*\(\s*(?:'[^']*'\s*,\s*)?'now'[^()]*\)"
    r"|to_timestamp\s*\(\s*'now'\s*\)"
)
_RANDOM = (
    r"(?:uuid|uuid_generate_v[14]|gen_random_uuid|generate_uuid|newid|uuid_string|sys_guid"
    r"|generateuuidv4|uuidv4|rand|random|randn)\s*\(\s*\)"
)
_SERIAL = r"(?:next_?val)\s*\(\s*[^()]*\)|\w+\.nextval\b|next\s+value\s+for\s+[\w.]+"
_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?\*/|\{#.*?#\}|^[ \t]*\#[^\n]*)"
    r"|(?P<block>\{%.*?%\})"
    r"|(?P<jinja>\{\{.*?\}\})"
    r"|(?P<body>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)"
    r"|(?P<string>'(?:[^'\\]|''|\\.)*')"
    r"|(?P<ident>\"[^\"\n]*\"|`[^`\n]*`)"
    r"|(?P<hole>\$\{[^}]*\}|\{[^{}\n]{0,80}\}|sp_hole_\d+)"
    r"|(?P<param>%\(\w+\)s|%s\b|(?<![:\w]):[a-zA-Z_]\w*\b(?!:)|(?<![\w@])@\w+|\?)"
    r"|(?<![\w.$])(?:(?P<clock>" + _CLOCK + r")"
    r"|(?P<random>" + _RANDOM + r")"
    r"|(?P<mono>monotonically_increasing_id\s*\(\s*\))"
    r"|(?P<user>(?:current_user|session_user|user)\s*\(\s*\))"
    r"|(?P<rownum>row_number\s*\(\s*\))"
    r"|(?P<limit>limit\s+(?=\d|sp_hole|\{|:|\$|%|\?|@)(?:\d+|\S+)))(?![\w.])"
    r"|(?P<serial>\b(?:" + _SERIAL + r"))",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
_INNER = re.compile(
    r"\{\{.*?\}\}|\$\{[^}]*\}|\{[\w.\[\]'\"()]*\}|%\(\w+\)s|%s|sp_hole_\d+", re.DOTALL
)
_REFERENCE = re.compile(r"\b(?:ref|source)\s*\(([^)]*)\)")
_QUIET = re.compile(r"\{\{-?\s*(?:config|log|print|set|do|return)\b", re.IGNORECASE)
_EXECUTE = re.compile(r"\bexecute\s+(?:immediate\s+)?(?:format\s*\(\s*)?e?\s*$", re.IGNORECASE)
_SPOKEN = re.compile(
    r"'\s*(?:insert\s+into|delete\s+from|truncate|update|merge\s+into)\s", re.IGNORECASE
)
_ALIAS = re.compile(r"\bas\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Mark:
    """A masked part: what it is, where it stood in the text, and its words."""

    kind: MarkKind
    offset: int
    text: str
    # The number of the hole in the rendered text, for holes of the program.
    hole: int | None = None


# Variables of scripts and procedures that hold a clock or random value.
_HELD = rf"(?:(?P<clock>{_CLOCK})|(?P<random>{_RANDOM}))"
_HOLDERS = tuple(
    re.compile(pattern + _HELD, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"\b(?!(?:begin|then|else|loop|declare|is|as)\b)(?P<name>[a-z]\w*)\s+(?:constant\s+)?"
        r"(?:[a-z]\w*(?:\s*\([\d, ]*\))?\s*)?:=[^;]{0,200}?",
        r"\b(?:declare|set)\s+(?P<name>@\w+)[^=;\n]{0,60}=[^;\n]{0,200}?",
        r"\bbegin\s+select\s[^;]{0,200}?\binto\s+(?P<name>[a-z]\w*)\s+from\s[^;]{0,800}?",
    )
)
# A variable that only measures how long something took.
_MEASURES = re.compile(r"start|end|begin|elapsed|finish|duration|t0|t1", re.IGNORECASE)


_STANDS_IN = re.compile(r"is\s+null\b|\b(?:isnull|coalesce|nvl|ifnull)\s*\(", re.IGNORECASE)


def _holders(text: str) -> dict[str, Mark]:
    """The variables that hold a clock or random value, with the place and the words of that."""
    if ":=" not in text and "@" not in text and "into" not in text.lower():
        return {}
    found: dict[str, Mark] = {}
    for pattern in _HOLDERS:
        for match in pattern.finditer(text):
            kind: MarkKind = "clock" if match["clock"] else "random"
            before = text[max(0, match.start() - 40) : match.start()]
            if _STANDS_IN.search(before) or _STANDS_IN.search(match[0]):
                continue  # only when no parameter was given
            if not _MEASURES.search(match["name"]):
                mark = Mark(kind, match.start(kind), match[kind])
                found.setdefault(match["name"].lower(), mark)
    return found


class Masked:
    """SQL that a parser takes, and the marks behind its words."""

    def __init__(self, text: str) -> None:
        self.marks: dict[str, Mark] = {}
        self._holders = _holders(text)
        names = "|".join(re.escape(name) for name in self._holders)
        self._held = re.compile(rf"(?<![\w@.])(?:{names})(?!\w)", re.IGNORECASE) if names else None
        self._out: list[str] = []
        self._length = 0
        self._anchors: list[tuple[int, int]] = [(0, 0)]
        self._read(text, 0)
        self.text = "".join(self._out)

    def _read(self, text: str, base: int) -> None:
        done = 0
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup if match.lastgroup != "tag" else "body"
            if kind == "clock" and _ALIAS.search(text, max(0, match.start() - 8), match.start()):
                continue
            self._plain(text[done : match.start()], base + done)
            self._token(kind or "", match, base + match.start())
            done = match.end()
        self._plain(text[done:], base + done)

    def offset(self, position: int) -> int:
        """Where a character of the masked text stood before."""
        index = bisect_right(self._anchors, (position, 1 << 60)) - 1
        out, source = self._anchors[index]
        return source + position - out

    def _token(self, kind: str, match: re.Match[str], start: int) -> None:
        word = match[0]
        match kind:
            case "comment" | "block":
                self._write("\n" * word.count("\n") or " ", start)
            case "jinja":
                self._jinja(word, start)
            case "body":
                # The statements of a block or a procedure are statements like others.
                tag = word.index("$", 1) + 1
                self._write(" ", start)
                self._read(word[tag:-tag], start + tag)
            case "string" if _SPOKEN.match(word) and _EXECUTE.search("".join(self._out[-4:])):
                # A procedure runs it: the string is a statement. Its end is that of the string.
                self._write(" ", start)
                self._read(word[1:-1].replace("%I", "%s"), start + 1)
                self._write(";", start + len(word) - 1)
            case "string":
                self._string(word, start)
            case "ident":
                self._string(word, start)
            case "limit":
                number = word.split(None, 1)[1]
                self._write("LIMIT ", start)
                self._mark("limit", number, start)
            case "mono":
                self._mark("mono", word, start)
            case "rownum":
                self._mark("rownum", word, start)
                self._write("()", start)
            case "param" if word.lower() in self._holders:
                held = self._holders[word.lower()]
                self._mark(held.kind, held.text, held.offset)
            case "clock" | "random" | "serial" | "param" | "hole" | "user":
                self._mark(kind, word, start)
            case _:
                self._write(word, start)

    def _plain(self, text: str, source: int) -> None:
        """Words between the tokens; a variable that holds a clock value is that clock."""
        done = 0
        for match in self._held.finditer(text) if self._held is not None else ():
            held = self._holders[match[0].lower()]
            if source + match.start() > held.offset:
                self._write(text[done : match.start()], source + done)
                self._mark(held.kind, held.text, held.offset)
                done = match.end()
        self._write(text[done:], source + done)

    def _jinja(self, word: str, start: int) -> None:
        inner = word.strip("{}-+ \n\t")
        reference = _REFERENCE.search(inner)
        if _QUIET.match(word):
            self._write(" ", start)
        elif reference:
            names = re.findall(r"['\"]([^'\"]+)['\"]", reference[1])
            self._write(".".join(names) or "sp_ref", start)
        elif re.fullmatch(r"this(\.\w+)*", inner):
            self._mark("this", inner, start)
        elif re.search(r"\brun_started_at\b|datetime\.(?:utc)?now|\btoday\(", inner):
            self._mark("clock", inner, start)
        else:
            self._mark("hole", inner, start)

    def _string(self, word: str, start: int) -> None:
        done = 0
        for match in _INNER.finditer(word):
            self._write(word[done : match.start()], start + done)
            if match[0].startswith("{{"):
                self._jinja(match[0], start + match.start())
            else:
                self._mark("hole", match[0], start + match.start())
            done = match.end()
        self._write(word[done:], start + done)

    def _mark(self, kind: MarkKind, text: str, offset: int) -> None:
        number = re.fullmatch(r"sp_hole_(\d+)", text)
        hole = int(number[1]) if number else None
        name = f"sp_{kind}_{len(self.marks)}"
        self.marks[name] = Mark(kind, offset, text, hole)
        self._write(name, offset)

    def _write(self, text: str, source: int) -> None:
        if text:
            self._anchors.append((self._length, source))
            self._out.append(text)
            self._length += len(text)


_NEXT = re.compile(
    r"^[ "
    r"\t]*(?:insert\s+into|update\s+\S+\s*(?:set\b|$)|delete\s+from|truncate\s+table|exec(?:ute)?\s"
    r"|go\s*$|declare\s+@|drop\s+table|end\s*$)",
    re.IGNORECASE | re.MULTILINE,
)
_UNFINISHED = re.compile(
    r"(?:\b(?:then|do|begin|key|explain|for|as|and|or|with|before|after)|[,(=])\s*$", re.IGNORECASE
)
_WHOLE = re.compile(r"\s*(?:with|merge)\b", re.IGNORECASE)


def statements(masked: str) -> list[tuple[int, str]]:
    """The statements of a masked text, with the position of each.

    Some dialects need no semicolon: a line that can only begin a statement begins one.
    """
    found: list[tuple[int, str]] = []
    begins = {match.start() for match in _NEXT.finditer(masked)} if "\n" in masked else set()
    start, depth, quote = 0, 0, ""
    for index, character in enumerate(masked):
        if index in begins and depth <= 0 and not quote:
            before = masked[start:index]
            if before.strip() and not _UNFINISHED.search(before) and not _WHOLE.match(before):
                found.append((start, before))
                start = index
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == ";":
            found.append((start, masked[start:index]))
            start, depth = index + 1, 0
    found.append((start, masked[start:]))
    return [
        (at + len(text) - len(text.lstrip()), text.strip()) for at, text in found if text.strip()
    ]
