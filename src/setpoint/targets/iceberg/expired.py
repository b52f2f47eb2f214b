"""Snapshots that have expired, as metadata files of earlier versions tell of them.

Expiry takes snapshots out of the metadata, and with them which one was written on which. A
publish that was rolled back looks like an expired one then. Earlier metadata files are kept for a
while (`write.metadata.previous-versions-max`) and still name them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True)
class Ancestors:
    """The expired ancestors of a snapshot, newest first.

    They are complete down to the number `since`; what lies further back nothing tells of.
    """

    snapshots: tuple[Snapshot, ...]
    since: int

    def lack(self, number: int) -> bool:
        """Whether a commit is known not to be among the ancestors."""
        numbers = (item.sequence_number or 0 for item in self.snapshots)
        return number >= self.since and number not in numbers


def ancestors(table: Table, oldest: Snapshot) -> Ancestors:
    """The expired ancestors of the oldest snapshot that is kept, as far as files tell of them.

    Some tools take the parent out of a snapshot when they expire it. A snapshot without one had
    none only if it is the table's first, or was not there yet when an earlier file was written.
    """
    files, item = _earlier(table), oldest
    passed: list[Snapshot] = []
    known, roots = {oldest.snapshot_id: oldest}, set[int]()
    while item.parent_snapshot_id is not None or not _is_root(item, roots):
        if item.parent_snapshot_id in known:
            item = known[item.parent_snapshot_id]
            passed.append(item)
            continue
        found = next(files, None)
        if found is None:
            return Ancestors(tuple(passed), item.sequence_number or 0)
        roots |= known.keys() - found.keys()
        orphans = {key for key, snapshot in known.items() if snapshot.parent_snapshot_id is None}
        known |= {key: found[key] for key in found if key not in known or key in orphans}
        item = known[item.snapshot_id]
    return Ancestors(tuple(passed), 0)


def _is_root(snapshot: Snapshot, roots: set[int]) -> bool:
    return snapshot.sequence_number == 1 or snapshot.snapshot_id in roots


def _earlier(table: Table) -> Iterator[dict[int, Snapshot]]:
    """The snapshots in each earlier metadata file that is there, the newest file first."""
    from pyiceberg.serializers import FromInputFile

    for entry in reversed(table.metadata.metadata_log):
        try:
            metadata = FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
        except Exception:  # removed, or not ours to read: it tells nothing
            continue
        yield {item.snapshot_id: item for item in metadata.snapshots}
