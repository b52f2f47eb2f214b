"""A difference in one sentence, the same wherever people are told about it."""

from __future__ import annotations

import pytest

from setpoint.model.proof import ColumnChange, Difference

GROWN = Difference(rows_expected=250, rows_found=1430, missing=0, added=1180)
NOTED = ColumnChange("note", "string", rows=5)


@pytest.mark.parametrize(
    ("difference", "told"),
    [
        (GROWN, "1,430 rows instead of 250 (+1,180)"),
        (Difference(3, 1, 2, 0), "1 rows instead of 3 (-2)"),
        (Difference(6, 6, 5, 5, matched=6, columns=(NOTED,)), "`note` differs in 5 of 6 rows"),
        (Difference(6, 6, 5, 5, columns=(ColumnChange("note", "string"),)), "`note` differs"),
        (
            Difference(6, 7, 5, 6, matched=6, columns=(NOTED,), schema=("x (int) was added",)),
            "7 rows instead of 6 (+1), `note` differs in 5 of 6 rows, "
            "other columns: x (int) was added",
        ),
        (Difference(6, 6, 0, 0, schema=("a", "b")), "other columns: a; b"),
        (Difference(6, 6, 2, 2), "2 rows are missing and 2 are new"),
        (
            Difference(6, 6, 2, 2, repeated=1),
            "2 rows are missing and 2 are new, 1 of them repeated",
        ),
    ],
)
def test_a_difference_is_told_in_one_sentence(difference: Difference, told: str) -> None:
    """Rows, then columns, then the schema; the number of other rows when nothing else is known."""
    assert difference.summary == told


def test_of_many_columns_the_first_are_told() -> None:
    columns = tuple(ColumnChange(name, "int") for name in "abcd")
    assert Difference(1, 1, 1, 1, columns=columns).summary == (
        "`a` differs, `b` differs, `c` differs"
    )
