"""Files as a source: pinned by the list of them, with sizes and times of change.

The list is made without a JVM. A window owns the files whose path holds its times, or that lie
below a folder like `order_date=2026-04-25`; of other sources every file belongs to every window.
After the rows were staged, the files are looked at again: a change in between is an error.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from setpoint.errors import SetpointError, some_of
from setpoint.model.fingerprint import digest
from setpoint.model.grain import Grain
from setpoint.model.mark import Mark
from setpoint.model.origin import Files, refuse_shared_address
from setpoint.model.run import Pinned
from setpoint.model.slice import NULL_PARTITION, SliceRule
from setpoint.model.source import Source
from setpoint.model.span import Span, Stretch
from setpoint.model.window import Window
from setpoint.sources.failures import changed, clip_rule, gone, missing, unreadable
from setpoint.targets.storage import HADOOP_SCHEMES, StoredFile, listed, reaching

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATTERN = re.compile(r"[*?\[]")
_VARIES = re.compile(r"[*?\[]|\{(?:start|end|date)\b")


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
        self._together: tuple[Window, ...] = ()
        self._listed_again: set[Window] = set()

    @property
    def label(self) -> str:
        return self._source.label

    def connectors(self) -> frozenset[str]:
        return frozenset()

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        if self._source.time is None and self._files.by_window:
            refuse_shared_address(self.label, self._files.paths_of, windows)
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
        self._together, self._listed_again = (window,), set()
        return self._clipped(self._frame(session, window, pinned), window)

    def read_span(
        self, session: SparkSession, span: Span, pins: Mapping[Window, Pinned]
    ) -> DataFrame:
        if self._files.by_window and self._source.time is not None:
            from setpoint.spark.union import united

            # A row of one window in the file of another is no row of any.
            read = [(window, self.read(session, window, pins[window])) for window in span]
            self._together = span.windows
            return united(read)
        self._together, self._listed_again = span.windows, set()
        for window in span:
            self._refuse_absent(window, pins[window])
        every = {file.path: file for window in span for file in pins[window].handle}
        owned = [every[path] for path in sorted(every)]
        return self._clipped(self._loaded(session, span.windows[0], owned), span)

    def _clipped(self, frame: DataFrame, stretch: Stretch) -> DataFrame:
        if self._source.time is None:
            return frame
        from setpoint.spark.clip import clipped

        kinds = {field.name: field.dataType.typeName() for field in frame.schema.fields}
        return clipped(frame, self._rule(kinds), stretch, self.label)

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
        if window not in self._listed_again:
            # One look for all windows that were read together.
            self._lists.clear()
            self._listed_again = {*self._together} if window in self._together else {window}
        self._listed_again.discard(window)
        now = {file.path: file for file in self._owned(window)}
        for file in pinned.handle:
            if file.path not in now:
                raise changed(self._name, self.label, f"{file.path} is gone")
            if file != now[file.path]:
                raise changed(self._name, self.label, f"{file.path} is another file now")

    def _frame(self, session: SparkSession, window: Window | None, pinned: Pinned) -> DataFrame:
        self._refuse_absent(window, pinned)
        return self._loaded(session, window, pinned.handle)

    def _refuse_absent(self, window: Window | None, pinned: Pinned) -> None:
        if not pinned.handle and self._files.absent == "fail":
            paths = self._files.paths if window is None else self._files.paths_of(window)
            what = f"no file of {window.id if window else 'it'} is at {some_of(paths)}"
            raise missing(self._name, self.label, what)

    def _loaded(
        self, session: SparkSession, window: Window | None, owned: Sequence[SeenFile]
    ) -> DataFrame:
        from setpoint.spark.files import literal_path
        from setpoint.spark.loading import Folders, load

        # Without a file of its own a window reads nothing, in the columns of the others.
        chosen = owned or self._listed(window)
        if not chosen and not self._files.schema:
            raise missing(self._name, self.label, "no file tells which columns it has")
        base = self._base()
        names = list(dict.fromkeys(n for f in chosen for n in _folders(f.path[len(base) :])))
        dated = [self._source.time] if self._source.time and self._dated(chosen) else []
        folders = Folders(_spark_path(base), names, dated)
        places = [literal_path(_spark_path(file.path)) for file in chosen]
        try:
            frame = load(session, self._files, places, folders, self.label)
            return frame if owned else frame.limit(0)
        except Exception as error:
            raise unreadable(self.label, error) from error

    def _owned(self, window: Window) -> list[SeenFile]:
        """The files of a window, in the order of their paths."""
        files = self._listed(window)
        if not self._dated(files):
            return files
        column = self._source.time or ""
        try:
            rule = SliceRule.of(column, "date", self._every, self._timezone)
        except SetpointError:
            return files  # told when the rows are clipped
        return [file for file in files if rule.holds(window, self._day(file))]

    def _day(self, file: SeenFile) -> date | None:
        """The date that a file's folder tells for the time column; None for the null folder."""
        text = _folders(file.path[len(self._base()) :])[self._source.time or ""]
        return None if text == NULL_PARTITION else date.fromisoformat(text)

    def _dated(self, files: Sequence[SeenFile]) -> bool:
        """Whether folders tell the date of every file, and nothing says that it is no date."""
        declared = _declared(self._files.schema, self._source.time or "")
        if self._source.time is None or declared not in (None, "date"):
            return False
        try:
            for file in files:
                self._day(file)
        except (KeyError, ValueError):
            return False
        return bool(files)

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
    """The data files at a path, below a folder, or matching a pattern.

    In a pattern, `*` and `?` stay within one name and `**` stands for any folders, wherever the
    files lie. A folder that matches stands for all files below it.
    """
    pattern = _PATTERN.search(path)
    start = path[: pattern.start()].rpartition("/")[0] or "/" if pattern else path
    wanted = re.compile(_translated(path) + r"(?:/.*)?", re.DOTALL) if pattern else None
    with reaching(path):
        for file in _find_remote(start) if "://" in start else _find_local(start):
            inner = file.path[len(start) :].strip("/").split("/")
            if any(_is_hidden(part) for part in inner if part):
                continue
            if wanted is None or wanted.fullmatch(file.path):
                yield file


