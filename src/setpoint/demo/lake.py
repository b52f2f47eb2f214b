"""The source tables of the demo: the same rows every time, written without Spark."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

DAY = date(2026, 4, 25)
OTHER_DAY = date(2026, 4, 24)
ORDERS = 250_000
OTHER_ORDERS = 20_000
APPENDED_BEFORE_THE_CRASH = 180_000
REFUNDS_AT_NOON = 100
REFUNDS = 300

_FIRST_ID = 1_000_001


def make_lake(folder: Path) -> None:
    """Both days of the orders, and the refunds as they stand at noon."""
    other = _rows(_FIRST_ID - OTHER_ORDERS, OTHER_ORDERS, OTHER_DAY)
    _append(folder / "orders", pa.concat_tables([other, _rows(_FIRST_ID, ORDERS, DAY)]))
    _append(folder / "refunds", _rows(_FIRST_ID, REFUNDS_AT_NOON, DAY))


def add_refunds_of_the_afternoon(folder: Path) -> None:
    """The rest of the day's refunds."""
    later = _rows(_FIRST_ID + REFUNDS_AT_NOON, REFUNDS - REFUNDS_AT_NOON, DAY)
    _append(folder / "refunds", later)


def _append(table: Path, rows: pa.Table) -> None:
    write_deltalake(str(table), rows, mode="append", partition_by=["order_date"])


def _rows(first: int, count: int, day: date) -> pa.Table:
    number = pa.array(range(first, first + count), pa.int64())
    # Multiples of a prime, wrapped by subtraction: spread out, and the same on every machine.
    customer = _modulo(pc.multiply(number, 7_919), 9_973)
    cents = pc.add(_modulo(pc.multiply(number, 104_729), 99_900), 1)
    cent = pa.scalar(Decimal("0.01"), pa.decimal128(3, 2))
    amount = pc.multiply(pc.cast(cents, pa.decimal128(19, 0)), cent)
    return pa.table(
        {
            "order_id": number,
            "customer_id": customer,
            "amount": pc.cast(amount, pa.decimal128(10, 2)),
            "order_date": pa.array([day] * count, pa.date32()),
        }
    )


def _modulo(values: pa.Array, by: int) -> pa.Array:
    return pc.subtract(values, pc.multiply(pc.divide(values, by), by))
