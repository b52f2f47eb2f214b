"""The write patterns: how a run's rows become the state of the target.

None of them adds rows without looking at what is there: an append cannot be expressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from setpoint.errors import NOTHING_STARTED, DefinitionError
from setpoint.model.fingerprint import canonical, digest

WhenMissing = Literal["keep", "delete"]
NullKeys = Literal["refuse", "quarantine", "allow"]
Conflicts = Literal["refuse", "keep"]
Columns = str | Sequence[str]


@dataclass(frozen=True)
class Overwrite:
    """Replace the window's slice with the run's rows; an empty result leaves an empty slice."""

    name = "overwrite"

    def definition(self) -> dict[str, object]:
        """The pattern as it enters the run key."""
        return {"pattern": self.name}


@dataclass(frozen=True)
class Replace:
    """Replace the whole table; of several windows the newest one is what the table holds."""

    name = "replace"

    def definition(self) -> dict[str, object]:
        return {"pattern": self.name}


@dataclass(frozen=True)
class DeleteInsert:
    """Replace the rows for which a condition holds, in one transaction.

    `where` is a SQL condition on the table's own columns; every row of the run must satisfy it.
    If the target names a column for the window (`partition_by`, `time`), the rows replaced are
    those of the window only; otherwise the newest window is what the condition's rows hold.
    """

    where: str
    name = "delete_insert"

    def __post_init__(self) -> None:
        if not isinstance(self.where, str) or not self.where.strip() or "\x00" in self.where:
            raise _invalid(
                f"DeleteInsert(where={self.where!r:.80}) has no condition",
                "Write DeleteInsert(where=\"region = 'EU'\"), or Replace() for the whole table.",
            )

    def definition(self) -> dict[str, object]:
        return {"pattern": self.name, "where": self.where}


@dataclass(frozen=True)
class Merge:
    """Bring each key to its latest row, in whatever order the windows run.

    Of all rows ever merged under a key the one with the greatest `sequence_by` is what the
    table holds; rows of different windows that tie are ordered by their whole content, and a
    window that is published again corrects its own. A row for which `delete_when` holds removes
    its key and is remembered, so that a late older row does not bring it back. With
    `when_missing="delete"` the rows are the complete state: keys that are missing from them are
    removed, and of several windows the newest counts. A null in the key is refused,
    put aside into a table of its own (`null_keys="quarantine"`) or taken as a value ("allow").
    """

    key: Columns
    sequence_by: Columns
    delete_when: str | None = None
    when_missing: WhenMissing = "keep"
    null_keys: NullKeys = "refuse"
    name = "merge"

    def __post_init__(self) -> None:
        _set_columns(self, "key", "Merge", 'key="order_id"')
        _set_columns(self, "sequence_by", "Merge", 'sequence_by="updated_at"')
        _refuse_unknown(self, "when_missing", WhenMissing)
        _refuse_unknown(self, "null_keys", NullKeys)
        both = sorted(set(self.keys) & set(self.sequence))
        if both:
            raise _invalid(
                f"Merge: {both[0]} is both in key and in sequence_by",
                "The key says which row it is, sequence_by which version of it is the latest.",
            )
        condition = self.delete_when
        if condition is not None and (not isinstance(condition, str) or not condition.strip()):
            raise _invalid(
                f"Merge(delete_when={condition!r:.80}) has no condition",
                "Write delete_when=\"op = 'D'\", or leave it out.",
            )

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.key)

    @property
    def sequence(self) -> tuple[str, ...]:
        return tuple(self.sequence_by)

    def definition(self) -> dict[str, object]:
        return {
            "pattern": self.name,
            "key": list(self.keys),
            "sequence_by": list(self.sequence),
            "delete_when": self.delete_when,
            "when_missing": self.when_missing,
            "null_keys": self.null_keys,
        }


@dataclass(frozen=True)
class InsertNew:
    """Insert the rows whose key is not there yet: for events, which never change.

    A key that is there with other content is a contradiction. It is refused, or, with
    `conflicts="keep"`, the stored row is kept and the contradiction reported.
    """

    key: Columns
    conflicts: Conflicts = "refuse"
    null_keys: NullKeys = "refuse"
    name = "insert_new"

    def __post_init__(self) -> None:
        _set_columns(self, "key", "InsertNew", 'key="event_id"')
        _refuse_unknown(self, "conflicts", Conflicts)
        _refuse_unknown(self, "null_keys", NullKeys)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.key)

    def definition(self) -> dict[str, object]:
        return {
            "pattern": self.name,
            "key": list(self.keys),
            "conflicts": self.conflicts,
            "null_keys": self.null_keys,
        }


WritePattern = Overwrite | Merge | DeleteInsert | InsertNew | Replace
PATTERNS = (Overwrite, Merge, DeleteInsert, InsertNew, Replace)
KEYED = (Merge, InsertNew)


def pattern_of(write: WritePattern) -> str:
    """The pattern as a receipt names it: two writes with one name do the same to one batch."""
    if isinstance(write, (Overwrite, Replace)):
        return write.name
    return f"{write.name}:{digest(canonical(write.definition()))[:16]}"


def _set_columns(write: Any, member: str, pattern: str, example: str) -> None:
    given = getattr(write, member)
    columns = (given,) if isinstance(given, str) else tuple(given or ())
    valid = all(isinstance(name, str) and name and "\x00" not in name for name in columns)
    if not columns or not valid or len(set(columns)) != len(columns):
        raise _invalid(
            f"{pattern}({member}={given!r:.80}) is not a list of different column names",
            f"Write {pattern}({example}). Without it the write would be an append.",
        )
    object.__setattr__(write, member, columns)


def _refuse_unknown(write: Any, member: str, choices: Any) -> None:
    given = getattr(write, member)
    if given not in get_args(choices):
        raise _invalid(
            f"{type(write).__name__}({member}={given!r:.40}) is not known",
            f"Choose one of {', '.join(map(repr, get_args(choices)))}.",
        )


def _invalid(what: str, next: str) -> DefinitionError:
    return DefinitionError("SP-D09", f"{what}.", state=NOTHING_STARTED, next=next)
