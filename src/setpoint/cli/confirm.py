"""Asking before something is removed: on a terminal a question, elsewhere `--yes`."""

from __future__ import annotations

import sys

from setpoint.errors import UNCHANGED, UsageError


def confirm(question: str, *, yes: bool, next: str) -> None:
    """Return if the user agrees; refuse otherwise."""
    if yes:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise UsageError(
        "SP-C07",
        f"{question} This was not confirmed.",
        state=f"Nothing was removed. {UNCHANGED}",
        next=f"Confirm with: {next}",
    )
