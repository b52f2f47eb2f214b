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
    """The sequence numbers of the expired ancestors of a snapshot.

    They are complete down to `since`; what lies further back nothing tells of.
    """

    numbers: frozenset[int]
    since: int

    def lack(self, number: int) -> bool:
        """Whether a commit is known not to be among the ancestors."""
        return number >= self.since and number not in self.numbers


def ancestors(table: Table, oldest: Snapshot) -> Ancestors:
    """The expired ancestors of the oldest snapshot that is kept, as far as files tell of them."""
    known: dict[int, Snapshot] = {}
    files = _earlier(table)
    numbers, parent = set[int](), oldest.parent_snapshot_id
    while parent is not None:
        while parent not in known:
            try:
                known |= next(files)
            except StopIteration:
                return Ancestors(
                    frozenset(numbers), min(numbers, default=oldest.sequence_number or 0)
                )
        number, parent = known[parent].sequence_number, known[parent].parent_snapshot_id
        numbers.add(number or 0)
    return Ancestors(frozenset(numbers), 0)


def _earlier(table: Table) -> Iterator[dict[int, Snapshot]]:
    """The snapshots in each earlier metadata file that is there, the newest file first."""
    from pyiceberg.serializers import FromInputFile

    for entry in reversed(table.metadata.metadata_log):
        try:
            metadata = FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
        except Exception:  # removed, or not ours to read: it tells nothing
            continue
        yield {item.snapshot_id: item for item in metadata.snapshots}
