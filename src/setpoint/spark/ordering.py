"""Which of two rows under one key is the newer, as SQL text: MERGE takes no columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import types as T

from setpoint.spark.contents import hash_sql, quoted


def wins_sql(
    sequence: Sequence[str],
    schema: T.StructType,
    new: str,
    old: str,
    deleted: str = "",
    absent: Collection[str] = (),
    *,
    corrects: bool,
) -> str:
    """The condition that a new row replaces the stored one under the same key.

    It does if its sequence is greater. If that is equal, the order of the whole row decides;
    but where a window `corrects` what it said when it was published before, any difference will
    do. `deleted` is the condition that the new row removes the key, or
    an empty text; `absent` are columns that stored rows do not have yet.
    """
    decides = "<>" if corrects else ">"
    tie = f"{hash_sql(schema, new)} {decides} {hash_sql(schema, old, absent)}"
    return _greater(sequence, new, old, f"({deleted} OR {tie})" if deleted else tie)


def later_sql(sequence: Sequence[str], new: str, old: str) -> str:
    """The condition that a row has a greater sequence than another."""
    return _greater(sequence, new, old, "false")


def same_key_sql(keys: Sequence[str], new: str, old: str, *, nulls: bool) -> str:
    """The condition that two rows have one key; with `nulls` a null is a value like others."""
    equals = "<=>" if nulls else "="
    return " AND ".join(f"{new}.{quoted(name)} {equals} {old}.{quoted(name)}" for name in keys)


def _greater(sequence: Sequence[str], new: str, old: str, tie: str) -> str:
    condition = tie
    for name in reversed(sequence):
        ours, theirs = f"{new}.{quoted(name)}", f"{old}.{quoted(name)}"
        # A CASE stops at its first answer; AND and OR go on when one side is null, and would
        # compare whole rows for every stored row that has no partner.
        condition = (
            f"CASE WHEN {theirs} IS NULL OR {ours} > {theirs} THEN true "
            f"WHEN {ours} = {theirs} THEN {condition} ELSE false END"
        )
    return condition
