"""Where the keys that a merge removed are remembered, and which of those places count."""

from __future__ import annotations

from collections.abc import Iterable

from setpoint.model.receipt import Receipt

# The name starts with '_': the formats' own clean-up leaves such folders alone.
FOLDER = "_setpoint/tombstones"


def folder_of(attempt: str) -> str:
    """Where an attempt keeps the keys that it removes, below the table's root."""
    return f"{FOLDER}/{attempt}"


def named(receipts: Iterable[Receipt], pipeline: str) -> tuple[str, ...]:
    """The places that count: those that any receipt of the pipeline names."""
    ours = (receipt for receipt in receipts if receipt.pipeline == pipeline)
    return tuple(sorted({place for receipt in ours for place in receipt.tombstones}))
