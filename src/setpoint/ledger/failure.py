"""The one error of the ledger, and the advice that fits each way a database can fail."""

from __future__ import annotations

import shlex

from setpoint.errors import UNCHANGED, PermanentError

HISTORY_ONLY = "The ledger is history only and may be moved away."
BEFORE_PUBLISH = f"{UNCHANGED} {HISTORY_ONLY}"
AS_THE_RUN_LEFT_IT = f"The target is as the run left it. {HISTORY_ONLY}"


class LedgerError(PermanentError):
    """The ledger could not be used (SP-L01); it says nothing about the target.

    Before a publish it ends the run like any other error. After a publish the caller catches
    it and prints it as a warning: the receipt is in the target, so the success stands.
    """

    def __init__(self, what: str, *, why: str, state: str, next: str) -> None:
        super().__init__("SP-L01", what, why=why, state=state, next=next)


def newer_schema(where: str, found: int, known: int) -> LedgerError:
    """The error for a ledger that a later setpoint has upgraded."""
    return LedgerError(
        f"The ledger {where} has schema version {found}; this setpoint knows up to {known}.",
        why="A newer setpoint has written it, and an older one could damage its history.",
        state=BEFORE_PUBLISH,
        next="Upgrade: pip install --upgrade setpoint",
    )


def foreign_database(where: str) -> LedgerError:
    """The error for a database file that holds somebody else's tables."""
    return LedgerError(
        f"{where} is a database, but not a ledger.",
        why="setpoint does not put its tables among those of another program.",
        state=BEFORE_PUBLISH,
        next="Name another file in the ledger section of the configuration.",
    )


def unusable(where: str, reason: str, state: str, file: str | None) -> LedgerError:
    """The error for a failure that the database reported as `reason`."""
    lines = reason.strip().splitlines()
    return LedgerError(
        f"The ledger {where} could not be used.",
        why=f"Reason: {lines[0].strip().rstrip('.') if lines else 'nothing'}.",
        state=state,
        next=_advice(reason.lower(), file),
    )


def _advice(reason: str, file: str | None) -> str:
    if file is None:
        return "Check that the database answers and the user may create and write its tables."
    if "locked" in reason:
        return "Another process holds the ledger; run again when it has finished."
    if "full" in reason or "no space" in reason:
        return f"Free some space on the disk that holds {file}, then run again."
    if any(sign in reason for sign in ("not a database", "malformed", "corrupt")):
        return f"Move it away: mv {shlex.quote(file)} {shlex.quote(file + '.broken')}"
    return f"Check that {file} and its folder can be written, or name another ledger file."
