"""Files below a table's location, reached with the catalog's own file access."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from setpoint.errors import TransientError

# Below the table's data, with a plain name: what removes orphan files sees what crashes left.
FOLDER = "data/setpoint"
ROWS = "rows"
_HADOOP_SCHEMES = {"s3": "s3a"}


@dataclass(frozen=True)
class StoredFile:
    """A file and what the store says about it; the path is relative to the table's location."""

    path: str
    size: int
    modified_ms: int


@dataclass(frozen=True)
class Storage:
    """A table's location, and the pyiceberg FileIO that reaches it."""

    location: str
    io: Any

    def path(self, relative: str) -> str:
        """A place as the table's metadata spells it."""
        return f"{self.location.rstrip('/')}/{relative}"

    def relative(self, path: str) -> str | None:
        """The path below the location, whichever way it is spelled; None if it lies elsewhere."""
        root, full = _plain(self.location), _plain(path)
        return full[len(root) + 1 :] if full.startswith(f"{root}/") else None

    def spark_path(self, relative: str) -> str:
        """A place as Spark spells it."""
        scheme, separator, rest = self.path(relative).partition(":")
        if not separator or scheme == "file":
            # A bare path is taken literally, blanks and '%' included.
            return _plain(self.path(relative))
        return f"{_HADOOP_SCHEMES.get(scheme, scheme)}:{rest}"

    def files(self, folder: str) -> list[StoredFile]:
        """All files below a folder, however deep; none when it does not exist."""
        from pyarrow import fs

        filesystem, place = self._at(folder)
        try:
            found = filesystem.get_file_info(
                fs.FileSelector(place, recursive=True, allow_not_found=True)
            )
        except OSError as error:
            raise self._unreachable(error) from error
        start = len(place) - len(folder)
        return sorted(
            (
                StoredFile(info.path[start:], info.size or 0, (info.mtime_ns or 0) // 1_000_000)
                for info in found
                if info.type == fs.FileType.File
            ),
            key=lambda file: file.path,
        )

    def open(self, relative: str) -> Any:
        """A file for random access."""
        filesystem, place = self._at(relative)
        try:
            return filesystem.open_input_file(place)
        except OSError as error:
            raise self._unreachable(error) from error

    def drop(self, folder: str) -> None:
        """Remove a folder and all below it; fine when it is not there."""
        filesystem, place = self._at(folder)
        try:
            filesystem.delete_dir(place)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unreachable(error) from error

    def _at(self, relative: str) -> tuple[Any, str]:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        io = self.io if isinstance(self.io, PyArrowFileIO) else PyArrowFileIO(self.io.properties)
        scheme, netloc, path = PyArrowFileIO.parse_location(self.path(relative), io.properties)
        return io.fs_by_scheme(scheme, netloc), path

    def _unreachable(self, error: Exception) -> TransientError:
        said = " ".join(str(error).split())[:300]
        return TransientError(
            "SP-T01",
            f"The storage at {self.location} could not be reached: {said}",
            why="Rows are staged there and published from there.",
            state="This command changed nothing there.",
            next="Check the path, the credentials and the network, then run again.",
        )


def _plain(path: str) -> str:
    """A path without the spellings of `file:` and of S3 that mean the same."""
    scheme, separator, rest = path.partition(":")
    if not separator or "/" in scheme:
        return path.rstrip("/")
    if scheme == "file":
        return "/" + rest.strip("/")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{rest}".rstrip("/")
