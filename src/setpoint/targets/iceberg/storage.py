"""Files below a table's location, reached with the catalog's own file access."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from setpoint.targets.storage import HADOOP_SCHEMES, StoredFile, listed, reaching

# Below the table's data, with a plain name: what removes orphan files sees what crashes left.
FOLDER = "data/setpoint"
ROWS = "rows"


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
        return f"{HADOOP_SCHEMES.get(scheme, scheme)}:{rest}"

    def files(self, folder: str) -> list[StoredFile]:
        """All files below a folder, however deep; none when it does not exist."""
        filesystem, place = self._at(folder)
        with reaching(self.location):
            return listed(filesystem, place, len(place) - len(folder))

    def open(self, relative: str) -> Any:
        """A file for random access."""
        filesystem, place = self._at(relative)
        with reaching(self.location):
            return filesystem.open_input_file(place)

    def drop(self, folder: str) -> None:
        """Remove a folder and all below it; fine when it is not there."""
        filesystem, place = self._at(folder)
        with reaching(self.location), suppress(FileNotFoundError):
            filesystem.delete_dir(place)

    def _at(self, relative: str) -> tuple[Any, str]:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        io = self.io if isinstance(self.io, PyArrowFileIO) else PyArrowFileIO(self.io.properties)
        scheme, netloc, path = PyArrowFileIO.parse_location(self.path(relative), io.properties)
        return io.fs_by_scheme(scheme, netloc), path


def _plain(path: str) -> str:
    """A path without the spellings of `file:` and of S3 that mean the same."""
    scheme, separator, rest = path.partition(":")
    if not separator or "/" in scheme:
        return path.rstrip("/")
    if scheme == "file":
        return "/" + rest.strip("/")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{rest}".rstrip("/")
