"""The daily customer summary, tested on rows that are made by hand."""

from datetime import date
from decimal import Decimal

from pipelines.daily_customer_summary import daily_customer_summary

DAY = "2026-04-25"
ORDERS = [
    (1, 7, "1.50", "2026-04-24T22:00:00Z"),  # midnight in Berlin
    (2, 7, "2.00", "2026-04-25T12:00:00Z"),
    (3, 8, "4.00", "2026-04-25T21:59:59Z"),
    (4, 8, "9.00", "2026-04-25T22:00:00Z"),  # the next day
]
ORDER = "order_id long, customer_id long, amount decimal(12,2), ordered_at timestamp"
CUSTOMERS = [(7, "north"), (9, "south")], "customer_id long, region string"
INPUTS = {"orders": (ORDERS, ORDER), "customers": CUSTOMERS}


def test_a_day_is_a_day_in_berlin(setpoint_sandbox):
    """Orders of the neighbours are not seen; a customer that is not known has no region."""
    rows = setpoint_sandbox.run(daily_customer_summary, DAY, inputs=INPUTS)

    assert rows == [
        (date(2026, 4, 25), 7, "north", 2, Decimal("3.50")),
        (date(2026, 4, 25), 8, None, 1, Decimal("4.00")),
    ]


def test_a_late_order_restates_its_day(setpoint_sandbox):
    """The table holds the day as it is now, once."""
    setpoint_sandbox.run(daily_customer_summary, DAY, inputs=INPUTS)
    late = [*ORDERS, (5, 8, "0.50", "2026-04-25T09:00:00Z")]

    rows = setpoint_sandbox.run(
        daily_customer_summary, DAY, inputs={**INPUTS, "orders": (late, ORDER)}
    )

    assert [row[-1] for row in rows] == [Decimal("3.50"), Decimal("4.50")]


def test_it_is_idempotent(setpoint_sandbox):
    """Whatever production does to the window, it ends in the state of one clean run."""
    setpoint_sandbox.prove(daily_customer_summary, DAY, inputs=INPUTS)
