"""What pairs of values look like: moments near a clock, made-up ids, counters, sums of floats.

Values are the texts of a difference's examples, the clean run's first. Few of them are known, so
everything here says "looks like", and says it only when every pair does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal

Pair = tuple[str, str]

_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.I)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_WHOLE = re.compile(r"-?\d+")
_DECIMAL = re.compile(r"-?\d+(\.\d+)?")
_FLOAT = re.compile(r"-?\d+(\.\d+)?(E-?\d+)?", re.I)
# A process may show its own time zone.
_ZONES = timedelta(hours=15)
_SLACK = timedelta(minutes=30)
# monotonically_increasing_id puts the number of the partition above these bits.
_PARTITION_BITS = 33


def moments(pairs: Sequence[Pair]) -> list[tuple[datetime, datetime]]:
    """The pairs as moments in UTC; empty unless all of them are."""
    found = [(_moment(one), _moment(two)) for one, two in pairs]
    return [(one, two) for one, two in found if one and two] if _all(found) else []


def near_the_clocks(pairs: Sequence[Pair], clocks: tuple[datetime, datetime] | None) -> bool:
    """Whether every value lies about where the clock of its run stood."""
    found = moments(pairs)
    if clocks is None or not found:
        return False
    return all(
        abs(value - clock) <= _reach(text)
        for both, texts in zip(found, pairs, strict=True)
        for value, clock, text in zip(both, clocks, texts, strict=True)
    )


def moved_by(pairs: Sequence[Pair], shift: timedelta | None) -> bool:
    """Whether every value moved as far as the clock did."""
    found = moments(pairs)
    if not shift or not found:
        return False
    slack = max(abs(shift) / 10, _SLACK)
    return all(
        abs((two - one) - shift) <= slack + (timedelta(days=1) if _is_date(text) else timedelta(0))
        and two != one
        for (one, two), (text, _) in zip(found, pairs, strict=True)
    )


def moved_by_a_zone(pairs: Sequence[Pair]) -> bool:
    """Whether every value moved by quarters of an hour, as between time zones, or by one day."""
    found = moments(pairs)
    distances = {two - one for one, two in found}
    return bool(found) and all(
        timedelta(0) < abs(d) <= timedelta(hours=26) and not d.total_seconds() % 900
        for d in distances
    )


def are_uuids(pairs: Sequence[Pair]) -> bool:
    return bool(pairs) and all(_UUID.fullmatch(text) for pair in pairs for text in pair)


def are_random(pairs: Sequence[Pair]) -> bool:
    """Fractions between zero and one with many digits."""
    texts = [text for pair in pairs for text in pair]
    return bool(texts) and all(
        re.fullmatch(r"0\.\d{6,}", text) or re.fullmatch(r"\d\.\d+E-\d+", text) for text in texts
    )


def are_counted_on(pairs: Sequence[Pair]) -> bool:
    """Whole numbers that are all greater than before: a counter went on."""
    found = _numbers(pairs)
    return bool(found) and all(two > one for one, two in found)


def added_to(pairs: Sequence[Pair]) -> str:
    """What was likely added to every number once more, in words; empty when nothing points to it.

    Numbers that all moved by one step, or all doubled. Those of a counter that went on do so, too:
    they are whole, all different, and above every one of before.
    """
    texts = [text for pair in pairs for text in pair]
    if not texts or not all(_DECIMAL.fullmatch(text) for text in texts):
        return ""
    found = [(Decimal(one), Decimal(two)) for one, two in pairs]
    before, after = [one for one, _ in found], [two for _, two in found]
    whole = all(_WHOLE.fullmatch(text) for text in texts)
    if whole and len(set(before)) == len(before) and min(after) > max(before):
        return ""
    if len({two - one for one, two in found}) == 1 and before != after:
        return f"by {after[0] - before[0]:+f}".replace("+", "")
    doubled = all(two == 2 * one for one, two in found) and any(before)
    return "to twice what it was" if doubled else ""


def are_multiples(pairs: Sequence[Pair], times: int) -> bool:
    """Numbers that are all so many times what they were; of zeros nothing can be said."""
    if not pairs or not all(_FLOAT.fullmatch(text) for pair in pairs for text in pair):
        return False
    found = [(float(one), float(two)) for one, two in pairs]
    return any(one for one, _ in found) and all(
        abs(two - times * one) <= 1e-9 * abs(two) for one, two in found
    )


def are_places(pairs: Sequence[Pair]) -> bool:
    """Numbers that hold the number of a partition in their upper bits."""
    found = _numbers(pairs)
    return bool(found) and any(max(pair) >= 1 << _PARTITION_BITS for pair in found)


def are_small_numbers(pairs: Sequence[Pair]) -> bool:
    """Whole numbers as ranks and row numbers have them."""
    found = _numbers(pairs)
    return bool(found) and all(0 <= number < 1_000_000 for pair in found for number in pair)


def differ_in_last_digits(pairs: Sequence[Pair]) -> bool:
    """Floats that are the same but for what a sum in another order leaves."""
    if not pairs or not all(_FLOAT.fullmatch(text) for pair in pairs for text in pair):
        return False
    found = [(float(one), float(two)) for one, two in pairs]
    return all(
        one != two and abs(one - two) <= 1e-9 * max(abs(one), abs(two)) for one, two in found
    )


def are_reordered(pairs: Sequence[Pair]) -> bool:
    """Lists, or texts joined by commas, of the same members in another order."""
    return bool(pairs) and all(
        one != two and sorted(_members(one)) == sorted(_members(two)) for one, two in pairs
    )


def _members(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, list):
        return [json.dumps(item, sort_keys=True) for item in found]
    return [part.strip() for part in re.split(r"[,;|]", text)]


def _numbers(pairs: Sequence[Pair]) -> list[tuple[int, int]]:
    if not all(_WHOLE.fullmatch(text) for pair in pairs for text in pair):
        return []
    return [(int(one), int(two)) for one, two in pairs]


def _moment(text: str) -> datetime | None:
    if not _DATE.match(text):
        return None
    try:
        # Python 3.10 reads neither a Z nor fractions that are shorter than six digits.
        found = datetime.fromisoformat(_padded(text))
    except ValueError:
        return None
    return found.replace(tzinfo=timezone.utc) if found.tzinfo is None else found


def _padded(text: str) -> str:
    text = text.replace("Z", "+00:00")
    return re.sub(r"\.(\d{1,9})", lambda part: f".{part[1][:6]:0<6}", text, count=1)


def _is_date(text: str) -> bool:
    return bool(_DATE.fullmatch(text))


def _reach(text: str) -> timedelta:
    return timedelta(days=1) + _ZONES if _is_date(text) else _ZONES


def _all(found: Sequence[tuple[datetime | None, datetime | None]]) -> bool:
    return bool(found) and all(one is not None and two is not None for one, two in found)
