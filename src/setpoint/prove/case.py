"""The case of a proof: the clean run, and what every experiment compares its end state with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from setpoint.errors import SetpointError
from setpoint.model.audit import Unique
from setpoint.model.determinism import ROWS, Judged, judged
from setpoint.model.proof import Difference, Result
from setpoint.model.window import Window
from setpoint.model.write import KEYED
from setpoint.prove.causes import Evidence, Varied, explain
from setpoint.prove.sandbox import Sandbox
from setpoint.prove.trial import TARGET, Trial

_CLEAN, _IN_ORDER = "clean", "in-order"
_STILL = (_CLEAN, _IN_ORDER)


@dataclass
class Case:
    """One pipeline and window in its sandbox, with its clean run.

    `windows` are those that can be run here, oldest first, the proven one among them. A proof
    of a pipeline that reads its own window before begins every trial with that window.
    """

    sandbox: Sandbox
    window: Window
    full: bool = False
    tell: Callable[[str], None] = lambda message: None
    left_out: dict[str, str] = field(default_factory=dict)
    """Windows that were meant to take part, each with the reason why it does not."""
    _contents: dict[tuple[str, str], Any] = field(default_factory=dict)
    """What the tables hold that nothing is written to any more: they are compared with often."""

    @cached_property
    def clean(self) -> Trial:
        """The end state of one clean run."""
        return self.begun(_CLEAN, run=True)

    @cached_property
    def ordered(self) -> Trial:
        """All windows, published one by one in their order; those that fail are left out."""
        trial = self.sandbox.trial(_IN_ORDER)
        for window in self.windows:
            self.tell(f"in order  {window.id}")
            try:
                trial.run(window)
            except SetpointError as error:
                if window == self.window:
                    raise
                self.left_out[window.id] = error.what
        return trial

    @cached_property
    def unstable(self) -> dict[str, frozenset[str]]:
        """The columns that differ when nothing is varied, by table: a second clean run tells.

        It is made when something differs, so that no experiment is blamed for what it did not do.
        """
        again = self.begun("control", run=True)
        found = self.differences(again, self.clean)
        return {table: _columns(difference) for table, difference in found}

    @property
    def windows(self) -> list[Window]:
        """The windows that take part, oldest first."""
        return [item for item in sorted(self.sandbox.windows) if item.id not in self.left_out]

    @property
    def others(self) -> list[Window]:
        """The windows that take part, but for the one that is proven."""
        return [item for item in self.windows if item != self.window]

    @property
    def before(self) -> list[Window]:
        """What has to be published before the window: a pipeline may go on from it."""
        if not self.sandbox.pipeline.reads_itself:
            return []
        earlier = self.window.previous()
        return [item for item in self.windows if item == earlier]

    @property
    def judged(self) -> Judged:
        """What production says to the plan of the clean run."""
        return judged(tuple(self.clean.found), self.sandbox.pipeline.allow)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns by which the definition tells rows apart, for matching them."""
        pipeline = self.sandbox.pipeline
        if isinstance(pipeline.write, KEYED):
            return pipeline.write.keys
        unique = (audit.columns for audit in pipeline.audits if isinstance(audit, Unique))
        return next(unique, ())

    def begun(self, name: str, *, run: bool = False) -> Trial:
        """A new trial with what has to be there before the window; with `run`, the window too."""
        trial = self.sandbox.trial(name)
        trial.run(*self.before, *([self.window] if run else []))
        return trial

    def compared(
        self,
        experiment: str,
        trial: Trial,
        message: str,
        *,
        expected: Trial | None = None,
        varied: Varied | None = None,
        detail: dict[str, Any] | None = None,
    ) -> Result:
        """The result of a trial: its tables are those of the clean run, or what differs and why."""
        expected = expected or self.clean
        found = self.differences(trial, expected)
        for table, difference in found:
            result = Result(
                experiment,
                "failed",
                f"{message}: {difference.summary}",
                table=table,
                difference=difference,
                detail=detail or {},
            )
            findings = tuple(dict.fromkeys((*self.clean.found, *trial.found)))
            blamed = varied or Varied()
            if _columns(difference) <= self.unstable.get(table, frozenset()):
                blamed = Varied(again=1)
            clocks = (expected.ran, trial.ran) if expected.ran and trial.ran else None
            seen = Evidence(blamed, difference, findings, clocks=clocks)
            return explain(seen).told_in(result)
        return Result(experiment, "passed", f"{message}: the same rows", detail=detail or {})

    def differences(self, trial: Trial, expected: Trial) -> list[tuple[str, Difference]]:
        """What differs, table by table; nothing when both hold the same rows."""
        from setpoint.spark.difference import contents, difference

        with expected.tables() as wanted, trial.tables() as found:
            told = []
            for table in dict.fromkeys((*wanted, *found)):
                # A table that was never made has no rows.
                there: Any = wanted.get(table, found.get(table))
                one = wanted.get(table, there.limit(0))
                two = found.get(table, there.limit(0))
                key = self.key if table == TARGET else ()
                place = (expected.name, table)
                if expected.name in _STILL and place not in self._contents:
                    self._contents[place] = contents(one)
                differs = difference(one, two, key=key, known=self._contents.get(place))
                if not differs.is_empty:
                    told.append((table, differs))
            return told

    def untouched(
        self, experiment: str, trial: Trial, before: Any, windows: Sequence[Window], message: str
    ) -> Result | None:
        """A failed result if anything was committed since `before`; None when nothing was."""
        after = trial.committed(*windows)
        if after == before:
            return None
        changed = [name for name, state in after.windows.items() if state != before.windows[name]]
        what = f"{', '.join(changed)} was published again" if changed else "the table has"
        if before.version != after.version:
            joint = " and the table has" if changed else ""
            what += f"{joint} a new version ({before.version} to {after.version})"
        return Result(experiment, "failed", f"{message}: {what}", table=TARGET)


def _columns(difference: Difference) -> frozenset[str]:
    """What differs; rows that are missing or new count like a column."""
    grown = difference.rows_expected != difference.rows_found or not difference.columns
    names = [column.name for column in difference.columns]
    return frozenset([*names, *([ROWS] if grown else [])])
