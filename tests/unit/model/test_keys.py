"""Surrogate keys and row hashes in plain Python: the encoding, byte by byte."""

# ruff: noqa: DTZ001 - a time without a zone is what is meant
from __future__ import annotations

import datetime as dt
import re
from collections import OrderedDict
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpoint.errors import UsageError
from setpoint.model.keys import Months, encoded, row_hash_of, surrogate_key_of

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "keys.md"
_VALUE = re.compile(r"^\| `([^`]+)` \| `[^`]+` \| `([^`]+)` \| `([0-9a-f]{32})` \|$", re.MULTILINE)
_CALL = re.compile(r"^\| `(\w+_of\([^`]+\))` \| `([0-9a-f]{32})` \|$", re.MULTILINE)
# What the examples of the page may name; Row needs no Spark to be made.
NAMES = {
    "dt": dt,
    "Decimal": Decimal,
    "Months": Months,
    "Row": lambda **members: NamedTuple("Row", [(n, Any) for n in members])(**members),
    "surrogate_key_of": surrogate_key_of,
    "row_hash_of": row_hash_of,
}


def test_the_page_has_vectors() -> None:
    """The tests below read something."""
    text = PAGE.read_text(encoding="utf-8")
    assert len(_VALUE.findall(text)) > 25
    assert len(_CALL.findall(text)) > 5


@pytest.mark.parametrize(("value", "text", "key"), _VALUE.findall(PAGE.read_text("utf-8")))
def test_every_vector_of_the_page_holds(value: str, text: str, key: str) -> None:
    """The text and the key that the reference shows are those that the code gives."""
    given_value = eval(value, dict(NAMES))
    assert encoded(given_value).decode() == text
    assert surrogate_key_of(given_value) == key


@pytest.mark.parametrize(("call", "key"), _CALL.findall(PAGE.read_text("utf-8")))
def test_every_call_of_the_page_holds(call: str, key: str) -> None:
    """Calls with several values give what the reference shows."""
    assert eval(call, dict(NAMES)) == key


class Colour(IntEnum):
    RED = 1


class Pair(NamedTuple):
    b: int
    a: str


@dataclass(frozen=True)
class Same:
    a: str
    b: int


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, Decimal("1.000")),
        (100, Decimal("1E+2")),
        (0, Decimal("-0.00")),
        (1, Colour.RED),
        (0.0, -0.0),
        (float("nan"), -float("nan")),
        (b"a", bytearray(b"a")),
        ([1, 2], (1, 2)),
        ({1: "a", 2: "b"}, OrderedDict([(2, "b"), (1, "a")])),
        (Pair(1, "x"), Same("x", 1)),
        (
            dt.datetime(2026, 4, 25, 12, tzinfo=dt.timezone.utc),
            dt.datetime(2026, 4, 25, 14, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        ),
    ],
)
def test_equal_values_have_one_key(left: Any, right: Any) -> None:
    """The value counts, not the way it was written."""
    assert surrogate_key_of(left) == surrogate_key_of(right)


# fmt: off
ALIKE = [
    None, "", "null", "~", "None", 0, 1, "1", 1.0, True, False, b"1", b"", "b1", "n1;",
    Decimal("1.5"), 1.5, "1.5", dt.date(1970, 1, 2), dt.timedelta(microseconds=1), Months(1),
    dt.datetime(1970, 1, 1, 0, 0, 0, 1), dt.datetime(1970, 1, 1, 0, 0, 0, 1, dt.timezone.utc),
    dt.time(0, 0, 0, 1), [], [None], [[]], [1], [[1]], {}, {1: None}, {None: 1}, Pair(1, ""),
    "é", "e\u0301", "É", " 1", "1 ", "\x00", "\ufeff", "😀",
]
# fmt: on


def test_values_that_look_alike_differ() -> None:
    """Null, empty, numbers, their texts, and every family among each other."""
    assert len({surrogate_key_of(value) for value in ALIKE}) == len(ALIKE)


def test_parts_cannot_run_into_each_other() -> None:
    """Where one part ends and the next begins is part of the key."""
    calls: list[tuple[Any, ...]] = [
        ("a:b", "c"), ("a", "b:c"), ("a", "b", "c"), ("abc",), ("a", "", "bc"), (["a", "b"], "c"),
        ("a", ["b", "c"]), (1, 23), (12, 3), (123,), (None, 1), (1, None), (1,), (1, None, None),
    ]  # fmt: skip
    assert len({surrogate_key_of(*call) for call in calls}) == len(calls)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary() | st.dates() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.integers() | st.text(alphabet="ab~;:1"), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(VALUES, VALUES)
def test_no_text_is_the_beginning_of_another(left: Any, right: Any) -> None:
    """That is why texts can be put together without a separator."""
    one, other = encoded(left), encoded(right)
    assert one == other or not other.startswith(one)


@given(st.floats(), st.floats())
def test_floats_share_a_text_only_when_they_are_equal(left: float, right: float) -> None:
    """The hash of the bits keeps them apart; NaN is one value."""
    same = left == right or (left != left and right != right)
    assert (encoded(left) == encoded(right)) is same


def test_a_row_hash_follows_names_and_values() -> None:
    """Order does not count; a name, a value, and a null that was a value do."""
    whole = row_hash_of({"id": 1, "status": "new", "loaded_at": dt.date(2026, 4, 25)})
    kept = row_hash_of({"status": "new", "id": 1})
    assert (
        row_hash_of(
            {"loaded_at": dt.date(2026, 4, 26), "id": 1, "status": "new"}, exclude=["loaded_at"]
        )
        == kept
    )
    others = [{"id": 1, "state": "new"}, {"id": 1, "status": None}, {"id": 1}, {"id": "new"}]
    assert len({whole, kept, *(row_hash_of(row) for row in others)}) == 6
    assert row_hash_of(Pair(1, "x")) == row_hash_of({"a": "x", "b": 1})


def test_a_pandas_null_is_refused() -> None:
    """NaT calls itself a datetime and is none."""
    pandas = pytest.importorskip("pandas")
    with pytest.raises(UsageError):
        surrogate_key_of(pandas.NaT)
    noon = dt.datetime(2026, 4, 25, 12, tzinfo=dt.timezone.utc)
    assert surrogate_key_of(pandas.Timestamp(noon)) == surrogate_key_of(noon)


def test_a_key_and_a_row_hash_never_meet() -> None:
    """The same struct as a key and as a row gives two values."""
    assert surrogate_key_of(Pair(1, "x")) != row_hash_of(Pair(1, "x"))


@pytest.mark.parametrize(
    "call",
    [
        lambda: surrogate_key_of(),
        lambda: surrogate_key_of(object()),
        lambda: surrogate_key_of({1, 2}),
        lambda: surrogate_key_of([1, 2j]),
        lambda: surrogate_key_of(Decimal("NaN")),
        lambda: surrogate_key_of("\ud800"),
        lambda: surrogate_key_of(dt.time(1, tzinfo=dt.timezone.utc)),
        lambda: row_hash_of({}),
        lambda: row_hash_of({"a": 1}, exclude=["a"]),
        lambda: row_hash_of({"a": 1}, exclude=["b"]),
    ],
)
def test_what_has_no_encoding_is_refused(call: Any) -> None:
    """Nothing is turned into a text by guessing."""
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.code == "SP-K01"
    assert caught.value.next
