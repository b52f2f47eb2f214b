"""What crashed attempts left behind: staged files that nothing leads to."""

from __future__ import annotations

from collections.abc import Iterable

from setpoint.model.ports import Leftover
from setpoint.targets.storage import StoredFile


def find(files: Iterable[StoredFile], folder: str, in_use: Iterable[str]) -> list[Leftover]:
    """Attempt folders below `folder` that hold files, and in which no path in use lies.

    They are named by the pipeline, the window and the attempt. In use is what readers see, and
    what a receipt names as staged or as replaced: time travel may still need it.
    """
    depth = folder.count("/") + 4
    known = {"/".join(path.split("/")[:depth]) for path in in_use}
    folders: dict[str, list[StoredFile]] = {}
    for file in files:
        parts = file.path.split("/")
        if len(parts) > depth:
            folders.setdefault("/".join(parts[:depth]), []).append(file)
    found = []
    for place, held in sorted(folders.items()):
        pipeline, window, attempt = place.split("/")[-3:]
        size, modified_ms = sum(f.size for f in held), max(f.modified_ms for f in held)
        if place not in known:
            found.append(Leftover(place, attempt, pipeline, window, len(held), size, modified_ms))
    return found
