"""What crashed attempts left behind: staged folders to which no manifest leads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from setpoint.model.ports import Leftover
from setpoint.targets.parquet.storage import Files, StoredFile
from setpoint.targets.parquet.view import RUNS

_DEPTH = 3  # pipeline, window, attempt


def find(files: Files, root: str, in_use: Iterable[str]) -> Sequence[Leftover]:
    """Attempt folders that hold neither rows of the table nor rows that were just replaced."""
    folders: dict[str, list[StoredFile]] = {}
    for file in files.listed(f"{root}/{RUNS}"):
        parts = file.name.split("/")
        if len(parts) > _DEPTH:
            folders.setdefault("/".join(parts[:_DEPTH]), []).append(file)
    known = {attempt_folder(place, root) for place in in_use}
    return [
        _leftover(f"{RUNS}/{folder}", found)
        for folder, found in sorted(folders.items())
        if f"{RUNS}/{folder}" not in known
    ]


def attempt_folder(place: str, root: str) -> str:
    """The attempt's folder in which a place lies, relative to the root; empty if in none."""
    inner = place.removeprefix(f"{root}/{RUNS}/")
    parts = inner.split("/")
    return "/".join([RUNS, *parts[:_DEPTH]]) if inner != place and len(parts) >= _DEPTH else ""


def _leftover(folder: str, files: Sequence[StoredFile]) -> Leftover:
    pipeline, window, attempt = folder.split("/")[-_DEPTH:]
    return Leftover(
        location=folder,
        attempt=attempt,
        pipeline=pipeline,
        window=window,
        files=len(files),
        size=sum(file.size for file in files),
        modified_ms=max(file.modified_ms for file in files),
    )
