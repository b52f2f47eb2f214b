"""Files below a table's root, on a local disk or in an object store."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.targets.storage import HADOOP_SCHEMES, StoredFile, listed, reaching

_MISREAD = re.compile(r"[#?\[\]]|%[0-9A-Fa-f]{2}")
# The name of a commit; beside it lies what a writer is about to name so: `….json#1`, `.….json.tmp`.
COMMIT = re.compile(r"_delta_log/(\d{20})\.json")
# A plain name, so that VACUUM sees what a crashed attempt left behind.
FOLDER = "setpoint"
# Where a merge puts the rows of the table that it has written anew, in the folder of its attempt.
MERGED = "merged"


@dataclass(frozen=True)
class Storage:
    """The table's root and how to reach it."""

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @classmethod
    def at(cls, location: str, options: Mapping[str, str] | None = None) -> Storage:
        """A location as users and catalogs spell it: a path, file:, s3a://, abfss://, gs://."""
        try:
            parsed = urlparse(location)
        except ValueError as error:
            raise UsageError(
                "SP-D01",
                f"{location!r:.120} is not a location: {error}.",
                state=NOTHING_STARTED,
                next="Write a path, or a URL such as s3://bucket/folder.",
            ) from error
        if parsed.password:
            raise UsageError(
                "SP-D01",
                f"The location at {parsed.hostname} holds a password.",
                why="Locations are shown, and recorded in receipts and in the ledger.",
                state=NOTHING_STARTED,
                next='Give it by the environment, or as storage_options={"...": "env:NAME"}.',
            )
        if parsed.scheme == "file":
            location = unquote(parsed.path)
        elif parsed.scheme in ("s3a", "s3n"):
            location = "s3" + location[len(parsed.scheme) :]
        if "://" not in location:
            # By its letters, as the reader of the log does: `a/../b` is `b`, also without an `a`.
            location = os.path.normpath(Path(location).absolute())
            if _MISREAD.search(location):
                raise UsageError(
                    "SP-D01",
                    f"The path {location} holds one of # ? [ ] or a percent sign with two digits.",
                    why="The reader of the Delta log takes paths for URLs and would look for the "
                    "table elsewhere.",
                    state=NOTHING_STARTED,
                    next="Rename the folder.",
                )
        return cls(location.rstrip("/") or "/", dict(options or {}))

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri

    def spark_path(self, relative: str = "") -> str:
        """The place as Spark spells it."""
        scheme, separator, rest = self.uri.partition("://")
        # A local path stays bare, so that blanks, '%' and '#' in it are taken literally.
        root = f"{HADOOP_SCHEMES.get(scheme, scheme)}://{rest}" if separator else self.uri
        return f"{root}/{relative}" if relative else root

    @property
    def url(self) -> str:
        """The place as a URL, so that '#' and '%' in a path are part of the path."""
        return Path(self.uri).as_uri() if self.is_local else self.uri

    def files(self, folder: str) -> list[StoredFile]:
        """All files below a folder, however deep; none when it does not exist."""
        with reaching(self.uri):
            return listed(self._filesystem(), folder)

    def entries(self, folder: str = "") -> list[str]:
        """The names directly below a folder."""
        from pyarrow import fs

        if self.is_local and not Path(self.uri, folder).is_dir():
            return []
        with reaching(self.uri):
            found = self._filesystem().get_file_info(
                fs.FileSelector(folder, recursive=False, allow_not_found=True)
            )
        return sorted(info.base_name for info in found)

    def missing(self, paths: Sequence[str]) -> list[str]:
        """Those of some files that are not there."""
        from pyarrow import fs

        if not paths:
            return []
        with reaching(self.uri):
            found = self._filesystem().get_file_info(list(paths))
        gone = fs.FileType.NotFound
        return [path for path, info in zip(paths, found, strict=True) if info.type == gone]

    def open(self, path: str) -> Any:
        """A file for random access."""
        with reaching(self.uri):
            return self._filesystem().open_input_file(path)

    def read(self, path: str) -> bytes | None:
        """The content of a small file; None when it is not there."""
        with reaching(self.uri):
            try:
                with self._filesystem().open_input_file(path) as file:
                    return bytes(file.read())
            except FileNotFoundError:
                return None

    def writer(self, path: str) -> Any:
        """A stream into a new file; its folder is made if it is not there."""
        with reaching(self.uri):
            if self.is_local:
                Path(self.uri, path).parent.mkdir(parents=True, exist_ok=True)
            return self._filesystem().open_output_stream(path)

    def put(self, path: str, content: bytes) -> None:
        """Write a small file, or write it again."""
        with reaching(self.uri), self._filesystem().open_output_stream(path) as stream:
            stream.write(content)

    def remove(self, path: str) -> None:
        """Remove one file; fine when it is not there."""
        with reaching(self.uri), suppress(FileNotFoundError):
            self._filesystem().delete_file(path)

    def drop(self, folder: str) -> None:
        """Remove a folder and all below it; fine when it is not there."""
        if self.is_local:
            import shutil

            # The parents stay: another attempt may be about to write below them.
            with reaching(self.uri), suppress(FileNotFoundError):
                shutil.rmtree(Path(self.uri, folder))
            return
        filesystem = self._filesystem()
        with reaching(self.uri):
            for file in self.files(folder):
                filesystem.delete_file(file.path)

    def _filesystem(self) -> Any:
        from pyarrow import fs

        if self.is_local:
            return fs.SubTreeFileSystem(self.uri, fs.LocalFileSystem())
        from deltalake.fs import DeltaStorageHandler

        return fs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.options)))
