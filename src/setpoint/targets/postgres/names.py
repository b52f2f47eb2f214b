"""Names in PostgreSQL: parsed once, quoted everywhere, never pasted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from setpoint.errors import NOTHING_STARTED, DefinitionError

OURS = "setpoint"
_LONGEST = 63
_QUOTED = re.compile(r'"((?:[^"]|"")+)"')


@dataclass(frozen=True)
class TableName:
    """A table by schema and name, as they are stored: no folding of case, no quotes."""

    schema: str
    table: str

    @property
    def sql(self) -> str:
        return f"{quote(self.schema)}.{quote(self.table)}"

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


def quote(name: str) -> str:
    """An identifier that PostgreSQL takes literally."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text constant that means the same under every server setting."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


def parse_name(text: str) -> TableName:
    """Read `table`, `schema.table` or the quoted form `"sche.ma"."table"`."""
    parts = _parts(text)
    if parts is None or not all(parts):
        raise DefinitionError(
            "SP-D01",
            f"postgres({text!r:.80}) does not name one table of one schema.",
            why="A dot separates the schema from the table.",
            state=NOTHING_STARTED,
            next='Write "schema.table"; put names with dots of their own into double quotes: '
            '\'"my.schema"."my.table"\'.',
        )
    for part in parts:
        if len(part.encode()) > _LONGEST:
            raise DefinitionError(
                "SP-D01",
                f"The name {part!r:.100} is longer than {_LONGEST} bytes.",
                why="PostgreSQL would cut it off, and the table would be another one.",
                state=NOTHING_STARTED,
                next="Use the name as the database has it.",
            )
    schema, table = parts if len(parts) == 2 else ("public", parts[0])
    return TableName(schema, table)


def _parts(text: str) -> list[str] | None:
    if not text.startswith('"'):
        parts = text.split(".")
        return parts if len(parts) <= 2 else None
    parts, rest = [], text
    while (found := _QUOTED.match(rest)) is not None:
        parts.append(found[1].replace('""', '"'))
        rest = rest[found.end() :]
        if not rest:
            return parts if len(parts) <= 2 else None
        if not rest.startswith("."):
            return None
        rest = rest[1:]
    return None
