"""Files where tables lie: what a store says about them, and what is said when it is silent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from setpoint.errors import UNTOUCHED, PermanentError, TransientError
from setpoint.spark.failures import root_cause

# Hadoop's names for schemes that others spell otherwise.
HADOOP_SCHEMES = {"s3": "s3a"}
# Signs of what stays as it is until somebody changes it, and what that would be.
_LASTING = {
    r"(?i)no space left|quota exceeded": "Make room there",
    r"(?i)permission denied|access.?denied|AccessControl|read-only": "Give this user access there",
}


@dataclass(frozen=True)
class StoredFile:
    """A file and what the store says about it; the path is relative to a known place."""

    path: str
    size: int
    modified_ms: int

    @property
    def holds_rows(self) -> bool:
        """Whether it is more than a mark or a checksum beside files of rows."""
        return not self.path.rpartition("/")[2].startswith(("_", "."))


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
        raise out_of_reach(place, error) from error


def out_of_reach(place: str, error: Exception) -> TransientError | PermanentError:
    """A store failed; a full disk or a missing right does not pass by itself."""
    text = str(error)
    remedy = next((remedy for sign, remedy in _LASTING.items() if re.search(sign, text)), None)
    kind = PermanentError if remedy else TransientError
    return kind(
        "SP-T01",
        f"The storage at {place} could not be reached: {root_cause(error)}",
        why="Rows are staged there and published from there.",
        state=UNTOUCHED,
        next=f"{remedy or 'Check the path, the credentials and the network'}, then run again.",
    )


def footer_of(file: Any, path: str) -> Any:
    """The footer of a staged Parquet file."""
    from pyarrow import ArrowInvalid, parquet

    try:
        with reaching(path):
            return parquet.read_metadata(file)
    except ArrowInvalid as error:
        raise TransientError(
            "SP-P04",
            f"The staged file {path} is not a whole Parquet file: {root_cause(error)}",
            why="What it holds cannot be told, so it must not be published.",
            next="Run again; the new attempt stages afresh.",
        ) from error
