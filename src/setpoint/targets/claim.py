"""What the publishes of a pipeline replace, and which commits can have changed a window.

A window is unchanged only if the target itself shows that nothing since its publish could have
changed its slice, whoever wrote it and by whatever definition. Another publish of the same pipeline
leaves the window alone if it was made by the very definition of now, on the columns of now, for
another window of the same kind. Everything else counts as a change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from setpoint.model.columns import Columns
from setpoint.model.pipeline import Pipeline
from setpoint.model.receipt import Receipt
from setpoint.model.scope import Scope
from setpoint.model.slice import SliceRule
from setpoint.model.write import Overwrite, pattern_of


@dataclass(frozen=True)
class Past:
    """A commit as the rule sees it: who made it, and on which commit it was decided.

    `before` stands for the commits before it, of which nothing may be known any more: the least
    number at which none of them can be (None: the numbers have no order).
    """

    number: int
    receipts: tuple[Receipt, ...]
    changes_rows: bool
    looked_at: int
    before: int | None


@dataclass(frozen=True)
class Quiet:
    """The commits since which no window can have been changed but by its own publish.

    `commits` were looked at; `since` says that all later ones are quiet too, also those that the
    log has forgotten (None: numbers that have no order).
    """

    commits: frozenset[int] = frozenset()
    since: int | None = None

    def after(self, base: int) -> bool:
        """Whether no commit after a given one can have changed another window than its own."""
        return self.since is not None and self.since <= base

    def covers(self, commit: int) -> bool:
        """Whether a commit is one of the quiet ones."""
        return commit in self.commits or (self.since is not None and self.since < commit)


@dataclass(frozen=True)
class Claim:
    """A pipeline's definition on a table as it is now."""

    pipeline: Pipeline
    scope: str
    columns: Columns

    @classmethod
    def of(cls, pipeline: Pipeline, rule: SliceRule | None, columns: Columns) -> Claim:
        return cls(pipeline, Scope(pipeline.write, rule).name, columns)

    def stated(self, receipt: Receipt, quiet: Quiet) -> Receipt:
        """A receipt that says by which definition its rows are about to be published."""
        since = None if self.pipeline.newest_counts else quiet.since
        columns = self.columns.recorded()
        return replace(receipt, scope=self.scope, columns=columns, quiet_since=since)

    def made(self, receipt: Receipt) -> bool:
        """Whether a publish was made by this definition, and for columns that are still there.

        A receipt of a time when no scope was recorded is known by its pattern alone.
        """
        pattern = pattern_of(self.pipeline.write)
        same = receipt.scope == self.scope if receipt.scope else _pattern(receipt) == pattern
        return same and self.columns.same_as(receipt.columns)

    def leaves_others_alone(self, receipt: Receipt) -> bool:
        """Whether a publish can have changed no window but its own."""
        pipeline = self.pipeline
        kind = (pipeline.name, pipeline.timezone, str(pipeline.every))
        return (
            not pipeline.newest_counts
            and (receipt.pipeline, receipt.timezone, receipt.every) == kind
            and self.made(receipt)
        )

    def kind_of(self, receipt: Receipt) -> str:
        """What tells whether a publish leaves others alone, as one text."""
        return "\n".join([receipt.scope, receipt.every, receipt.timezone, receipt.columns])

    def leaves_others_alone_by(self, kind: str) -> bool:
        """The same as for a receipt, by what `kind_of` said of it."""
        scope, every, zone, columns = kind.split("\n")
        pipeline = self.pipeline
        same = (scope, every, zone) == (self.scope, str(pipeline.every), pipeline.timezone)
        return same and not pipeline.newest_counts and self.columns.same_as(columns)

    def quiet(self, past: Iterable[Past], own: int | None = None) -> Quiet:
        """How far back the commits, newest first, leave windows alone that are not their own.

        `own` is a window's own publish, which does no harm to what it says.
        """
        seen: list[int] = []
        since: int | None = None
        known: tuple[int, int] | None = None  # up to the first all were quiet, since the second
        for item in past:
            if known is not None and item.number <= known[0]:
                return Quiet(frozenset(seen), known[1])
            ours = bool(item.receipts) and all(map(self.leaves_others_alone, item.receipts))
            harmless = ours or item.number == own or not (item.receipts or item.changes_rows)
            if not harmless:
                return Quiet(frozenset(seen), None if item.before is None else item.number)
            seen.append(item.number)
            since = item.before
            if ours and known is None and item.receipts[0].quiet_since is not None:
                known = (item.looked_at, item.receipts[0].quiet_since)
        if known is not None and seen[-1] == known[0] + 1:
            since = known[1]
        return Quiet(frozenset(seen), since)


def _pattern(receipt: Receipt) -> str:
    return receipt.pattern or Overwrite.name
