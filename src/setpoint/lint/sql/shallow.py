"""A statement by its words alone: the verb, the target, and what the clauses say.

Enough for DDL and transactions, and the fallback for what no dialect's parser takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from setpoint.lint.sql.mask import WORD
from setpoint.lint.sql.statement import Pick, Statement, Stored, Verb

_NAME = r"(?:[\w$.{}#\-:/@*]|\"[^\"]*\"|`[^`]*`|\[[^\]]*\])+"
_FILE = r"(?:'[^']*'|\"[^\"]*\"|\S+)"
_PATTERNS: tuple[tuple[Verb, str], ...] = (
    ("overwrite", r"insert\s+overwrite\s+(?:table\s+|into\s+)?(?:directory\s+)?NAME"),
    ("replace", r"(?:replace\s+into|insert\s+or\s+replace\s+into)\s+NAME"),
    ("ignore", r"insert\s+(?:or\s+)?ignore\s+(?:into\s+)?NAME"),
    ("insert", r"insert\s+(?:all\s+)?into\s+(?:table\s+)?NAME"),
    ("insert", r"insert\s+NAME\s*(?:\(|select|values)"),
    ("upsert", r"upsert\s+into\s+NAME"),
    ("merge", r"merge\s+(?:into\s+)?NAME"),
    ("update", r"update\s+(?:only\s+)?NAME"),
    ("delete", r"delete\s+(?:from\s+)?NAME"),
    ("truncate", r"truncate\s+(?:table\s+)?(?:if\s+exists\s+)?NAME"),
    ("drop", r"drop\s+(?:table|view|materialized\s+view)\s+(?:if\s+exists\s+)?NAME"),
    ("rename", r"alter\s+table\s+(?:if\s+exists\s+)?NAME\s+(?:rename|swap|exchange|append)\b"),
    (
        "view",
        r"create\s+(?:or\s+\w+\s+)?(?:global\s+|local\s+)?(?:temp(?:orary)?\s+)?"
        r"(?:secure\s+|recursive\s+|live\s+)?view\s+(?:if\s+not\s+exists\s+)?NAME",
    ),
    (
        "create",
        r"create\s+(?:or\s+(?:replace|refresh)\s+)?(?:global\s+|local\s+)?"
        r"(?:temp(?:orary)?\s+|transient\s+|unlogged\s+|external\s+|volatile\s+"
        r"|multiset\s+|streaming\s+|live\s+)*"
        r"(?:table|materialized\s+view)\s+(?:if\s+not\s+exists\s+)?NAME",
    ),
    ("copy", r"copy\s+(?:into\s+)?NAME"),
    (
        "overwrite",
        rf"load\s+data\s+(?:local\s+)?inpath\s+{_FILE}\s+overwrite\s+into\s+table\s+NAME",
    ),
    ("replace", rf"load\s+data\s+(?:local\s+)?infile\s+{_FILE}\s+replace\s+into\s+table\s+NAME"),
    ("ignore", rf"load\s+data\s+(?:local\s+)?infile\s+{_FILE}\s+ignore\s+into\s+table\s+NAME"),
    ("insert", rf"load\s+data\s+(?:local\s+)?in(?:file|path)\s+{_FILE}\s+into\s+table\s+NAME"),
)
_TARGETS = tuple(
    (verb, re.compile(pattern.replace("NAME", f"(?P<name>{_NAME})"), re.IGNORECASE | re.DOTALL))
    for verb, pattern in _PATTERNS
)
_WORDS: tuple[tuple[Verb, re.Pattern[str]], ...] = (
    ("begin", re.compile(r"(?:begin|start)(?:\s+(?:transaction|work|tran))?\s*$", re.IGNORECASE)),
    ("commit", re.compile(r"(?:commit|end)(?:\s+(?:transaction|work|tran))?\s*$", re.IGNORECASE)),
    ("select", re.compile(r"(?:select|with|from|values|\()", re.IGNORECASE)),
)
_WITH_WRITE = re.compile(
    r"\)\s*(?:insert\s+(?:into|overwrite)\b|update\s+\S+|delete\s+from\b|merge\s+into\b)",
    re.IGNORECASE,
)
_WITH = re.compile(r"with\b", re.IGNORECASE)
_SELECT_INTO = re.compile(
    rf"^\s*select\b(?:(?!\bfrom\b).)*\binto\s+(?:temp\s+)?(?P<name>{_NAME})\s+from\b",
    re.IGNORECASE | re.DOTALL,
)
_SOURCES = re.compile(rf"\b(?:from|join|using)\s+(?P<name>{_NAME})", re.IGNORECASE)
_SERIAL = re.compile(
    r"[`\"\[]?(\w+)[`\"\]]?\s+(?:(?:big|small)?serial\d?\b|\w+(?:\s*\([^()]*\))?\s+(?:not\s+null\s+)?"
    r"(?:primary\s+key\s+)?(?:auto_?increment\b|identity\b|generated\s+(?:always|by\s+default)"
    r"(?:\s+on\s+null)?\s+as\s+identity))",
    re.IGNORECASE,
)
_UNIQUE = re.compile(r"\bunique\b|\bprimary\s+key\b", re.IGNORECASE)
# In ClickHouse a primary key only sorts the rows; some engines keep one row of each key.
_ENGINE = re.compile(r"\bengine\s*=?\s*(\w*)mergetree\b", re.IGNORECASE)
_CONFLICT = re.compile(r"\bon\s+conflict\b|\bon\s+duplicate\s+key\b", re.IGNORECASE)
_NOTHING = re.compile(r"\bdo\s+nothing\b", re.IGNORECASE)
# Inside a block of a procedure, behind what opens it or decides.
_EMBEDDED = re.compile(
    r"\b(?:then|begin|else|loop|as|is|do)\s+(?:execute\s+(?:immediate\s+)?(?:format\s*\(\s*)?)?"
    r"((?:insert\s+into|delete\s+from|truncate|update|merge\s+into)\s)",
    re.IGNORECASE,
)
# A statement that a procedure puts together as a string.
_EXECUTE = re.compile(
    r"(?:begin\s+)?execute\s+(?:immediate\s+)?(?:format\s*\(\s*)?e?\s*"
    r"(?=(?:insert\s+into|delete\s+from|truncate|update|merge\s+into)\s)",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"\b(?:select|where|on|having|qualify|values|set|from)\b", re.IGNORECASE)
_MORE = re.compile(rf"(?:\s*,\s*{_NAME})+")
_COLUMNS = re.compile(r"^\s*\(([^()]*)\)")


def bare(name: str) -> str:
    """A name without quotes and without a closing bracket that belongs to the statement."""
    return re.sub(r"[`\"\[\]]", "", name).strip("().,;").lower()


def between(column: str, text: str) -> bool:
    """Does an expression in words join two values of a column, `t.n + s.n`?"""
    owners = set(re.findall(rf"(\w+)\.[`\"]?{re.escape(column)}\b", text, re.IGNORECASE))
    return len(owners) > 1 and bool(re.search(r"[+\-]", text))


def shallow(text: str, offset: int, at: Callable[[int], int]) -> Statement:
    """What the words of one statement tell."""
    for verb, pattern in _WORDS[:2]:
        if pattern.match(text):
            return Statement(verb, offset, text=text)
    for verb, pattern in _TARGETS:
        match = pattern.match(text)
        if match:
            return _target(verb, match, text, offset, at)
    spoken = _EXECUTE.match(text)
    if spoken:
        shift = spoken.end()
        return shallow(text[shift:], at(shift), lambda position: at(position + shift))
    nested = _WITH_WRITE.search(text) if _WITH.match(text) else None
    if nested:
        inner = text[nested.start() + 1 :].lstrip()
        shift = len(text) - len(inner)
        found = shallow(inner, at(shift), lambda position: at(position + shift))
        return replace(found, sources=_sources(text, found.target), text=text)
    into = _SELECT_INTO.match(text)
    if into:
        name = bare(into["name"])
        return _marked(
            Statement("create_as", offset, name, temporary=_temporary(name, text), text=text),
            text,
            at,
        )
    if _WORDS[2][1].match(text):
        query = Statement("select", offset, sources=_sources(text, ""), text=text, parsed=False)
        return _marked(query, text, at)
    embedded = _EMBEDDED.search(text)
    if embedded:
        shift = embedded.start(1)
        found = shallow(text[shift:], at(shift), lambda position: at(position + shift))
        guarded = bool(re.search(r"\bnot\s+exists\b", text[:shift], re.IGNORECASE))
        return replace(found, against_target=found.against_target or guarded)
    return Statement("other", offset, text=text)


def _target(
    verb: Verb, match: re.Match[str], text: str, offset: int, at: Callable[[int], int]
) -> Statement:
    name = bare(match["name"])
    if name in ("function", "values", "select", "set"):
        return Statement("other", offset, text=text)
    rest = text[match.end("name") :]
    if verb == "copy" and re.match(r"\s*(?:\([^()]*\)\s*)?to\b", rest, re.IGNORECASE):
        return Statement("other", offset, text=text)  # an export
    head = text[: match.start("name")].lower()
    if verb == "insert" and _CONFLICT.search(rest):
        verb = "ignore" if _NOTHING.search(rest) else "upsert"
    if (
        verb == "copy"
        and "into" in head
        and not re.search(r"force\s*=\s*'?true", rest, re.IGNORECASE)
    ):
        verb = "upsert"  # files that were loaded are remembered by the table
    if verb == "create" and re.search(r"\bas\s*(?:\(\s*)?(?:select|with)\b", rest, re.IGNORECASE):
        verb = "create_as"
    columns = _COLUMNS.match(rest)
    statement = Statement(
        verb,
        offset,
        name,
        temporary=_temporary(name, head),
        if_not_exists="not exists" in head,
        replacing="replace" in head or "refresh" in head,
        columns=tuple(bare(part) for part in columns[1].split(",")) if columns else (),
        sources=_sources(rest, name),
        where=bool(re.search(r"\bwhere\b", rest, re.IGNORECASE)) or verb == "truncate",
        against_target=name in _sources(rest, ""),
        partitioned=bool(re.search(r"\bpartition\s*\(", rest, re.IGNORECASE)),
        literal_rows=bool(re.match(r"\s*(?:\([^()]*\)\s*)?values\b", rest, re.IGNORECASE)),
        parsed=False,
        text=text,
    )
    if verb in ("truncate", "drop"):
        more = _MORE.match(rest)
        if more:
            names = tuple(bare(part.strip()) for part in more[0].split(",") if part.strip())
            statement = replace(statement, also=names)
    if verb == "create":
        serial = _SERIAL.search(rest)
        # The counter itself may be the only primary key: that makes no row unique.
        natural = (
            _SERIAL.sub("", re.sub(r"(?i)\bprimary\s+key\b(?!\s*\()", "", rest)) if serial else rest
        )
        return replace(
            statement,
            serial_columns=(serial[1].lower(),) if serial else (),
            serial_offset=at(match.end("name") + serial.start()) if serial else 0,
            unique=_keeps_one(natural),
            stored=_defaults(rest),
        )
    found = _marked(statement, text, at)
    if "copy" in head:
        # What is filled in behind the table says which files are read.
        holes = tuple(mark[0] for mark in WORD.finditer(rest) if mark[1] in ("hole", "param"))
        found = replace(found, filters=(*found.filters, *holes))
    return found


def _temporary(name: str, head: str) -> bool:
    return name.startswith("#") or bool(re.search(r"\btemp(?:orary)?\b|\bvolatile\b", head.lower()))


def _sources(text: str, target: str) -> frozenset[str]:
    found = {bare(match["name"]) for match in _SOURCES.finditer(text)}
    return frozenset(name for name in found if name and name not in ("select", target))


def _defaults(rest: str) -> tuple[Stored, ...]:
    found = re.finditer(
        r"(\w+)[^,()]*\bdefault\s+\(?\s*(sp_(?:clock|random)_\d+)", rest, re.IGNORECASE
    )
    return tuple(Stored(match[1].lower(), (match[2],)) for match in found)


def _keeps_one(columns: str) -> bool:
    """Does a table keep one row of each key, however often the row is added?"""
    engine = _ENGINE.search(columns)
    if engine is not None:
        return "replacing" in engine[1].lower()
    return bool(_UNIQUE.search(columns))


def _marked(statement: Statement, text: str, at: Callable[[int], int]) -> Statement:
    """Marks by the clause that they stand in: a condition filters, all else is stored."""
    stored, filters, picks = [], [], []
    clauses = [(clause.start(), clause[0].lower()) for clause in _CLAUSE.finditer(text)]
    for mark in WORD.finditer(text):
        if mark[1] in ("hole", "param"):
            before = [word for start, word in clauses if start < mark.start()]
            if before and before[-1] in ("where", "having", "qualify"):
                filters.append(mark[0])
            elif before and before[-1] == "values":
                stored.append(Stored("", (mark[0],)))
        elif mark[1] in ("clock", "random", "serial", "mono"):
            before = [word for start, word in clauses if start < mark.start()]
            if not before or before[-1] not in ("where", "on", "having", "qualify"):
                alias = re.match(
                    r"\s*(?:::\w+\s*)?\)*\s*as\s+[`\"]?(\w+)", text[mark.end() :], re.IGNORECASE
                )
                stored.append(Stored(alias[1].lower() if alias else "", (mark[0],)))
            else:
                filters.append(mark[0])
    limit = re.search(r"limit\s+sp_limit_\d+", text, re.IGNORECASE)
    if limit and not re.search(r"\border\s+by\b", text, re.IGNORECASE):
        picks.append(Pick(at(limit.start()), "LIMIT without ORDER BY"))
    return replace(statement, stored=tuple(stored), filters=tuple(filters), picks=tuple(picks))
