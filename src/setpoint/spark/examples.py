"""A few rows and values of a difference, as people read them.

Which ones are shown depends on the rows alone, not on where they lie: the same difference is told
twice in the same words. Rows are found again by the hash of their key, so that whole rows are
neither joined nor sorted, however many differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from setpoint.model.proof import RowChange, shown, shown_apart
from setpoint.spark.matching import Candidate, Side, key_hash

if TYPE_CHECKING:
    from pyspark.sql import Row

# Beyond so many columns the small diff has no pairs.
_MOST_COLUMNS = 30

Pair = tuple[str, str]


@dataclass(frozen=True)
class Examples:
    """Pairs of values by column, and the first differing rows in the order of their keys."""

    pairs: Mapping[str, tuple[Pair, ...]]
    rows: tuple[RowChange, ...]


def examples_of(
    sides: tuple[Side, Side], names: Sequence[str], chosen: Candidate, most: int
) -> Examples:
    """The examples of rows that were matched."""
    changed = sorted(chosen.changed, key=lambda name: (-chosen.changed[name], names.index(name)))
    drawn = {name: chosen.drawn[name] for name in changed[:_MOST_COLUMNS]}
    first = _first_keys(sides, names, chosen.columns, most)
    wanted = {*first, *(item for hashes in drawn.values() for item in hashes)}
    one, two = _found(sides, names, chosen.columns, wanted)
    pairs = {
        name: tuple(sorted({_both(one[item], two[item], names.index(name)) for item in hashes}))
        for name, hashes in drawn.items()
    }
    places = [names.index(name) for name in chosen.columns]
    rows = (_change(one.get(item), two.get(item), names, places) for item in first)
    return Examples(pairs, tuple(rows))


def loose_rows(
    sides: tuple[Side, Side], names: Sequence[str], moved: Sequence[str], most: int
) -> tuple[RowChange, ...]:
    """Rows of both sides that nothing brings together, those that look alike beside each other."""
    order = [f"v{i}" for i, name in enumerate(names) if name not in moved]
    texts = [f"t{i}" for i in range(len(names))]
    gone, new = (
        side.residue.dropDuplicates(["h", "g"]).orderBy(*order, "h", "g").limit(most)
        for side in sides
    )
    lost = [RowChange({}, _texts(row, names), None) for row in gone.select(*texts).collect()]
    come = [RowChange({}, None, _texts(row, names)) for row in new.select(*texts).collect()]
    kept = lost[: max(most // 2, most - len(come))]
    return (*kept, *come[: most - len(kept)])


def _first_keys(
    sides: tuple[Side, Side], names: Sequence[str], columns: Sequence[str], most: int
) -> list[int]:
    """The hashes of the first keys of rows that differ, in the order of the keys."""
    keys = [f"v{names.index(name)}" for name in columns]
    one, two = (
        side.residue.selectExpr(*keys, f"{key_hash(names, columns)} AS k") for side in sides
    )
    # A row that changed is on both sides.
    rows = one.unionAll(two).orderBy(*keys).limit(2 * most).collect()
    return list(dict.fromkeys(int(row["k"]) for row in rows))[:most]


def _found(
    sides: tuple[Side, Side], names: Sequence[str], columns: Sequence[str], hashes: Iterable[int]
) -> tuple[dict[int, Row], dict[int, Row]]:
    """The rows with these hashes of their key, by side: texts, and a hash of every value."""
    asked = F.expr(key_hash(names, columns)).isin(sorted(hashes))
    wanted = [
        f"{key_hash(names, columns)} AS k",
        *(f"t{i}" for i in range(len(names))),
        *(f"xxhash64(v{i}, v{i} IS NULL) AS c{i}" for i in range(len(names))),
    ]
    one, two = (
        side.frame.where(asked).selectExpr(*wanted).withColumn("side", F.lit(i))
        for i, side in enumerate(sides)
    )
    found: tuple[dict[int, Row], dict[int, Row]] = ({}, {})
    for row in one.unionAll(two).collect():
        found[row["side"]][int(row["k"])] = row
    return found


def _change(
    one: Row | None, two: Row | None, names: Sequence[str], places: Sequence[int]
) -> RowChange:
    """One row of the diff; of a row that changed, what changed."""
    there = one if one is not None else two
    key = {names[i]: shown(there[f"t{i}"]) for i in places} if there is not None else {}
    others = [i for i in range(len(names)) if i not in places]
    if one is None or two is None:
        texts = {names[i]: shown(there[f"t{i}"]) for i in others} if there is not None else {}
        return RowChange(key, texts if two is None else None, None if two is None else texts)
    pairs = {names[i]: _both(one, two, i) for i in others if one[f"c{i}"] != two[f"c{i}"]}
    return RowChange(
        key,
        {name: pair[0] for name, pair in pairs.items()},
        {name: pair[1] for name, pair in pairs.items()},
    )


def _texts(row: Row, names: Sequence[str]) -> Mapping[str, str]:
    return {name: shown(row[f"t{i}"]) for i, name in enumerate(names)}


def _both(one: Row, two: Row, place: int) -> Pair:
    return shown_apart(one[f"t{place}"], two[f"t{place}"])
