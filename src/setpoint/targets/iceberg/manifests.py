"""The files that manifests name. A manifest never changes, so each is read once.

A table of a thousand publishes has a thousand manifests, and a run looks at the table's files four
times; reading one takes a millisecond, or a request to an object store.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestFile


class Manifests:
    """Manifests that were read, up to so many files in all; who was not asked for longest goes."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0
        self._known: OrderedDict[tuple[str, int], tuple[DataFile, ...]] = OrderedDict()
        self._lock = Lock()

    def files_of(self, manifest: ManifestFile, io: FileIO) -> tuple[DataFile, ...]:
        """The live files of a manifest."""
        key = (manifest.manifest_path, manifest.manifest_length)
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
        found = tuple(entry.data_file for entry in entries)
        with self._lock:
            if key not in self._known:
                self._known[key] = found
                self._held += _weight(found)
            while self._held > self._most:
                _, oldest = self._known.popitem(last=False)
                self._held -= _weight(oldest)
        return found


def _weight(files: tuple[DataFile, ...]) -> int:
    """A manifest without live files takes room too."""
    return len(files) + 1


# A file takes a kilobyte or two.
KNOWN = Manifests(20_000)
