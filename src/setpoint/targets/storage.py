"""Files where tables lie: what a store says about them, and what is said when it is silent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from setpoint.errors import TransientError

# Hadoop's names for schemes that others spell otherwise.
HADOOP_SCHEMES = {"s3": "s3a"}


@dataclass(frozen=True)
class StoredFile:
    """A file and what the store says about it; the path is relative to a known place."""

    path: str
    size: int
    modified_ms: int


def listed(filesystem: Any, place: str, start: int = 0) -> list[StoredFile]:
    """All files below a place of a pyarrow file system, however deep; none when it is not there.

    The first `start` characters of the paths are left out.
    """
    from pyarrow import fs

    found = filesystem.get_file_info(fs.FileSelector(place, recursive=True, allow_not_found=True))
    return sorted(
        (
            StoredFile(info.path[start:], info.size or 0, (info.mtime_ns or 0) // 1_000_000)
            for info in found
            if info.type == fs.FileType.File
        ),
        key=lambda file: file.path,
    )


@contextmanager
def reaching(place: str) -> Iterator[None]:
    """Say in our words that a store did not answer."""
    try:
        yield
    except OSError as error:
        raise TransientError(
            "SP-T01",
            f"The storage at {place} could not be reached: {' '.join(str(error).split())[:300]}",
            why="Rows are staged there and published from there.",
            state="This command changed nothing there.",
            next="Check the path, the credentials and the network, then run again.",
        ) from error
