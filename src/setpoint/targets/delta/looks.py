"""Looks at a Delta table that read its log only when it has moved.

To read it takes longer with every commit since the last checkpoint, and a run looks at the table
five times before it publishes. Only on local disks: elsewhere the question takes as many requests
as the answer.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from setpoint import edge
from setpoint.targets.delta.log import Snapshot, open_snapshot
from setpoint.targets.delta.storage import Storage

_SECOND = 1_000_000_000
# How far the time of a file may lie before the moment at which it was written: the kernel's clock
# ticks every few milliseconds, and some file systems know seconds only.
_TICK, _COARSE = _SECOND // 50, 2 * _SECOND

Identity = tuple[int, int, int, int]


@dataclass(frozen=True)
class _Mark:
    """That a version is the newest of one table: its file, the folder of the log, its checkpoint.

    Who drops a table and makes another one writes these files again. After a checkpoint the
    commits before it may be removed, and with them what an open table still has to read.
    """

    file: Identity
    folder: tuple[int, int]
    checkpoint: Identity | None

    def was_there(self, moment_ns: float) -> bool:
        """Whether the file was surely written before a moment."""
        written = self.file[2]
        return written < moment_ns - (_TICK if written % _SECOND else _COARSE)


class Looks:
    """The newest version of a table, again and again; to look at, not to commit on."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._log = Path(storage.uri, "_delta_log")
        self._known: tuple[Snapshot, _Mark] | None = None

    def newest(self) -> Snapshot | None:
        """The newest version, as reading the log would tell."""
        if not self._storage.is_local:
            return open_snapshot(self._storage)
        known = self._known
        if known is not None and self._mark(known[0]) == known[1]:
            return known[0]
        began, folder = edge.utc_now().timestamp() * _SECOND, self._folder()
        snapshot = open_snapshot(self._storage)
        mark = self._mark(snapshot) if snapshot else None
        # What was written, or put in its place, while we were reading may be another table's.
        is_ours = mark is not None and mark.folder == folder and mark.was_there(began)
        self._known = (snapshot, mark) if snapshot and mark and is_ours else None
        return snapshot

    def _mark(self, snapshot: Snapshot) -> _Mark | None:
        """None when the version is not the newest, or when that cannot be told."""
        own, following = (self._log / f"{snapshot.version + n:020d}.json" for n in (0, 1))
        file, folder = _identity(own), self._folder()
        checkpoint = _identity(self._log / "_last_checkpoint")
        if file is None or folder is None or os.path.lexists(following):
            return None
        return _Mark(file, folder, checkpoint)

    def _folder(self) -> tuple[int, int] | None:
        try:
            found = self._log.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


def _identity(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
