"""The table of hashes that tells new items from known ones."""

from __future__ import annotations

from setpoint.sources.http.seen import Seen


def test_items_are_known_again_however_many_there_are() -> None:
    """Also after the table has grown several times, and for a hash of zero."""
    seen = Seen()
    numbers = [number * 0x9E3779B97F4A7C15 for number in range(5000)]
    assert {seen.add(number, number + 1) for number in numbers} == {"new"}
    assert {seen.add(number, number + 1) for number in numbers} == {"same"}
    assert {seen.add(number, number + 2) for number in numbers} == {"other"}
    assert seen.count == 5000


def test_hashes_that_meet_in_one_place_stay_apart() -> None:
    """Neighbours in the table are not mixed up."""
    seen = Seen()
    for number in range(300):
        assert seen.add(1024 * number + 7, 5) == "new"
    assert seen.count == 300