def _translated(pattern: str) -> str:
    """A pattern as a regular expression."""
    parts = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    found = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]/]+\])", pattern)
    return "".join(parts.get(part) or _literal_or_class(part) for part in found)


def _literal_or_class(part: str) -> str:
    if not (part.startswith("[") and part.endswith("]")):
        return re.escape(part)
    inner = part[1:-1].replace("\\", "\\\\")
    return f"[{'^' + inner[1:] if inner[0] == '!' else inner}]" if inner != "[" else r"\["


def _find_local(place: str) -> Iterator[SeenFile]:
    if os.path.isfile(place):
        if not _is_hidden(os.path.basename(place)):
            yield _stat(place)
        return
    been = set()
    for parent, folders, names in os.walk(place, followlinks=True):
        real = os.path.realpath(parent)
        if real in been:  # by another link: its files are not there twice
            folders.clear()
            continue
        been.add(real)
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        for name in names:
            if not _is_hidden(name):
                yield _stat(os.path.join(parent, name))


def _stat(path: str) -> SeenFile:
    found = os.stat(path)
    modified = found.st_mtime_ns // 1_000_000
    mark = (found.st_ino, found.st_ctime_ns)
    return SeenFile(os.path.normpath(path), found.st_size, modified, mark)


def _find_remote(start: str) -> Iterator[SeenFile]:
    from pyarrow import fs

    scheme, _, rest = start.partition("://")
    # pyarrow spells s3a as s3.
    native = "s3" if scheme in ("s3a", "s3n") else scheme
    system, place = fs.FileSystem.from_uri(f"{native}://{rest}")
    info = system.get_file_info(place)
    if info.type == fs.FileType.File:
        yield SeenFile(start, info.size or 0, (info.mtime_ns or 0) // 1_000_000)
        return
    for file in listed(system, place, start=len(place)):
        full = f"{start.rstrip('/')}/{file.path.lstrip('/')}"
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


def _declared(schema: str, column: str) -> str | None:
    """The type that a schema in Spark's notation gives a column; None when it does not name it."""
    found = re.search(rf"(?:^|,)\s*`?{re.escape(column)}`?\s*:?\s+(\w+)", schema, re.IGNORECASE)
    return found[1].lower() if found else None


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
