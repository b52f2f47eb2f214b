"""Which columns a table has: names alone do not tell after a rename, or after a drop and an add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from setpoint.model.fingerprint import digest

UNKNOWN_COLUMNS = "unknown"
_BY_NAME = "by name"


@dataclass(frozen=True)
class Columns:
    """The columns of a table as its format tells them apart.

    `numbers` has the number of every column, and of every field inside one, by its path. A format
    hands out growing numbers, and none twice. There are none where columns are known by their names
    alone; such columns cannot be renamed. `renamed` says that a column which once was known by its
    name may be another one now.
    """

    numbers: Mapping[str, int] = field(default_factory=dict)
    renamed: bool = False

    def recorded(self) -> str:
        """The columns as a receipt keeps them."""
        if not self.numbers:
            return _BY_NAME
        return self._up_to(max(self.numbers.values()))

    def same_as(self, recorded: str) -> bool:
        """Whether the columns that a receipt tells of are still those; later ones do not count.

        A receipt of a time when columns were not recorded is believed.
        """
        if not recorded:
            return True
        if recorded == _BY_NAME:
            return not self.renamed
        last = recorded.partition(":")[0]
        return bool(self.numbers) and last.isdecimal() and self._up_to(int(last)) == recorded

    def _up_to(self, last: int) -> str:
        known = sorted((number, path) for path, number in self.numbers.items() if number <= last)
        return f"{last}:{digest(*(f'{number} {path}' for number, path in known))}"
