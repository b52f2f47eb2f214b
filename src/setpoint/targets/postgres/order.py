"""The order of the rows under one key, as PostgreSQL evaluates it.

By `sequence_by`, then a removal before a row, then by the text of the whole row. Batch rows are
compared with each other and with stored rows by this one order, always in the types of the
table's columns, so it does not matter how rows are spread over batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from setpoint.errors import UNCHANGED, RefusedError
from setpoint.model.write import KEYED, Merge, WritePattern
from setpoint.targets.postgres.names import quote
from setpoint.targets.postgres.schema import Field, Fit


def row_text(fit: Fit, alias: str) -> str:
    """The whole row as one text; sessions fix the settings that texts depend on."""
    return _text(fit.field(name).text(alias) for name in sorted(fit.names))


def event_text(fit: Fit, keys: Sequence[str], alias: str) -> str:
    """What an event says besides its key, as one text.

    Equal values contradict nothing, in whatever spelling: 0 and -0, 1.5 and 1.50.
    """
    fields = [fit.field(name) for name in sorted(fit.names) if name not in keys]
    return _text(item.normal(alias) if item.mapped.normal else item.text(alias) for item in fields)


def _text(parts: Iterable[str]) -> str:
    return f'(ROW({", ".join(parts)})::text COLLATE "C")'


def sequence(item: Field, alias: str) -> str:
    """A part of the sequence; texts compare by their bytes, as in Spark."""
    return in_bytes(f"{alias}.{item.quoted}", item)


def in_bytes(value: str, item: Field) -> str:
    return f'({value})::text COLLATE "C"' if item.is_text else value


def later(ours: Sequence[str], theirs: Sequence[str], otherwise: str) -> str:
    """The condition that one sequence is greater; `otherwise` decides between equal ones."""
    condition = otherwise
    for one, other in zip(reversed(ours), reversed(theirs), strict=True):
        condition = f"({other} IS NULL OR {one} > {other} OR ({one} = {other} AND {condition}))"
    return condition


def wins(
    fit: Fit, parts: Sequence[str], new: str, old: str, deleted: str = "", *, corrects: bool
) -> str:
    """The condition that a batch row replaces the stored one under the same key.

    Among equal sequences the greater row counts; where a window `corrects` what it said
    before, any difference will do.
    """
    tie = f"{row_text(fit, new)} {'<>' if corrects else '>'} {row_text(fit, old)}"
    fields = [fit.field(name) for name in parts]
    return later(
        [sequence(item, new) for item in fields],
        [sequence(item, old) for item in fields],
        f"({deleted} OR {tie})" if deleted else tie,
    )


def same_key(fit: Fit, keys: Sequence[str], one: str, other: str, *, nulls: bool) -> str:
    """The condition that two rows have one key; with `nulls` a null is a value like others."""
    if nulls:
        # Arrays take nulls as equal, and can be joined by hash; IS NOT DISTINCT FROM cannot.
        return f"{key_text(fit, keys, one)} = {key_text(fit, keys, other)}"
    return " AND ".join(f"{one}.{quote(name)} = {other}.{quote(name)}" for name in keys)


def key_text(fit: Fit, keys: Sequence[str], alias: str) -> str:
    """The key as an array of texts that equal keys share."""
    return f"ARRAY[{', '.join(fit.field(name).normal(alias) for name in keys)}]"


def refuse_keys_without_text(fit: Fit, write: WritePattern, label: str) -> None:
    """Removed keys and keys with nulls are compared as texts: not every type has one for each."""
    if not isinstance(write, KEYED):
        return
    removes = isinstance(write, Merge) and write.delete_when is not None
    asked = "delete_when" if removes else 'null_keys="allow"' if write.null_keys == "allow" else ""
    unfit = [name for name in write.keys if not fit.field(name).mapped.normal]
    if asked and unfit:
        fields = [fit.field(name) for name in unfit]
        kinds = ", ".join(
            f"{item.name} ({' '.join(filter(None, (item.mapped.cast, item.collation)))})"
            for item in fields
        )
        raise RefusedError(
            "SP-D10",
            f"{label}: {asked} cannot be kept with the key column {kinds}.",
            why="Values of this type can be equal and have different texts, and keys are "
            "remembered as texts: a removed key would come back in another spelling.",
            state=UNCHANGED,
            next="Use a key column of a type like text, uuid, numeric or timestamp, or merge "
            f"without {asked.partition('=')[0]}.",
        )
