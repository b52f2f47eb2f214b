"""What crashed attempts left behind: staged files that no receipt names."""

from __future__ import annotations

from collections.abc import Sequence

from setpoint.model.ports import Leftover
from setpoint.targets.iceberg.log import Version
from setpoint.targets.iceberg.storage import FOLDER, Storage, StoredFile

_DEPTH = len(FOLDER.split("/")) + 3


def find(storage: Storage, version: Version | None) -> Sequence[Leftover]:
    """Attempt folders whose files were never published, or are no longer known to the table.

    A folder counts as published while a live file lies in it, and while a receipt of any
    snapshot names it as staged or as replaced: time travel may still need it.
    """
    folders: dict[str, list[StoredFile]] = {}
    for file in storage.files(FOLDER):
        parts = file.path.split("/")
        if len(parts) > _DEPTH:
            folders.setdefault("/".join(parts[:_DEPTH]), []).append(file)
    known = _known(storage, version)
    return [
        _leftover(folder, files) for folder, files in sorted(folders.items()) if folder not in known
    ]


def _known(storage: Storage, version: Version | None) -> set[str]:
    if version is None:
        return set()
    paths = (storage.relative(file.file_path) for file in version.files)
    live = {"/".join(path.split("/")[:_DEPTH]) for path in paths if path}
    for receipt in version.all_receipts:
        live |= {receipt.stage, receipt.replaced}
    return live


def _leftover(folder: str, files: Sequence[StoredFile]) -> Leftover:
    *_, pipeline, window, attempt = folder.split("/")
    return Leftover(
        location=folder,
        attempt=attempt,
        pipeline=pipeline,
        window=window,
        files=len(files),
        size=sum(file.size for file in files),
        modified_ms=max(file.modified_ms for file in files),
    )
