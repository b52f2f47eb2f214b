"""A pipeline's slices in one version of a Delta table: their files, receipts and state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from setpoint.errors import PermanentError
from setpoint.model.pipeline import Pipeline, newest_of
from setpoint.model.ports import Remembered
from setpoint.model.receipt import Receipt, SliceState, files_digest
from setpoint.model.window import Window
from setpoint.model.write import KEYED
from setpoint.targets.delta.log import Commit, DataFile, Snapshot, open_snapshot
from setpoint.targets.refusals import no_slice_column

# Operations that change no row: the slice is what it was, though its files may differ.
_NEUTRAL = frozenset(
    {
        "OPTIMIZE",
        "VACUUM START",
        "VACUUM END",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "CHANGE COLUMN",
        "ADD COLUMNS",
    }
)


class Slices:
    """What one snapshot says about the windows of one pipeline."""

    def __init__(self, pipeline: Pipeline, snapshot: Snapshot) -> None:
        self._pipeline = pipeline
        self._snapshot = snapshot
        self.rule = pipeline.slice_rule(self._kind)

    def _kind(self, column: str) -> str:
        field = self._snapshot.field(column)
        if field is None:
            raise no_slice_column(f"at {self._snapshot.storage.uri}", column)
        return str(field.kind)

    @cached_property
    def _unapplied(self) -> frozenset[str]:
        return self._snapshot.unapplied(self._pipeline.name)

    def files(self, windows: Sequence[Window]) -> dict[Window, list[DataFile]]:
        """The live files that hold, or may hold, rows of each window."""
        found: dict[Window, list[DataFile]] = {window: [] for window in windows}
        for window, file in self._owned(windows):
            found[window].append(file)
        return found

    def states(self, windows: Sequence[Window], remembered: Remembered) -> dict[Window, SliceState]:
        """The state of each window: what was published, and whether it is still there."""
        files = self.files(windows)
        newest = self._newest(remembered) if self._pipeline.newest_counts else ""
        return {
            window: replace(self._state(window, files[window], remembered), newest=newest)
            for window in windows
        }

    def _newest(self, remembered: Remembered) -> str:
        """The newest window that was published, by its place in time."""
        ids = {window for name, window in self._snapshot.receipts if name == self._pipeline.name}
        ids |= {window for window, _ in remembered}
        return newest_of(ids, self._pipeline)

    def _owned(self, windows: Sequence[Window]) -> Iterable[tuple[Window, DataFile]]:
        rule, snapshot = self.rule, self._snapshot
        if rule is None:
            yield from ((window, file) for file in snapshot.files for window in windows)
            return
        if rule.column in snapshot.partition_columns:
            owner = rule.index(windows)
            for file in snapshot.files:
                window = owner(file.partition.get(rule.column))
                if window is not None:
                    yield window, file
            return
        for file in snapshot.files:
            least, most = file.least.get(rule.column), file.most.get(rule.column)
            for window in windows:
                if rule.overlaps(window, least, most):
                    yield window, file

    def _state(
        self, window: Window, files: Sequence[DataFile], remembered: Remembered
    ) -> SliceState:
        snapshot, name = self._snapshot, self._pipeline.name
        rows = count_rows(files)
        generation = snapshot.generation(name, window.id)
        found: tuple[Receipt, int | None] | None = snapshot.receipts.get((name, window.id))
        if found is None or found[0].generation != generation:
            found = remembered.get((window.id, generation))
        if found is None and self._pipeline.newest_counts:
            mine = [number for name, number in remembered if name == window.id]
            found = remembered.get((window.id, max(mine, default=0)))
        if not generation or found is None:
            return SliceState(generation, None, None, rows)
        receipt, version = found
        keyed = isinstance(self._pipeline.write, KEYED)  # other windows rewrite the same files
        untouched = (
            not keyed and self._same_files(window, receipt, version, files)
        ) or self._only_neutral(window, receipt, version)
        if keyed and self._unapplied:
            untouched = False  # the table may hold a row of a key that was removed meanwhile
        return SliceState(generation, receipt, untouched, rows, version)

    def _same_files(
        self, window: Window, receipt: Receipt, version: int | None, files: Sequence[DataFile]
    ) -> bool:
        """Whether the slice still consists of the files that the publish left."""
        if self._snapshot.has_deletion_vectors:
            return False  # rows vanish from a file while its name stays the same
        if receipt.files is not None:
            return receipt.files == files_digest(file.path for file in files)
        if version not in self._snapshot.commits:
            return False
        # The connector named the files itself: look at the version that it made.
        try:
            published = open_snapshot(self._snapshot.storage, version)
        except PermanentError:
            return False  # the log was cleaned up meanwhile
        if published is None:
            return False
        then = Slices(self._pipeline, published).files([window])[window]
        return {file.path for file in then} == {file.path for file in files}

    def _only_neutral(self, window: Window, receipt: Receipt, version: int | None) -> bool:
        """Whether no commit since the publish looked at the table can have changed the window.

        The connector may let a foreign append slip in between its look and its commit, so the
        commits in between count too.
        """
        commits = self._snapshot.commits
        if version is None or version not in commits:
            return False
        looked_at = (commits[version].read_version, receipt.looked_at, version)
        base = min(number for number in looked_at if number is not None)
        others = range(base + 1, self._snapshot.version + 1)
        return all(
            number in commits and self._is_neutral(commits[number], window)
            for number in others
            if number != version
        )

    def _is_neutral(self, commit: Commit, window: Window) -> bool:
        if not commit.receipts:
            return commit.operation in _NEUTRAL
        if self._pipeline.newest_counts:
            return False  # another window's publish replaces the same rows
        return all(
            receipt.pipeline == self._pipeline.name
            and receipt.timezone == window.timezone
            and receipt.every == str(window.grain)
            and receipt.window != window.id
            for receipt in commit.receipts
        )


def count_rows(files: Iterable[DataFile]) -> int | None:
    """The rows of some files; None when the log does not tell."""
    counts = [file.rows for file in files]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
