"""A pipeline's slices in one version of a Delta table: their files, receipts and state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from setpoint.errors import PermanentError
from setpoint.model.columns import UNKNOWN_COLUMNS, Columns
from setpoint.model.pipeline import Pipeline, newest_of
from setpoint.model.ports import Recalled, Staged, forgotten
from setpoint.model.receipt import Receipt, SliceState, files_digest
from setpoint.model.window import Window
from setpoint.model.write import KEYED
from setpoint.targets.claim import Claim, Quiet
from setpoint.targets.delta.log import DataFile, Snapshot, open_snapshot
from setpoint.targets.refusals import no_slice_column

# For more windows than this, all commits are read at once.
_FEW = 20


class Slices:
    """What one snapshot says about the windows of one pipeline."""

    def __init__(self, pipeline: Pipeline, snapshot: Snapshot) -> None:
        self._pipeline = pipeline
        self._snapshot = snapshot
        self.rule = pipeline.slice_rule(self._kind)

    @cached_property
    def claim(self) -> Claim:
        return Claim.of(self._pipeline, self.rule, self._snapshot.columns)

    @cached_property
    def quiet(self) -> Quiet:
        """Since when every commit has changed rows of its own window alone."""
        return self.claim.quiet(self._snapshot.past())

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

    def states(
        self, windows: Sequence[Window], remembered: Recalled = forgotten
    ) -> dict[Window, SliceState]:
        """The state of each window: what was published, and whether it is still there."""
        if len(windows) > _FEW:
            self._snapshot.read_all()
        files = self.files(windows)
        newest = self._newest(remembered) if self._pipeline.newest_counts else ""
        return {
            window: replace(self._state(window, files[window], remembered), newest=newest)
            for window in windows
        }

    def _newest(self, remembered: Recalled) -> str:
        """The newest window that was published, by its place in time."""
        ids = {window for name, window in self._snapshot.receipts if name == self._pipeline.name}
        ids |= {window for window, _ in remembered()}
        if start := self._snapshot.newest_start(self._pipeline.name):
            pipeline = self._pipeline
            ids.add(Window.containing(start, pipeline.every, pipeline.timezone).id)
        return newest_of(ids, self._pipeline)

    def _owned(self, windows: Sequence[Window]) -> Iterable[tuple[Window, DataFile]]:
        rule, snapshot = self.rule, self._snapshot
        if rule is None:
            yield from ((window, file) for file in snapshot.files for window in windows)
            return
        if rule.column in snapshot.partition_columns:
            yield from snapshot.files_in(rule.column, rule.index(windows))
            return
        name = snapshot.stored_name(rule.column)
        for file in snapshot.files:
            least, most = file.least.get(name), file.most.get(name)
            for window in windows:
                if rule.overlaps(window, least, most):
                    yield window, file

    def _state(self, window: Window, files: Sequence[DataFile], remembered: Recalled) -> SliceState:
        snapshot, name = self._snapshot, self._pipeline.name
        rows = count_rows(files)
        last = snapshot.last_publish(name, window.id)
        receipt, version = last.receipt, last.version
        if receipt is None and last.generation:
            receipt, version = self._recalled(window, last.generation, remembered)
        if not last.generation or receipt is None:
            return SliceState(last.generation, None, None, rows)
        untouched = self._untouched(window, receipt, version, files)
        return SliceState(last.generation, receipt, untouched, rows, version)

    def _recalled(
        self, window: Window, generation: int, remembered: Recalled
    ) -> tuple[Receipt, int | None] | tuple[None, None]:
        """The receipt that the log has forgotten, as the ledger remembers it."""
        kept = remembered()
        found = kept.get((window.id, generation))
        if found is None and self._pipeline.newest_counts:
            mine = [number for name, number in kept if name == window.id]
            found = kept.get((window.id, max(mine, default=0)))
        return found or (None, None)

    def _untouched(
        self, window: Window, receipt: Receipt, version: int | None, files: Sequence[DataFile]
    ) -> bool:
        """Whether the window still holds what its receipt says, by the definition of now."""
        if not self.claim.made(receipt):
            return False
        if not isinstance(self._pipeline.write, KEYED):
            same_files = self._same_files(window, receipt, version, files)
            return same_files or self._undisturbed(receipt, version)
        # Other windows rewrite the same files. With a removal that no merge knew of, the table may
        # hold a row of a key that is to be gone.
        return not self._unapplied and self._undisturbed(receipt, version)

    def _same_files(
        self, window: Window, receipt: Receipt, version: int | None, files: Sequence[DataFile]
    ) -> bool:
        """Whether the slice still consists of the files that the publish left."""
        if self._snapshot.has_deletion_vectors:
            return False  # rows vanish from a file while its name stays the same
        if receipt.files is not None:
            return receipt.files == files_digest(file.path for file in files)
        if version is None or self._base(receipt, version) != version - 1:
            return False  # that version may hold what others committed beside the publish
        # The connector named the files itself: look at the version that it made.
        try:
            published = open_snapshot(self._snapshot.storage, version)
        except PermanentError:
            return False  # the log was cleaned up meanwhile
        if published is None:
            return False
        then = Slices(self._pipeline, published).files([window])[window]
        return {file.path for file in then} == {file.path for file in files}

    def _undisturbed(self, receipt: Receipt, version: int | None) -> bool:
        """Whether no commit since the publish looked at the table can have changed the window.

        The connector may let a foreign append slip in between its look and its commit, so the
        commits in between count too.
        """
        if version is None:
            return False
        base = self._base(receipt, version)
        if not self._pipeline.newest_counts:
            return self.quiet.after(base)
        return self.claim.quiet(self._snapshot.past(), own=version).after(base)

    def _base(self, receipt: Receipt, version: int) -> int:
        """The version on which a publish was decided; the commit after it may be another's."""
        commit = self._snapshot.commit(version)
        return min(receipt.base(version), commit.base if commit else version - 1)


def stated(
    pipeline: Pipeline,
    snapshot: Snapshot | None,
    staged: Staged | None,
    receipts: Sequence[Receipt],
) -> list[Receipt]:
    """Receipts that say on which version, and by which definition, they are published."""
    if snapshot is None:
        assert staged is not None
        claim, quiet = Claim(pipeline, staged.handle.scope.name, Columns()), Quiet(since=-1)
    else:
        slices = Slices(pipeline, snapshot)
        claim, quiet = slices.claim, slices.quiet
    looked_at = snapshot.version if snapshot else None
    found = [replace(claim.stated(item, quiet), looked_at=looked_at) for item in receipts]
    if staged is not None and staged.changes_schema and claim.columns.numbers:
        # The connector numbers new columns when it commits; later nobody could tell them apart.
        return [replace(receipt, columns=UNKNOWN_COLUMNS) for receipt in found]
    return found


def count_rows(files: Iterable[DataFile]) -> int | None:
    """The rows of some files; None when the log does not tell."""
    counts = [file.rows for file in files]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
