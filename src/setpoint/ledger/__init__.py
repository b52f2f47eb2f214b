"""The ledger: attempts, their steps and audits, and a cache of receipts, for people and pages.

The target's own receipts are the truth. When the ledger disagrees with a target the target
wins, and when the ledger is deleted nothing but history is lost. Importing this package is
cheap; the database library is loaded by `Ledger.open`.
"""

from setpoint.ledger.failure import LedgerError
from setpoint.ledger.ledger import Ledger
from setpoint.ledger.records import (
    AttemptRecord,
    AttemptState,
    AuditRecord,
    BackfillRecord,
    BackfillState,
    Ending,
    ReceiptRecord,
    StepRecord,
)

__all__ = [
    "AttemptRecord",
    "AttemptState",
    "AuditRecord",
    "BackfillRecord",
    "BackfillState",
    "Ending",
    "Ledger",
    "LedgerError",
    "ReceiptRecord",
    "StepRecord",
]
