"""The guarantees of setpoint, each broken by a small change of its source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """One broken guarantee: the change, and the proof or the tests that have to notice it.

    Proofs run one definition of a pipeline; what comes of definitions that change, of rollbacks and
    of renamed columns is for tests to notice.
    """

    name: str
    broken: str
    """What is not so any more, in words."""
    file: str
    changes: tuple[tuple[str, str], ...]
    pipeline: str = ""
    experiments: tuple[str, ...] = ()
    tests: str = ""
    """A file of tests, and with `::` one of them."""

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
    Mutant(
        "any-scope",
        "a publish under another pattern or slice column counts as harmless",
        "targets/claim.py",
        (("        return same and self.columns", "        return self.columns"),),
        tests="tests/unit/targets/test_claim.py::test_a_publish_by_another_definition_is_a_change",
    ),
    Mutant(
        "any-columns",
        "columns that were renamed, or made again, are taken for those of before",
        "targets/claim.py",
        ((" and self.columns.same_as(receipt.columns)", ""),),
        tests="tests/spark/test_definition_changes.py::test_other_columns_in_postgres",
    ),
    Mutant(
        "any-grain",
        "a publish of another grain or time zone counts as harmless",
        "targets/claim.py",
        (
            (
                "and (receipt.pipeline, receipt.timezone, receipt.every) == kind",
                "and receipt.pipeline == kind[0]",
            ),
        ),
        tests="tests/unit/targets/test_claim.py::test_a_publish_by_another_definition_is_a_change",
    ),
    Mutant(
        "whole-states-leave-each-other-alone",
        "where all windows state the same rows, another one's publish counts as harmless",
        "targets/claim.py",
        (("            not pipeline.newest_counts\n            and (", "            ("),),
        tests="tests/unit/targets/test_claim.py::test_windows_that_state_the_same_rows_change_each_other",
    ),
    Mutant(
        "blind-beside-a-publish",
        "what was committed between the look and the commit of a publish is not looked at",
        "targets/claim.py",
        (("if known is not None and item.number <= known[0]:", "if known is not None:"),),
        tests="tests/unit/targets/test_claim.py::test_commits_beside_a_publish_are_looked_at",
    ),
    Mutant(
        "rollback-forgotten",
        "a publish that was rolled back is taken for one whose snapshot has expired",
        "targets/iceberg/commit.py",
        (("last = version.standing(pipeline)", "last = version.last_publishes(pipeline)"),),
        tests="tests/spark/test_definition_changes.py::test_a_rolled_back_window_is_not_taken_for_an_expired_one",
    ),
    Mutant(
        "receipt-alone-for-another-slice",
        "the same rows need no write, although the window owns another slice now",
        "targets/delta/slices.py",
        (
            (
                "        if not self.claim.made(receipt):\n            return False\n",
                "",
            ),
        ),
        tests="tests/spark/test_definition_changes.py::test_a_corrected_time_column_owns_its_slice[delta]",
    ),
    Mutant(
        "force-trusts-the-receipt",
        "a forced run writes a receipt alone",
        "flow/publish.py",
        (("keep_files = same_rows and not force", "keep_files = same_rows"),),
        tests="tests/spark/test_definition_changes.py::test_force_always_writes_the_rows[delta]",
    ),
    Mutant(
        "disturbance-not-carried-on",
        "in Parquet manifests a publish by another definition is forgotten with its receipt",
        "targets/parquet/commit.py",
        (("disturbed = view.disturbed(held.entries) if view and held else 0", "disturbed = 0"),),
        tests="tests/spark/test_definition_changes.py::test_keys_that_a_replace_wiped_are_merged_again[parquet-merge]",
    ),
    Mutant(
        "drift-by-rows-alone",
        "in PostgreSQL a publish by another definition does not count as a drift",
        "targets/postgres/slices.py",
        (("if not claim.leaves_others_alone_by(kind)]", "if not kind]"),),
        tests="tests/spark/test_definition_changes.py::test_keys_that_a_replace_wiped_are_merged_again[postgres-merge]",
    ),
    Mutant(
        "newest-forgotten-with-the-log",
        "which window is the newest is not known once the log is cleaned up",
        "targets/delta/transactions.py",
        (("    return _FIRST + minutes * _MINUTE if minutes else None", "    return None"),),
        tests="tests/spark/test_definition_changes.py::test_an_older_window_never_replaces_the_newest_one",
    ),
)
