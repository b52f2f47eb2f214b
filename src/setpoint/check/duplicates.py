"""Duplicates of a key as findings: a load that ran twice, a changed row, or a key too short."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from setpoint.check.findings import Finding
from setpoint.model.window import Window

if TYPE_CHECKING:
    from setpoint.spark.check import Difference, KeyCount

# Columns that tell when or by whom a row was loaded: a retry changes them and nothing else.
_LOAD_STAMP = re.compile(
    r"load|ingest|insert|import|batch|etl|processed|run_?id|job_?id|attempt|created_?at", re.I
)


def duplicates(
    key: tuple[str, ...],
    counts: Sequence[KeyCount],
    differing: Difference,
    per_window: Mapping[Window, int],
    *,
    time: str | None,
    pipeline: str | None,
) -> Finding:
    """Rows that share a key: how many are surplus, where, and what they look like."""
    rows, keys = sum(count.rows for count in counts), sum(count.keys for count in counts)
    surplus = sum(count.surplus for count in counts)
    spread = sum(count.spread for count in counts)
    affected = sum(count.duplicated for count in counts)
    message = (
        f"{rows:,} rows, {keys:,} distinct keys: {surplus:,} surplus rows, "
        f"{_comparison(differing, surplus, time if spread == affected else None)}"
    )
    if spread:
        message += f"; {spread:,} keys have rows in several windows"
    listed = [window.id for window in sorted(per_window)]
    if pipeline and 0 < len(listed) <= 10:
        step = f"setpoint run {pipeline} --window {','.join(listed)} --force"
    else:
        step = (
            "Rewrite the affected windows from their source with a write that replaces them "
            "(setpoint.publish, or a pipeline with Overwrite())."
        )
        if spread:
            step = f"If the key repeats by design, add the column that is missing in it. {step}"
    return Finding(
        "duplicates",
        f"{message}.",
        next=step,
        figures={
            "key": list(key),
            "rows": rows,
            "distinct_keys": keys,
            "surplus_rows": surplus,
            "keys_affected": affected,
            "identical_surplus_rows": differing.identical_surplus,
            "identical": differing.identical_surplus == surplus,
            "differing_columns": {name: n for name, n in differing.columns},
            "keys_in_several_windows": spread,
            "windows": [
                {"window": window.id, "surplus_rows": per_window[window]}
                for window in sorted(per_window)
            ],
        },
        examples=differing.worst,
    )


def _comparison(differing: Difference, surplus: int, repeats_over: str | None) -> str:
    """Whether this is a load that ran twice or a row that changed."""
    if differing.identical_surplus == surplus:
        return "identical in all columns; looks like a retry that appended"
    names = [name for name, _ in differing.columns]
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    where = f" in {listed}" if listed else ""
    if repeats_over in names:
        return f"different{where}; looks like a key that lacks {repeats_over}"
    if names and all(_LOAD_STAMP.search(name) for name in names):
        return f"different only{where}; looks like a retry that appended"
    if differing.identical_surplus:
        same = differing.identical_surplus
        return f"{same:,} of them identical, {surplus - same:,} of keys whose rows differ{where}"
    return f"different{where}; looks like changed rows that were appended"


def null_key(
    key: tuple[str, ...], null_rows: int, rows: int, examples: tuple[dict[str, Any], ...]
) -> Finding:
    """Rows whose key is not complete."""
    return Finding(
        "null_key",
        f"{null_rows:,} of {rows:,} rows hold a null in the key ({', '.join(key)}); they cannot be "
        "told apart and are not counted as duplicates.",
        next="Fill the key at the source, or choose a key that is always there.",
        figures={"key": list(key), "null_rows": null_rows},
        examples=examples,
    )
