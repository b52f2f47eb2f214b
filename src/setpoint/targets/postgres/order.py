"""The order of the rows under one key, as PostgreSQL evaluates it.

By `sequence_by`, then a removal before a row, then by the text of the whole row. Batch rows are
compared with each other and with stored rows by this one order, always in the types of the
table's columns, so it does not matter how rows are spread over batches.
"""

from __future__ import annotations

from collections.abc import Sequence

from setpoint.targets.postgres.names import quote
from setpoint.targets.postgres.schema import Field, Fit


def row_text(fit: Fit, alias: str) -> str:
    """The whole row as one text; sessions fix the settings that texts depend on."""
    names = sorted(fit.names)
    return f'(ROW({", ".join(f"{alias}.{quote(n)}::text" for n in names)})::text COLLATE "C")'


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


def same_key(keys: Sequence[str], one: str, other: str, *, nulls: bool) -> str:
    """The condition that two rows have one key; with `nulls` a null is a value like others."""
    if nulls:
        # Arrays take nulls as equal, and can be joined by hash; IS NOT DISTINCT FROM cannot.
        return f"{key_text(keys, one)} = {key_text(keys, other)}"
    return " AND ".join(f"{one}.{quote(name)} = {other}.{quote(name)}" for name in keys)


def key_text(keys: Sequence[str], alias: str) -> str:
    """The key as an array of texts."""
    return f"ARRAY[{', '.join(f'{alias}.{quote(name)}::text' for name in keys)}]"
