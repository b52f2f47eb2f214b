"""The guarantees of setpoint, each broken by a small change of its source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """One broken guarantee: the change, and the proof that has to notice it."""

    name: str
    broken: str
    """What is not so any more, in words."""
    file: str
    changes: tuple[tuple[str, str], ...]
    pipeline: str
    experiments: tuple[str, ...]

    def apply(self, source: Path) -> None:
        """Change a copy of the source; a text that is not there exactly once is an error."""
        path = source / "setpoint" / self.file
        text = path.read_text(encoding="utf-8")
        for old, new in self.changes:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {self.file} has {text.count(old)} times: {old}")
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")


MUTANTS = (
    Mutant(
        "no-fence",
        "who comes second does not see that the window was published meanwhile",
        "targets/delta/fence.py",
        (
            (
                "if generation != expected.generation or newer or not (staged or state.untouched):",
                "if newer or not (staged or state.untouched):",
            ),
        ),
        "daily",
        ("two-at-once",),
    ),
    Mutant(
        "receipt-outside-the-commit",
        "rows are committed first, their receipt in a second commit",
        "targets/delta/commit.py",
        (
            (
                "    properties = _properties(receipts, fences)\n    if stage is not None:",
                "    properties = _properties([], []) if stage else _properties(receipts, fences)\n"
                "    if stage is not None:",
            ),
            (
                "    _guarded(run, storage, commit)\n\n\ndef _creation",
                "    _guarded(run, storage, commit)\n"
                "    if stage is not None:\n"
                "        from setpoint.targets.delta.log import open_snapshot\n\n"
                "        alone = _receipts_alone(open_snapshot(storage), _properties(receipts, "
                "fences))\n        _guarded(run, storage, alone)\n\n\ndef _creation",
            ),
        ),
        "daily",
        ("twice",),
    ),
    Mutant(
        "no-receipt",
        "a commit does not say whose rows it holds",
        "targets/delta/commit.py",
        (('custom_metadata={"userMetadata": seal(receipts)},', "custom_metadata={},"),),
        "daily",
        ("twice",),
    ),
    Mutant(
        "no-window-clip",
        "an input is not bounded by the window",
        "sources/names.py",
        (("return frame.where(rule.predicate(stretch))", "return frame"),),
        "stamped",
        ("neighbours",),
    ),
    Mutant(
        "publish-before-audit",
        "rows are published first and audited later",
        "flow/plan.py",
        (
            (
                "        steps.Audit(tuple(a.name for a in audits if not rides_along(a))),\n"
                "        steps.Publish(state.generation + 1, mechanism),\n",
                "        steps.Publish(state.generation + 1, mechanism),\n"
                "        steps.Audit(tuple(a.name for a in audits if not rides_along(a))),\n",
            ),
        ),
        "daily",
        ("failures",),
    ),
    Mutant(
        "mark-not-in-the-commit",
        "the high-water mark does not move with the rows",
        "flow/publish.py",
        (
            (
                "high_water_mark=reached.as_text() if reached else None",
                "high_water_mark=None",
            ),
        ),
        "events",
        ("late-rows",),
    ),
    Mutant(
        "mark-loses-ties",
        "rows that share the moment of the mark are not read again",
        "spark/increment.py",
        (
            (
                'return _compare(source.cursor, after, ">")',
                'return f"{first} > {_literal(after.values[0], kinds[0])}"',
            ),
        ),
        "events",
        ("late-rows",),
    ),
    Mutant(
        "any-receipt",
        "a window counts as unchanged when any of its receipts is of this run, not the latest",
        "flow/plan.py",
        (
            (
                'NOTHING_CHANGED = "nothing changed"\n',
                'NOTHING_CHANGED = "nothing changed"\n_SEEN: set[str] = set()\n',
            ),
            (
                "    if receipt.run_key == run.key or ",
                "    _SEEN.add(receipt.run_key)\n    if run.key in _SEEN or ",
            ),
        ),
        "daily",
        ("late-rows",),
    ),
    Mutant(
        "unknown-commit-not-looked-up",
        "a commit whose answer was lost counts as failed, without a look at the target",
        "flow/attempt.py",
        (("landed = target.landed(self._run.window.id, self._id)", "landed = None"),),
        "daily",
        ("lost-answer",),
    ),
    Mutant(
        "no-delete",
        "the rows of the window stay when the new ones come",
        "targets/delta/commit.py",
        (
            (
                "        list(_adds(stage)),\n        mode,",
                '        list(_adds(stage)),\n        "append",',
            ),
        ),
        "daily",
        ("late-rows",),
    ),
    Mutant(
        "no-delete-in-postgres",
        "the rows of the window stay when the new ones come, in PostgreSQL",
        "targets/postgres/replace.py",
        (
            (
                "        self._delete()\n        return self._insert()",
                "        return self._insert()",
            ),
        ),
        "stored",
        ("late-rows",),
    ),
    Mutant(
        "slice-too-wide",
        "a publish replaces the whole table instead of the window's slice",
        "targets/delta/commit.py",
        (("_filters(stage.scope.rule, run.window) if stage.scope.rule else None,", "None,"),),
        "daily",
        ("neighbours",),
    ),
    Mutant(
        "chunk-of-a-neighbour",
        "in a chunk every window gets the rows of the first",
        "flow/chunk.py",
        (
            (
                "item.read(session, run.window, pins[n])",
                "item.read(session, chunk.runs[0].window, pins[n])",
            ),
        ),
        "stamped",
        ("chunk",),
    ),
    Mutant(
        "merge-without-an-order",
        "of rows with one key and one sequence, any is taken",
        "spark/batch.py",
        (("ORDER BY {order}, {HASH} DESC)", "ORDER BY {order})"),),
        "merged",
        ("parallelism",),
    ),
    Mutant(
        "contents-not-compared",
        "rows count as published already, whatever they are",
        "flow/publish.py",
        (
            (
                "        and receipt.contents == staged.contents\n"
                "        and receipt.rows == staged.rows\n",
                "",
            ),
        ),
        "daily",
        ("late-rows",),
    ),
)
