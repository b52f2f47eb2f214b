"""The rule of `unchanged`: which commits can have changed a window that is not their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from setpoint import Merge, Overwrite, Replace, Window, delta, pipeline
from setpoint.model.columns import UNKNOWN_COLUMNS, Columns
from setpoint.model.receipt import Receipt
from setpoint.model.slice import SliceRule
from setpoint.targets.claim import Claim, Past, Quiet
from setpoint.targets.delta import transactions

DATE = SliceRule("d", "date")
NUMBERED = Columns({"id": 1, "d": 2})


def claim_of(
    write: Any = None, rule: SliceRule | None = DATE, columns: Columns = NUMBERED
) -> Claim:
    def job(window: Window) -> Any: ...

    made = pipeline(every="day", target=delta("out", partition_by="d"), write=write)(job)
    return Claim.of(made, rule, columns)


def receipt(claim: Claim, **members: Any) -> Receipt:
    """A receipt that a claim states, with some members of its own."""
    plain = Receipt("job", "2026-04-25", "UTC", "day", "key", 1, "a", 1, "c", "f", "")
    return replace(claim.stated(plain, Quiet(since=0)), **members)


def past(*items: Past) -> Iterator[Past]:
    return iter(sorted(items, key=lambda item: item.number, reverse=True))


def ours(number: int, claim: Claim, *, looked_at: int | None = None, **members: Any) -> Past:
    base = number - 1 if looked_at is None else looked_at
    return Past(number, (receipt(claim, **members),), True, base, number - 1)


def foreign(number: int, *, changes_rows: bool = True) -> Past:
    return Past(number, (), changes_rows, number - 1, number - 1)


OWN = claim_of()


@pytest.mark.parametrize(
    "other",
    [
        {"pipeline": "another"},
        {"every": "hour"},
        {"timezone": "Europe/Berlin"},
        {"scope": "replace"},
        {"scope": "overwrite by date e"},
        {"scope": "overwrite by string d"},
        {"columns": Columns({"id": 2, "d": 1}).recorded()},
        {"columns": UNKNOWN_COLUMNS},
        {"scope": "", "pattern": "replace"},
    ],
)
def test_a_publish_by_another_definition_is_a_change(other: dict[str, str]) -> None:
    """Another pipeline, grain, zone, pattern, slice column, type or set of columns."""
    assert not OWN.leaves_others_alone(receipt(OWN, **other))
    quiet = OWN.quiet(past(ours(7, OWN, **other), ours(6, OWN, quiet_since=None)))
    assert quiet.since == 7


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"columns": Columns({"id": 1, "d": 2, "new": 3}).recorded()[:0]},
        {"scope": "", "pattern": "overwrite"},
        {"scope": "", "pattern": "", "columns": ""},
    ],
)
def test_a_publish_by_this_definition_changes_its_own_window_alone(other: dict[str, str]) -> None:
    """Also one of a time when scope and columns were not recorded."""
    assert OWN.leaves_others_alone(receipt(OWN, **other))


def test_windows_that_state_the_same_rows_change_each_other() -> None:
    whole = claim_of(Replace(), None)
    assert whole.made(receipt(whole))
    assert not whole.leaves_others_alone(receipt(whole))
    assert receipt(whole).quiet_since is None


def test_two_merges_of_one_definition_leave_each_other_alone() -> None:
    one = claim_of(Merge(key="id", sequence_by="seq"), None)
    two = claim_of(Merge(key="id", sequence_by="other"), None)
    assert one.leaves_others_alone(receipt(one))
    assert not one.leaves_others_alone(receipt(two))
    assert not claim_of(Overwrite()).leaves_others_alone(receipt(one))


def test_what_a_receipt_remembers_spares_the_walk() -> None:
    """The commits before the newest publish are not looked at, and need not be there."""

    def history() -> Iterator[Past]:
        yield ours(9, OWN, quiet_since=2)
        yield Past(8, (), True, 7, 7)  # would be a change, were it looked at
        raise AssertionError("nobody has to look further")

    quiet = OWN.quiet(history())
    assert quiet.since == 2
    assert quiet.after(2)
    assert not quiet.after(1)


def test_commits_beside_a_publish_are_looked_at() -> None:
    """What was committed between its look and its commit is not what the receipt remembers."""
    slipped = [ours(9, OWN, quiet_since=2, looked_at=6), foreign(8), ours(7, OWN)]
    assert OWN.quiet(past(*slipped)).since == 8
    calm = [ours(9, OWN, quiet_since=2, looked_at=6), foreign(8, changes_rows=False), ours(7, OWN)]
    assert OWN.quiet(past(*calm, foreign(6))).since == 2


def test_a_gap_beside_a_publish_is_not_quiet() -> None:
    """The log has forgotten a commit that slipped in: nobody knows what it did."""
    assert OWN.quiet(past(ours(9, OWN, quiet_since=2, looked_at=6), ours(8, OWN))).since == 7


def test_compaction_changes_no_row() -> None:
    quiet = OWN.quiet(past(foreign(4, changes_rows=False), ours(3, OWN, quiet_since=None)))
    assert quiet.since == 2
    assert quiet.covers(3)


def test_an_own_publish_of_a_whole_state_does_no_harm_to_itself() -> None:
    whole = claim_of(Replace(), None)
    assert whole.quiet(past(ours(4, whole), foreign(3)), own=4).after(3)
    assert not whole.quiet(past(ours(4, whole), foreign(3))).after(3)


def test_numbers_without_order_cover_what_was_looked_at() -> None:
    """Snapshot ids say nothing about which came first."""
    item = Past(77, (receipt(OWN, quiet_since=None),), True, 76, None)
    quiet = OWN.quiet(iter([item]))
    assert quiet.since is None
    assert quiet.covers(77)
    assert not quiet.covers(99)


def test_columns_that_are_added_later_do_not_count() -> None:
    recorded = Columns({"a": 1, "b": 2}).recorded()
    assert Columns({"a": 1, "b": 2, "c": 3}).same_as(recorded)
    assert not Columns({"a": 2, "b": 1}).same_as(recorded)  # swapped
    assert not Columns({"a": 3, "b": 2}).same_as(recorded)  # dropped, and added again
    assert not Columns({"b": 2}).same_as(recorded)
    assert not Columns().same_as(recorded)


def test_columns_that_were_known_by_name() -> None:
    """A table gets numbers for its columns when column mapping is switched on."""
    recorded = Columns().recorded()
    assert Columns({"a": 1, "b": 2}).same_as(recorded)
    assert not Columns({"a": 2, "b": 1}, renamed=True).same_as(recorded)
    assert Columns({"a": 1}).same_as("")


def test_the_shared_number_grows_and_names_the_newest_window() -> None:
    """It counts the publishes of older windows too, and never goes back."""
    first = datetime(2026, 4, 25, tzinfo=timezone.utc)
    later = first + timedelta(days=1)
    one = transactions.shared_number(0, later)
    two = transactions.shared_number(one, first)
    three = transactions.shared_number(two, later + timedelta(minutes=1))
    assert 0 < one < two < three < 2**63
    assert [transactions.count_of(number) for number in (one, two, three)] == [1, 2, 3]
    assert transactions.start_of(two) == later
    assert transactions.start_of(7) is None  # a number of a time when they only counted
    assert transactions.count_of(transactions.shared_number(7, first)) == 8
