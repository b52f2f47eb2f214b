"""Files as a source: pinned by the list of them, with sizes and times of change.

The list is made without a JVM. A window owns the files whose path holds its times, or that lie
below a folder like `order_date=2026-04-25`; of other sources every file belongs to every window.
After the rows were staged, the files are looked at again: a change in between is an error.
"""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from setpoint.errors import SetpointError, some_of
from setpoint.model.fingerprint import digest
from setpoint.model.grain import Grain
from setpoint.model.mark import Mark
from setpoint.model.run import Pinned
from setpoint.model.slice import NULL_PARTITION, SliceRule, typed
from setpoint.model.source import Files, Source
from setpoint.model.window import Window
from setpoint.sources.failures import changed, clip_rule, gone, missing, unreadable
from setpoint.targets.storage import HADOOP_SCHEMES, StoredFile, listed, reaching

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATTERN = re.compile(r"[*?\[]")
_VARIES = re.compile(r"[*?\[]|\{(?:start|end|date)\b")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class SeenFile(StoredFile):
    """A file as it was when it was looked at.

    `mark` is what a local disk tells beyond size and time: a file that was rewritten within the
    same moment has another one.
    """

    mark: tuple[int, ...] = ()


class FilesSource:
    """The source port for files."""

    def __init__(
        self, name: str, source: Source, files: Files, root: str, every: Grain, timezone: str
    ) -> None:
        self._name = name
        self._source = source
        self._files = files
        self._root = root
        self._every = every
        self._timezone = timezone
        self._lists: dict[tuple[str, ...], list[SeenFile]] = {}

    @property
    def label(self) -> str:
        return self._source.label

    def connectors(self) -> frozenset[str]:
        return frozenset()

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        return {window: _pinned(self._owned(window)) for window in windows}

    def pin_published(self, window: Window, recorded: Mapping[str, Any]) -> Pinned:
        pinned = self.pin([window])[window]
        if pinned.fingerprint != recorded.get("fingerprint"):
            raise gone(self._name, self.label, "The list of files", "they have changed since")
        return pinned

    def bounds(self, window: Window) -> str:
        if self._files.by_window:
            return f"the path says {window.id}"
        return f"{self._source.time} in {window.id}" if self._source.time else "whole"

    def read(self, session: SparkSession, window: Window, pinned: Pinned) -> DataFrame:
        frame = self._frame(session, window, pinned)
        if self._source.time is None:
            return frame
        kinds = {field.name: field.dataType.typeName() for field in frame.schema.fields}
        rule = self._rule(kinds)
        return frame.where(rule.predicate(window))

    def read_increment(
        self,
        session: SparkSession,
        pinned: Pinned,
        after: Mark | None,
        again: tuple[str, str] | None,
    ) -> tuple[DataFrame, Mark | None]:
        from setpoint.spark.increment import increment

        frame = self._frame(session, None, pinned)
        return increment(frame, self._source, after, again, self.label)

    def confirm(self, window: Window, pinned: Pinned) -> None:
        self._lists.clear()
        now = {file.path: file for file in self._owned(window)}
        for file in pinned.handle:
            if file.path not in now:
                raise changed(self._name, self.label, f"{file.path} is gone")
            if file != now[file.path]:
                raise changed(self._name, self.label, f"{file.path} is another file now")

    def _frame(self, session: SparkSession, window: Window | None, pinned: Pinned) -> DataFrame:
        from setpoint.spark.files import literal_path

        owned: list[SeenFile] = pinned.handle
        # Without a file of its own a window reads nothing, in the columns of the others.
        chosen = owned or self._listed(window)
        if not chosen and self._files.absent == "fail":
            paths = self._files.paths if window is None else self._files.paths_of(window)
            raise missing(self._name, self.label, f"no file is at {some_of(paths)}")
        if not chosen:
            return session.createDataFrame([], self._files.schema)
        base = _spark_path(self._base())
        given = {"mode": "FAILFAST"} if self._files.format != "parquet" else {}
        if self._files.format == "parquet" and not self._files.schema:
            # The columns of all files, not those of whichever is looked at first.
            given["mergeSchema"] = "true"
        reader = session.read.format(self._files.format).options(
            **{**given, **self._files.options, "basePath": base}
        )
        if self._files.schema:
            reader = reader.schema(self._files.schema)
        try:
            frame = reader.load([literal_path(_spark_path(file.path)) for file in chosen])
            return frame if owned else frame.limit(0)
        except Exception as error:
            raise unreadable(self.label, error) from error

    def _owned(self, window: Window) -> list[SeenFile]:
        """The files of a window, in the order of their paths."""
        files = self._listed(window)
        column = self._source.time
        if column is None:
            return files
        above = len(self._base())
        valued = [(file, _folders(file.path[above:]).get(column)) for file in files]
        if not files or any(value is None for _, value in valued):
            return files
        rule = self._folder_rule(column, [str(value) for _, value in valued])
        if rule is None:
            return files
        return [file for file, value in valued if rule.holds(window, _value(rule, str(value)))]

    def _folder_rule(self, column: str, values: Sequence[str]) -> SliceRule | None:
        """How the values of folders tell windows; None when Spark has to look at the rows."""
        known = [value for value in values if value != NULL_PARTITION]
        if all(_DATE.fullmatch(value) for value in known):
            with suppress(SetpointError):
                return SliceRule.of(column, "date", self._every, self._timezone)
        return None

    def _rule(self, kinds: dict[str, str]) -> SliceRule:
        column = self._source.time or ""
        return clip_rule(self._name, self.label, column, kinds, self._every, self._timezone)

    def _listed(self, window: Window | None) -> list[SeenFile]:
        paths = self._files.paths if window is None else self._files.paths_of(window)
        if paths not in self._lists:
            found = {file.path: file for path in paths for file in _find(self._located(path))}
            self._lists[paths] = [found[path] for path in sorted(found)]
        return self._lists[paths]

    def _base(self) -> str:
        """The folder below which folders like `order_date=2026-04-25` tell values."""
        fixed = [self._located(_VARIES.split(path, maxsplit=1)[0]) for path in self._files.paths]
        varies = [_VARIES.search(path) is not None for path in self._files.paths]
        bases = [
            place.rpartition("/")[0] if cut or os.path.isfile(place) else place.rstrip("/")
            for place, cut in zip(fixed, varies, strict=True)
        ]
        levels = zip(*(place.split("/") for place in bases), strict=False)
        return "/".join(level[0] for level in itertools.takewhile(_are_one, levels))

    def _located(self, path: str) -> str:
        if path.startswith("file:"):
            return "/" + unquote(path.removeprefix("file:")).lstrip("/")
        return path if "://" in path else os.path.join(self._root, path)


