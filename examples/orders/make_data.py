"""Writes lake/orders and lake/customers: python make_data.py [--late]

With --late, ten orders of 25 April arrive that the first ones did not hold.
"""

import sys
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
from deltalake import write_deltalake

FIRST, DAYS, PER_DAY, CUSTOMERS = datetime(2026, 4, 20, tzinfo=timezone.utc), 7, 500, 60


def orders(numbers: range, moments: list[datetime]) -> pa.Table:
    return pa.table(
        {
            "order_id": pa.array(numbers, pa.int64()),
            "customer_id": pa.array([number * 7 % CUSTOMERS for number in numbers], pa.int64()),
            "amount": pa.array(
                [Decimal(number % 9_000) / 100 for number in numbers], pa.decimal128(12, 2)
            ),
            "ordered_at": pa.array(moments, pa.timestamp("us", "UTC")),
        }
    )


if "--late" in sys.argv:
    numbers = range(900_000, 900_010)
    write_deltalake(
        "lake/orders", orders(numbers, [FIRST + timedelta(days=5, hours=9)] * 10), mode="append"
    )
    print("lake/orders received 10 late orders of 2026-04-25")
else:
    for day in range(DAYS):
        numbers = range(day * PER_DAY, (day + 1) * PER_DAY)
        moments = [FIRST + timedelta(days=day, seconds=n * 170) for n in range(PER_DAY)]
        mode = "append" if day else "overwrite"
        write_deltalake("lake/orders", orders(numbers, moments), mode=mode)
    ids = range(CUSTOMERS)
    customers = pa.table(
        {
            "customer_id": pa.array(ids, pa.int64()),
            "region": [("north", "south", "east")[number % 3] for number in ids],
        }
    )
    write_deltalake("lake/customers", customers, mode="overwrite")
    print(f"lake/orders holds {DAYS * PER_DAY:,} orders of {DAYS} days")
