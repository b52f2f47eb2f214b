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
    """Manifests that were read, up to some weight; who was not asked for longest goes."""

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
    """By the statistics of the files' columns; a manifest without live files takes room too."""
    return 1 + sum(_EACH + sum(len(getattr(file, name) or ()) for name in _MAPS) for file in files)


_EACH = 10
_MAPS = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)
# Some fifty bytes for each, so that this is about 100 MB.
KNOWN = Manifests(2_000_000)
