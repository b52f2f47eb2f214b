"""The clip of rows to a window, and the rows that it leaves out, by one and the same condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from setpoint.errors import RefusedError, counted, shortened
from setpoint.model.ports import Remarks
from setpoint.model.slice import SliceRule
from setpoint.model.source import Outside
from setpoint.model.span import Stretch, windows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_VALUE = 80


@dataclass(frozen=True)
class Clipped:
    """What the clip makes of some rows: how many there are, without a time, and outside.

    `examples` are times that lie outside, the earliest and the latest. Where folders tell the
    time, files are counted instead of rows.
    """

    rows: int
    untimed: int
    outside: int
    examples: tuple[str, ...] = ()
    word: str = "row"

    def remarks(
        self, name: str, time: str, stretch: Stretch, outside: Outside, why: str
    ) -> Remarks:
        """What a person should know about the rows of an input that are left out.

        `stretch` is the window, or those that share what was read. `outside` is the input's
        policy, and `why` says what becomes of such rows.
        """
        shown = f" ({', '.join(self.examples)})" if self.examples else ""
        parts = [f"{self.outside:,} outside of {stretch.id} by {time}{shown}"] * bool(self.outside)
        parts += [f"{self.untimed:,} without {time}"] * bool(self.untimed)
        if not parts:
            return Remarks()
        left_out = f"of {counted(self.rows, self.word)} {' and '.join(parts)}"
        if outside == "note":
            return Remarks((f"{name}: {left_out}, left out",))
        refusal = RefusedError(
            "SP-R08",
            f"The input {name} holds rows that are not in {stretch.id}: {left_out}.",
            why=why,
            next="Correct the rows or time=. If all of them are meant for this window, leave time= "
            'out. To publish without them: outside="note".',
        )
        return Remarks(refusal=refusal)


def clip_counts(
    frame: DataFrame, rule: SliceRule, stretch: Stretch, name: str, label: str, advice: str
) -> Clipped:
    """Count what the clip to a window, or to those that share the rows, leaves out, in one job.

    A column of texts or numbers is compared with the window's id. If it holds anything but ids,
    a time for example, its rows would be in no window at all: that is refused.
    """
    from setpoint.spark.contents import quoted

    text = f"CAST({quoted(rule.column)} AS STRING)"
    odd = "false"
    if rule.by_name:
        odd = f"NOT ({text} RLIKE '{rule.shape(stretch)}')"
    found = frame.selectExpr(
        *_counts(rule, stretch, text),
        f"count_if({odd}) AS odd",
        f"min(IF({odd}, {text}, NULL)) AS example",
    ).first()
    assert found is not None
    if found["odd"]:
        raise RefusedError(
            "SP-R02",
            f"The source {name} ({label}) cannot be clipped to a window: {found['odd']:,} of "
            f"{found['every']:,} values of {rule.column} ({rule.kind}) do not look like "
            f"{rule.only_value(windows_of(stretch)[0])}, for example "
            f"{shortened(found['example'], _VALUE)!r}.",
            why="A text or a number is compared with the window's id: these rows would be in no "
            "window.",
            next=advice,
        )
    return _clipped(found)


def clip_counts_of_files(
    parts: Sequence[tuple[Stretch, DataFrame]], rule: SliceRule
) -> dict[Stretch, Clipped]:
    """Count what lies outside of each stretch in the rows of its files, in one job."""
    from setpoint.spark.contents import quoted

    column = quoted(rule.column)
    place = f"CONCAT(CAST({column} AS STRING), ' in ', _metadata.file_name)"
    each = [
        frame.selectExpr(f"{number} AS part", column, f"{place} AS place")
        .groupBy("part")
        .agg(*_columns(_counts(rule, stretch, "place")))
        for number, (stretch, frame) in enumerate(parts)
    ]
    rows = reduce(lambda some, more: some.unionAll(more), each).collect()
    return {parts[row["part"]][0]: _clipped(row) for row in rows}


def _columns(expressions: Sequence[str]) -> list[Any]:
    from pyspark.sql import functions as F

    return [F.expr(text) for text in expressions]


def _counts(rule: SliceRule, stretch: Stretch, example: str) -> list[str]:
    from setpoint.spark.contents import quoted

    outside = f"NOT ({rule.predicate(stretch)})"
    return [
        "count(*) AS every",
        f"count_if({quoted(rule.column)} IS NULL) AS untimed",
        f"count_if({outside}) AS outside",
        f"min(IF({outside}, {example}, NULL)) AS first",
        f"max(IF({outside}, {example}, NULL)) AS last",
    ]


def _clipped(found: Any) -> Clipped:
    ends = [text for text in (found["first"], found["last"]) if text]
    shown = dict.fromkeys(shortened(text, _VALUE) for text in ends)
    return Clipped(found["every"], found["untimed"], found["outside"], tuple(shown))