def _find(path: str) -> Iterator[SeenFile]:
    """The data files at a path, below a folder, or matching a pattern."""
    with reaching(path):
        if "://" in path:
            yield from _find_remote(path)
            return
        for place in glob.iglob(path, recursive=True) if _PATTERN.search(path) else [path]:
            if os.path.isdir(place):
                for file in sorted(_below(place)):
                    yield _stat(file)
            elif os.path.exists(place) and not _is_hidden(os.path.basename(place)):
                yield _stat(place)


def _below(folder: str) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        yield from (os.path.join(parent, name) for name in names if not _is_hidden(name))


def _stat(path: str) -> SeenFile:
    found = os.stat(path)
    modified = found.st_mtime_ns // 1_000_000
    return SeenFile(
        os.path.normpath(path), found.st_size, modified, (found.st_ino, found.st_ctime_ns)
    )


def _find_remote(path: str) -> Iterator[SeenFile]:
    from pyarrow import fs

    scheme = path.partition("://")[0]
    pattern = _PATTERN.search(path)
    start = path[: pattern.start()].rpartition("/")[0] if pattern else path
    # pyarrow spells s3a as s3.
    native = "s3" if scheme in ("s3a", "s3n") else scheme
    system, place = fs.FileSystem.from_uri(f"{native}{start[len(scheme) :]}")
    info = system.get_file_info(place)
    prefix = f"{start[: len(start) - len(place)]}" if start.endswith(place) else f"{scheme}://"
    if info.type == fs.FileType.File:
        yield SeenFile(start, info.size or 0, (info.mtime_ns or 0) // 1_000_000)
        return
    wanted = re.compile(fnmatch.translate(path)) if pattern else None
    for file in listed(system, place):
        full = f"{prefix}{file.path}"
        inner = full[len(start) :].strip("/").split("/")
        if any(_is_hidden(part) for part in inner) or (wanted and not wanted.match(full)):
            continue
        yield SeenFile(full, file.size, file.modified_ms)


def _are_one(parts: tuple[str, ...]) -> bool:
    return len(set(parts)) == 1


def _is_hidden(name: str) -> bool:
    """Names that Spark passes over: those of unfinished and of technical files."""
    return name.startswith((".", "_")) and "=" not in name


def _folders(path: str) -> dict[str, str]:
    """The values that folders like `order_date=2026-04-25` tell."""
    parts = [part.partition("=") for part in path.split("/")[:-1] if "=" in part]
    return {unquote(name): unquote(value) for name, _, value in parts}


def _value(rule: SliceRule, text: str) -> Any:
    return None if text == NULL_PARTITION else typed(rule.kind, text)


def _spark_path(path: str) -> str:
    scheme, separator, rest = path.partition("://")
    if not separator:
        return f"file:{path}"
    return f"{HADOOP_SCHEMES.get(scheme, scheme)}://{rest}"


def _pinned(files: Sequence[SeenFile]) -> Pinned:
    size = sum(file.size for file in files)
    return Pinned(
        version=None,
        fingerprint=digest(*(f"{f.path} {f.size} {f.modified_ms}" for f in files)),
        detail=f"files: {len(files):,}, bytes: {size:,}",
        handle=list(files),
    )
