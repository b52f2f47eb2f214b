"""What crashed attempts left behind: staged files that no receipt names."""

from __future__ import annotations

from collections.abc import Sequence

from setpoint.model.ports import Leftover
from setpoint.targets.delta.log import Snapshot
from setpoint.targets.delta.stage import FOLDER
from setpoint.targets.delta.storage import Storage, StoredFile

_DEPTH = 4


def find(storage: Storage, snapshot: Snapshot | None) -> Sequence[Leftover]:
    """Attempt folders whose files were never published, or are no longer known to the log.

    A folder counts as published while a live file lies in it, and while a receipt in the log
    names it as staged or as replaced: time travel may still need it.
    """
    if storage.is_local and FOLDER not in storage.entries():
        return ()
    folders: dict[str, list[StoredFile]] = {}
    for file in storage.files(FOLDER):
        parts = file.path.split("/")
        if len(parts) > _DEPTH:
            folders.setdefault("/".join(parts[:_DEPTH]), []).append(file)
    known = _known(snapshot)
    return [
        _leftover(folder, files) for folder, files in sorted(folders.items()) if folder not in known
    ]


def _known(snapshot: Snapshot | None) -> set[str]:
    if snapshot is None:
        return set()
    live = {"/".join(file.path.split("/")[:_DEPTH]) for file in snapshot.files}
    for commit in snapshot.commits.values():
        for receipt in commit.receipts:
            live |= {receipt.stage, receipt.replaced}
    return live


def _leftover(folder: str, files: Sequence[StoredFile]) -> Leftover:
    _, pipeline, window, attempt = folder.split("/")
    return Leftover(
        location=folder,
        attempt=attempt,
        pipeline=pipeline,
        window=window,
        files=len(files),
        size=sum(file.size for file in files),
        modified_ms=max(file.modified_ms for file in files),
    )
