"""The high-water mark: how far an incremental pipeline has read, kept in its receipt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from setpoint.model.slice import typed

# Types whose values have one text and one order, in Spark and in Python alike.
KINDS = ("date", "timestamp", "timestamp_ntz", "string", "tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Mark:
    """The greatest cursor that was published: columns, their Spark types, and values as text."""

    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    values: tuple[str, ...]

    @classmethod
    def of(cls, text: str | None) -> Mark | None:
        """The mark of a receipt; None when there is none that can be read."""
        if text is None:
            return None
        try:
            body = json.loads(text)
            return cls(tuple(body["columns"]), tuple(body["kinds"]), tuple(body["values"]))
        except (ValueError, TypeError, KeyError):
            return None

    @classmethod
    def read(cls, text: str | None, columns: Sequence[str]) -> Mark | None:
        """The mark of a receipt for a cursor; None also when it is one of other columns."""
        found = cls.of(text)
        return found if found is not None and found.columns == tuple(columns) else None

    def as_text(self) -> str:
        """The mark as a receipt holds it."""
        body = {"columns": self.columns, "kinds": self.kinds, "values": self.values}
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False)

    def is_later_than(self, other: Mark | None) -> bool:
        """Whether this mark lies further on; marks of other columns are never further."""
        if other is None:
            return True
        if (self.columns, self.kinds) != (other.columns, other.kinds):
            return False
        return self._typed() > other._typed()

    def _typed(self) -> tuple[Any, ...]:
        pairs = zip(self.kinds, self.values, strict=True)
        return tuple(value_of(kind, text) for kind, text in pairs)

    def __str__(self) -> str:
        return ", ".join(
            f"{name} {value}" for name, value in zip(self.columns, self.values, strict=True)
        )


def later_of(one: Mark | None, other: Mark | None) -> Mark | None:
    """The mark that lies further on; the first if they cannot be compared."""
    if one is None or other is None:
        return one or other
    if (one.columns, one.kinds) != (other.columns, other.kinds):
        return one
    return other if other.is_later_than(one) else one


def value_of(kind: str, text: str) -> Any:
    """A cursor's value as Python orders it; ValueError or ArithmeticError if it is none."""
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return typed(kind, text)
    if kind == "string":
        return text.encode("utf-8", "surrogatepass")
    return Decimal(text) if kind.startswith("decimal") else int(text)
