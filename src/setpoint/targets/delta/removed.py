"""The keys that merges removed from a Delta table: which tombstones count, now and afterwards."""

from __future__ import annotations

from setpoint.model import tombstones
from setpoint.model.ports import Staged
from setpoint.model.window import Window
from setpoint.targets.delta.log import Snapshot
from setpoint.targets.delta.storage import Storage


class Removed:
    """The tombstones of one pipeline.

    Receipts in the log name them. A log is cleaned up some day, so a folder whose removals have
    landed is marked besides.
    """

    def __init__(self, storage: Storage, pipeline: str) -> None:
        self._storage, self._pipeline = storage, pipeline
        self._landed = tombstones.landed_file(pipeline)

    def now(self, snapshot: Snapshot | None) -> tuple[str, ...]:
        """The places that count now."""
        return snapshot.tombstones(self._pipeline, self._marked()) if snapshot else ()

    def after(
        self, snapshot: Snapshot | None, window: Window, staged: Staged | None
    ) -> tuple[str, ...]:
        """The places that count once a stage is published, or a receipt alone."""
        new = staged.handle.tombstones if staged else None
        return tombstones.after(self.now(snapshot), window, new)

    def mark(self, snapshot: Snapshot | None) -> None:
        """Mark the places that count, and take the mark from those that no longer do."""
        if snapshot is None:
            return
        marked = self._marked()
        counting = set(snapshot.tombstones(self._pipeline, marked))
        for place in sorted(counting - marked):
            self._storage.put(f"{place}/{self._landed}", b"")
        for place in sorted(marked - counting):
            self._storage.remove(f"{place}/{self._landed}")

    def forget(self, location: str, snapshot: Snapshot | None) -> None:
        """Remove what an attempt wanted removed, unless it counts."""
        place = tombstones.folder_of(location)
        if place not in self.now(snapshot):
            self._storage.drop(place)

    def _marked(self) -> set[str]:
        found = (file.path.rpartition("/") for file in self._storage.files(tombstones.FOLDER))
        return {folder for folder, _, name in found if name == self._landed}
