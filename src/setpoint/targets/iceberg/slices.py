"""A pipeline's windows in one version of an Iceberg table: their files, receipts and state."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from setpoint.model.pipeline import Pipeline, newest_of
from setpoint.model.ports import Recalled, forgotten
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.slice import SliceRule
from setpoint.model.span import Stretch, windows_of
from setpoint.model.window import Window
from setpoint.model.write import Overwrite, Replace
from setpoint.targets.claim import Claim, Quiet
from setpoint.targets.iceberg.generations import LastPublish
from setpoint.targets.iceberg.log import Version
from setpoint.targets.iceberg.ranges import Values, values_of
from setpoint.targets.iceberg.types import KINDS
from setpoint.targets.refusals import no_slice_column

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile

_Stretch = TypeVar("_Stretch", bound=Stretch)


@dataclass
class SliceFiles:
    """The files of a window: those that hold its rows alone, and those that may hold some."""

    inside: list[DataFile] = field(default_factory=list)
    shared: list[DataFile] = field(default_factory=list)

    @property
    def all(self) -> list[DataFile]:
        return [*self.inside, *self.shared]


def files_of(
    version: Version,
    rule: SliceRule | None,
    windows: Sequence[_Stretch],
    given: Sequence[DataFile],
) -> dict[_Stretch, SliceFiles]:
    """The files among the given ones that may hold rows of each window, or each span."""
    found = {window: SliceFiles() for window in windows}
    if rule is None:
        for window in windows:
            found[window].inside.extend(given)
        return found
    specs = version.table.specs()
    candidates = _candidates(rule, windows)
    for file in given:
        values = values_of(file, rule.column, rule.kind, version.schema, specs)
        for window in candidates(values):
            alone = _alone(rule, window, values)
            (found[window].inside if alone else found[window].shared).append(file)
    return found


class Slices:
    """What one version of the table says about the windows of one pipeline."""

    def __init__(self, pipeline: Pipeline, version: Version) -> None:
        self._pipeline, self._version = pipeline, version

    @property
    def rule(self) -> SliceRule | None:
        """How windows are found in the table; None when the target names no column for them."""
        return self._pipeline.slice_rule(self._kind)

    @cached_property
    def claim(self) -> Claim:
        return Claim.of(self._pipeline, self.rule, self._version.columns)

    @cached_property
    def quiet(self) -> Quiet:
        """Since when every commit has changed rows of its own window alone."""
        return self.claim.quiet(self._version.past())

    def _kind(self, column: str) -> str:
        version = self._version
        field = next((item for item in version.schema.fields if item.name == column), None)
        if field is None:
            raise no_slice_column(version.name, column)
        return KINDS.get(str(field.field_type), str(field.field_type))

    def files(
        self, windows: Sequence[_Stretch], among: Sequence[DataFile] | None = None
    ) -> dict[_Stretch, SliceFiles]:
        """The files, all live ones or those given, that may hold rows of each window or span."""
        if among is None:
            among = self.near(windows)
        return files_of(self._version, self.rule, windows, among)

    def near(self, windows: Sequence[Stretch]) -> tuple[DataFile, ...]:
        """Live files, among them all that may hold rows of some windows."""
        rule, version = self.rule, self._version
        if rule is None or not windows:
            return version.files
        return version.files_near(_around(rule, windows))

    def states(
        self, windows: Sequence[Window], remembered: Recalled = forgotten
    ) -> dict[Window, SliceState]:
        """The state of each window: what was published, and whether it is still there."""
        files: Mapping[Window, SliceFiles] = {}
        if isinstance(self._pipeline.write, Overwrite):
            files = self.files(windows)
        elif isinstance(self._pipeline.write, Replace):
            files = dict.fromkeys(windows, SliceFiles(inside=list(self._version.files)))
        name = self._pipeline.name
        publishes = self._version.last_publishes(name)
        newest = ""
        if self._pipeline.newest_counts:
            counting = (w for w, last in self._version.standing(name).items() if last.stands)
            chain = (r for item in self._version.chain for r in self._version.receipts_in(item))
            held = (receipt.window for receipt in chain if receipt.pipeline == name)
            newest = newest_of({*counting, *held}, self._pipeline)
        return {
            window: self._state(window, files.get(window), publishes, remembered, newest)
            for window in windows
        }

    def _state(
        self,
        window: Window,
        files: SliceFiles | None,
        publishes: Mapping[str, LastPublish],
        remembered: Recalled,
        newest: str,
    ) -> SliceState:
        version, name = self._version, self._pipeline.name
        last = publishes.get(window.id)
        generation = last.generation if last else 0
        found: tuple[Receipt, int | None] | None = None
        if last is not None:
            found = version.receipt(name, window.id, last)
            if found is None and not version.was_rolled_back(name, last):
                found = remembered().get((window.id, generation))
        rows = self._count(files)
        if not generation or found is None:
            return SliceState(generation, None, None, rows, newest=newest)
        receipt, commit = found
        return SliceState(
            generation,
            receipt,
            self._untouched(window, receipt, commit, files),
            rows,
            commit,
            newest,
        )

    def _untouched(
        self, window: Window, receipt: Receipt, commit: int | None, files: SliceFiles | None
    ) -> bool:
        """Whether the window still holds what the receipt says, by the definition of now."""
        if not self.claim.made(receipt):
            return False
        if files is not None and receipt.files == self._version.digest_of(files.all):
            return True
        if commit is None:
            return False
        quiet = self.quiet
        if self._pipeline.newest_counts:
            quiet = self.claim.quiet(self._version.past(), own=commit)
        return commit in quiet.commits or (self._version.is_number(commit) and quiet.covers(commit))

    def _count(self, files: SliceFiles | None) -> int | None:
        if files is None or files.shared or self._version.delete_files:
            return None
        return sum(file.record_count for file in files.inside)


def _around(rule: SliceRule, stretches: Sequence[Stretch]) -> BooleanExpression:
    """A condition that holds for all rows of some windows, and for few others."""
    from pyiceberg import expressions

    made: Any = expressions  # its classes are typed for pydantic, not for those who call them
    if rule.by_name:
        names = {str(rule.only_value(window)) for item in stretches for window in windows_of(item)}
        values = names if rule.kind == "string" else set(map(int, names))
        return cast("BooleanExpression", made.In(rule.column, values))
    bounds = [rule.bounds(item) for item in stretches]
    least, end = min(start for start, _ in bounds), max(end for _, end in bounds)
    from_least = made.GreaterThanOrEqual(rule.column, least.isoformat())
    before_end = made.LessThan(rule.column, end.isoformat())
    return cast("BooleanExpression", made.And(from_least, before_end))


def _candidates(
    rule: SliceRule, windows: Sequence[_Stretch]
) -> Callable[[Values], Sequence[_Stretch]]:
    """A function from a file's values to the windows among these that they may belong to."""
    if rule.kind in ("string", "integer", "long"):
        return lambda values: [w for w in windows if _may_hold(rule, w, values)]
    ordered = sorted(((*rule.bounds(window), window) for window in windows), key=lambda x: x[0])
    starts, ends = [item[0] for item in ordered], [item[1] for item in ordered]

    def found(values: Values) -> Sequence[_Stretch]:
        if values.nothing:
            return ()
        first = bisect_right(ends, values.least) if values.least is not None else 0
        last = bisect_right(starts, values.most) if values.most is not None else len(starts)
        return [item[2] for item in ordered[first:last]]

    return found


def _may_hold(rule: SliceRule, window: Stretch, values: Values) -> bool:
    return not values.nothing and rule.overlaps(window, values.least, values.most)


def _alone(rule: SliceRule, window: Stretch, values: Values) -> bool:
    """Whether all rows of a file belong to the window."""
    if values.nulls or values.least is None or values.most is None:
        return False
    if rule.kind in ("string", "integer", "long"):
        return bool(values.least == values.most) and rule.holds(window, values.least)
    return rule.holds(window, values.least) and rule.holds(window, values.most)
