"""Causes that show in the values of a column: clocks, made-up ids, ranks over ties, zones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from setpoint.model.determinism import KINDS
from setpoint.model.proof import ColumnChange
from setpoint.prove import values
from setpoint.prove.evidence import Cause, Evidence, pairs_of

Rule = Callable[[Evidence, ColumnChange], Cause | None]

_LOGICAL = "use window.start, window.end or window.date, the moment the run is for"
_KEYED = "make it of the business key: setpoint.surrogate_key(frame, key)"
_UNIQUE = (
    "end the order with columns that make a row unique, or use setpoint.dedupe(frame, key, "
    "order_by)"
)
_SET = "set it, do not add to it: compute it from the inputs of the window"
_SURROUNDINGS = "make it a parameter of the pipeline, or a constant"


def clock(seen: Evidence, change: ColumnChange) -> Cause | None:
    """Values that stand where the clock stood, or moved as far as it did."""
    pairs = pairs_of(change, seen.difference)
    moved = values.moved_by(pairs, seen.varied.clock)
    near = values.near_the_clocks(pairs, seen.clocks)
    planned = seen.planned(change.name, ["clock"])
    if not (moved or near or planned):
        return None
    if moved:
        how = "moves with the wall clock"
    elif near:
        how = "holds the time of the run"
    else:
        how = f"is the time of the run by the plan ({planned.expression if planned else ''})"
    return _told("clock", seen, change, how, _LOGICAL, ["wall-clock", "relative-now-read"])


def by_the_plan(seen: Evidence, change: ColumnChange) -> Cause | None:
    """What the determinism check found about this very column."""
    planned = seen.planned(change.name)
    if planned is None:
        return None
    why = KINDS[planned.kind][0].split(";")[0]
    changes = _when(seen)
    return _told(
        planned.kind, seen, change, f"{changes}{planned.expression}: {why}", planned.advice, []
    )


def made_up_id(seen: Evidence, change: ColumnChange) -> Cause | None:
    """Text that looks like a UUID on both sides."""
    if not values.are_uuids(pairs_of(change, seen.difference)):
        return None
    how = "looks like a UUID that every run draws anew"
    return _told("random", seen, change, how, _KEYED, ["random-id"])


def drawn(seen: Evidence, change: ColumnChange) -> Cause | None:
    """Random fractions."""
    if not values.are_random(pairs_of(change, seen.difference)):
        return None
    how = "looks like a random number"
    return _told(
        "random", seen, change, how, "derive it from the row: xxhash64(key)", ["random-id"]
    )


def last_digits(seen: Evidence, change: ColumnChange) -> Cause | None:
    """Sums of floats in another order."""
    if not values.differ_in_last_digits(pairs_of(change, seen.difference)):
        return None
    how = (
        f"{_when(seen)}its last digits differ, as those of a sum of floating point numbers in "
        "another order do"
    )
    return _told("float", seen, change, how, "cast to decimal before the sum", [])


def numbered_by_place(seen: Evidence, change: ColumnChange) -> Cause | None:
    """monotonically_increasing_id."""
    if not values.are_places(pairs_of(change, seen.difference)):
        return None
    if not (seen.varied.parallelism or seen.varied.again):
        return None
    how = f"{_when(seen)}it likely numbers rows by the partition they lie in"
    return _told("generated_id", seen, change, how, _KEYED, ["random-id", "unstable-order-key"])


def reordered(seen: Evidence, change: ColumnChange) -> Cause | None:
    """The same members in another order."""
    if not values.are_reordered(pairs_of(change, seen.difference)):
        return None
    if seen.varied.hash_seed and not seen.varied.parallelism:
        how = "changes with the hash seed of Python: it has the same members in another order"
        repair = "sort before you join them: sorted(...) instead of the order of a set"
        return _told("hash_seed", seen, change, how, repair, ["unordered-pick"])
    how = f"{_when(seen)}it has the same members in another order"
    repair = "sort what was collected: sort_array(collect_list(...)), sorted(...) in Python"
    return _told("unordered", seen, change, how, repair, ["unordered-pick"])


def rank_over_ties(seen: Evidence, change: ColumnChange) -> Cause | None:
    """Small whole numbers that change with parallelism."""
    small = values.are_small_numbers(pairs_of(change, seen.difference))
    if not seen.varied.parallelism or not small:
        return None
    how = (
        "changes with parallelism: likely row_number or a rank over ties, or a running total in "
        "the order in which rows come"
    )
    return _told("ties", seen, change, how, _UNIQUE, ["unordered-pick", "unstable-order-key"])


def picked(seen: Evidence, change: ColumnChange) -> Cause | None:
    """Anything else that changes with parallelism."""
    if not seen.varied.parallelism:
        return None
    how = (
        "changes with parallelism: likely nothing says which of several rows is taken (first, "
        "dropDuplicates, a limit, an order with ties)"
    )
    return _told("pick", seen, change, how, _UNIQUE, ["unordered-pick", "unstable-order-key"])


def time_zone(seen: Evidence, change: ColumnChange) -> Cause | None:
    """Values that moved by a time zone."""
    moved = values.moved_by_a_zone(pairs_of(change, seen.difference))
    if not seen.varied.time_zone or not moved:
        return None
    how = f"depends on the time zone of the process (it ran under {seen.varied.time_zone})"
    repair = "name the zone: from_utc_timestamp(column, zone), ZoneInfo in Python, one session zone"
    return _told("time_zone", seen, change, how, repair, [])


def environment(seen: Evidence, change: ColumnChange) -> Cause | None:
    """What else the process had around it."""
    varied = seen.varied
    lint = seen.lines_of("env-drift")
    around = [
        *(["the hash seed of Python"] if varied.hash_seed else []),
        *([f"the environment ({', '.join(varied.environment)})"] if varied.environment else []),
        *([f"the locale ({varied.locale})"] if varied.locale else []),
        *([f"the time zone ({varied.time_zone})"] if varied.time_zone else []),
        *(["the clock"] if varied.clock else []),
    ]
    if not around:
        return None
    if len(around) == 1 and varied.hash_seed:
        how = "changes with the hash seed of Python: likely hash() of a text, or the order of a set"
        repair = "use hashlib or xxhash64 instead of hash(), and sorted(...) instead of a set"
        return _told("hash_seed", seen, change, how, repair, [])
    if around == ["the clock"]:
        how, repair = "changes with the wall clock", f"{_LOGICAL}, or make it a parameter"
        return _told("surroundings", seen, change, how, repair, ["wall-clock"])
    if lint and varied.environment:
        how = f"likely holds an environment variable ({', '.join(varied.environment)})"
        return _told("environment", seen, change, how, _SURROUNDINGS, ["env-drift"])
    how = f"changes with {' or '.join(around)}"
    kind = "environment" if len(around) > 1 or varied.environment else "surroundings"
    kind = "locale" if around == [f"the locale ({varied.locale})"] else kind
    return _told(kind, seen, change, how, _SURROUNDINGS, ["env-drift"])


def added_up(seen: Evidence, change: ColumnChange) -> Cause | None:
    """Twice the number after a second run, three times after a third."""
    times = seen.varied.again + 1
    if times < 2 or not values.are_multiples(pairs_of(change, seen.difference), times):
        return None
    how = f"is {times} times what it was: likely the write adds to the value that is there"
    repair = "compute it from the inputs and set it; never add to what the target holds"
    return _told("added-up", seen, change, how, repair, [])


def added_again(seen: Evidence, change: ColumnChange) -> Cause | None:
    """A number that a run adds to, and a second run adds to again."""
    varied = seen.varied
    moved = values.added_to(pairs_of(change, seen.difference))
    if not moved or not (varied.again or varied.killed or varied.together):
        return None
    how = f"moved {moved}: likely a run adds to what is there, and did so more than once"
    return _told("added-again", seen, change, how, _SET, ["non-atomic-delete-insert"])


def counted_on(seen: Evidence, change: ColumnChange) -> Cause | None:
    """A sequence of the database, or a counter, went on."""
    if not values.are_counted_on(pairs_of(change, seen.difference)):
        return None
    how = (
        "holds greater numbers than before: likely a counter or a sequence that goes on, or a "
        "number that was added to again"
    )
    repair = f"if it is an id, {_KEYED}; if it is an amount, {_SET}"
    return _told("serial", seen, change, how, repair, ["serial-key"])


def earlier_windows(seen: Evidence, change: ColumnChange) -> Cause | None:
    """What depends on the windows that ran before."""
    varied = seen.varied
    if not (varied.order or varied.chunk):
        return None
    if kept := seen.lines_of("do-nothing"):
        how = (
            f"depends on the order in which windows run ({varied.order}): the first row of a key "
            "stays, also when a later one differs"
        )
        repair = "update what differs: ON CONFLICT (key) DO UPDATE ... WHERE the new row is newer"
        return _told("do-nothing", seen, change, how, repair, [item.kind for item in kept])
    what = f"in which windows run ({varied.order})" if varied.order else ""
    how = (
        f"depends on the order {what}: likely it is made from what earlier runs left in the target"
        if varied.order
        else "is not the same when several windows are computed at once: likely the function "
        "looks at the window itself, or at rows of the neighbours"
    )
    repair = "compute a window from its inputs alone; previous(...) names the window before"
    return _told("order" if varied.order else "chunk", seen, change, how, repair, [])


# The most specific first; the first that has something to say about a column speaks.
RULES: tuple[Rule, ...] = (
    clock,
    by_the_plan,
    made_up_id,
    drawn,
    last_digits,
    numbered_by_place,
    reordered,
    rank_over_ties,
    picked,
    time_zone,
    environment,
    added_up,
    added_again,
    counted_on,
    earlier_windows,
)


def _when(seen: Evidence) -> str:
    return "changes with parallelism: " if seen.varied.parallelism else ""


def _told(
    kind: str,
    seen: Evidence,
    change: ColumnChange,
    how: str,
    repair: str,
    lint: Sequence[str],
) -> Cause:
    planned = seen.planned(change.name)
    return Cause(
        kind,
        f"{seen.difference.share(change)} and {how}.",
        f"`{change.name}`: {repair}.",
        (planned,) if planned else (),
        seen.lines_of(*lint) if lint else (),
    )
