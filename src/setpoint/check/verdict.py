"""Key advice in words: what was found, what it means, and which write pattern fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from setpoint.check.candidates import ALMOST, LOAD_STAMP, SURELY, is_good

if TYPE_CHECKING:
    from setpoint.check.keys import Advice, Judged, Stability
    from setpoint.spark.profile import ColumnProfile, Return


def verdict(advice: Advice) -> list[str]:
    """The sentences that answer the question, the most important first."""
    judged = advice.judged
    if judged is None:
        return [_no_key(advice), "The rows need a key that is not in the table: see its source."]
    said = [_judgement(advice, judged)]
    if judged.given or not judged.is_key:
        said += _compared(advice, judged)
    if advice.stability is not None:
        said += _returns(advice, judged, advice.stability)
    elif judged.is_key:
        said.append("Whether its ids come back on other days is not known: give --time COLUMN.")
    return said


def warnings(advice: Advice) -> list[str]:
    """What is questionable about the parts of the key, whatever the figures are."""
    judged = advice.judged
    if judged is None:
        return []
    parts = [advice.profiles[name] for name in judged.columns]
    said = [sentence for part in parts if (sentence := _doubt(part))]
    if all(part.moment for part in parts):
        said.append(
            f"{_list(judged.columns)} is nothing but a time: two events with one timestamp would "
            "be one. Add the column that tells them apart."
        )
    return said


def _judgement(advice: Advice, judged: Judged) -> str:
    name = _list(judged.columns)
    if judged.is_key:
        if is_good(judged.columns, advice.profiles):
            return f"{name} is a key: unique in {_rows(judged.rows)}, no nulls."
        return (
            f"{name} is unique in {_rows(judged.rows)}, but does not say what a row is about: "
            f"{_without(advice)}."
        )
    said = []
    if judged.surplus:
        said.append(
            f"{_rows(judged.rows)}, {judged.distinct:,} distinct values, "
            f"{judged.surplus:,} surplus ({_comparison(judged)})"
        )
    if judged.null_rows:
        counts = [f"{number:,} in {part}" for part, number in judged.nulls.items()]
        said.append(f"{_rows(judged.null_rows)} with a null in it ({', '.join(counts)})")
    return f"{name} is not a key: {'; '.join(said)}."


def _compared(advice: Advice, judged: Judged) -> list[str]:
    """What the search found beside the key that was looked at."""
    others = [c for c in advice.found.keys if set(c.columns) != set(judged.columns)]
    if judged.is_key:
        enough = [c for c in others if set(c.columns) < set(judged.columns)]
        return [f"{_list(enough[0].columns)} alone is enough."] if enough else []
    good = [c for c in others if is_good(c.columns, advice.profiles)]
    longer = bool(good) and set(judged.columns) < set(good[0].columns)
    if longer and judged.distinct >= judged.rows * ALMOST:
        return [
            f"{_list(good[0].columns)} is unique, but that may be chance: so few rows share "
            f"{_list(judged.columns)} that almost any column tells them apart."
        ]
    if good:
        name = _list(good[0].columns)
        return [f"{name} is a key: unique in {_rows(advice.rows)}, no nulls."]
    return [_no_key(advice)]


def _no_key(advice: Advice) -> str:
    if advice.different < advice.rows * SURELY:
        repeated = advice.rows - advice.different
        return (
            f"No set of columns tells all rows apart: about {repeated:,} of {_rows(advice.rows)} "
            "repeat others in all columns that say what a row is about. Remove them first."
        )
    tried = "" if advice.found.tried_all else " among the combinations that were tried"
    said = f"No set of up to 4 columns without nulls is a key{tried}."
    made_up = [c for c in advice.found.keys if not is_good(c.columns, advice.profiles)]
    if made_up and advice.judged and made_up[0].columns != advice.judged.columns:
        said += f" Only {_list(made_up[0].columns)} is unique, which says nothing about the row."
    return said


def _without(advice: Advice) -> str:
    repeated = advice.rows - advice.different
    if advice.different < advice.rows * SURELY:
        return f"without it, about {repeated:,} rows repeat others"
    return "without it, no set of up to 4 columns is unique"


def _returns(advice: Advice, judged: Judged, stability: Stability) -> list[str]:
    name, window = _list(stability.columns), _window(stability)
    seen = stability.seen
    if seen is None:
        return [f"None of its values comes back in another {window}."]
    if not seen.keys:
        if not judged.surplus:
            return [f"{name} alone never comes back in another {window}."]
        return [f"The rows that share a key lie in the same {window}."]
    if seen.several_per_window:
        return [
            f"{name} has several rows within one {window} ({seen.several_per_window:,} of the "
            f"{seen.keys:,} values that come back): it says who, not which row."
        ]
    said = [_coming_back(name, window, seen)]
    if seen.recycled:
        listed = _some([n for n, number in seen.changed if number <= seen.keys * 0.2])
        said.append(
            f"Recycled, by the look of it: {_count(seen.recycled, 'value')}, standing for "
            f"something else after a pause ({listed}). Add a column that tells the "
            "lives of an id apart."
        )
    said.append(_pattern(advice, stability, changes=bool(seen.changed_keys)))
    return said


def _coming_back(name: str, window: str, seen: Return) -> str:
    said = f"{name} is unique within each {window} and comes back in others: "
    said += f"{_count(seen.keys, 'value')}, "
    if not seen.changed_keys:
        return said + "always with the same attributes."
    listed = _some([column for column, _ in seen.changed])
    said += f"{seen.changed_keys:,} of them with another {listed}"
    if seen.after_a_gap:
        said += f"; {seen.after_a_gap:,} after a pause of a {window} or more"
    if seen.constant:
        said += f". Never changing: {_some(list(seen.constant))}"
    return said + "."


def _pattern(advice: Advice, stability: Stability, *, changes: bool) -> str:
    key = _quoted(stability.columns)
    name, window = _list(stability.columns), _window(stability)
    both = ", ".join(f'"{part}"' for part in (*stability.columns, stability.time))
    merge = f'Merge(key={key}, sequence_by="{advice.sequence}")'
    if not changes:
        merge = f"InsertNew(key={key})"
    return (
        f"For one row per {name}: {merge}. For one row per {name} and {window}: Overwrite() with "
        f"the audit unique({both})."
    )


def _doubt(part: ColumnProfile) -> str | None:
    if part.floating:
        return (
            f"{part.name} is floating point ({part.kind}): a sum in another order gives another "
            "key. Use decimal."
        )
    if part.generated:
        return (
            f"{part.name} looks generated (UUIDs). If the source gives it, it is a good key; if "
            "the pipeline makes it, every run makes others and no duplicate is ever found."
        )
    if LOAD_STAMP.search(part.name):
        return f"{part.name} says when or how a row was loaded: a retry gives it another value."
    return None


def _comparison(judged: Judged) -> str:
    if judged.identical_surplus == judged.surplus:
        return "identical in all columns: looks like a retry that appended"
    names = [name for name, _ in judged.differing]
    if names and all(LOAD_STAMP.search(name) for name in names):
        return f"different only in {_some(names)}: looks like a retry that appended"
    return f"different in {_some(names)}" if names else "different"


def _window(stability: Stability) -> str:
    return str(stability.every)


def _quoted(columns: Sequence[str]) -> str:
    if len(columns) == 1:
        return f'"{columns[0]}"'
    return "[" + ", ".join(f'"{name}"' for name in columns) + "]"


def _list(columns: Sequence[str]) -> str:
    return " + ".join(columns)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _rows(number: int) -> str:
    return _count(number, "row")


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
