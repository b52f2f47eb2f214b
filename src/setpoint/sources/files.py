"""Files as a source: pinned by the list of them, with sizes and times of change.

The list is made without a JVM. A window owns the files whose path holds its times, or that lie
below a folder like `order_date=2026-04-25`; of other sources every file belongs to every window.
After the rows were staged, the files are looked at again: a change in between is an error.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from setpoint.errors import SetpointError, some_of
from setpoint.model.fingerprint import digest
from setpoint.model.grain import Grain
from setpoint.model.mark import Mark
from setpoint.model.origin import Files, refuse_shared_address, sharing_address
from setpoint.model.ports import Remarks
from setpoint.model.run import Pinned
from setpoint.model.slice import NULL_PARTITION, SliceRule
from setpoint.model.source import Source
from setpoint.model.span import Span, Stretch
from setpoint.model.window import Window
from setpoint.sources.clip import Clipped, clip_counts_of_files
from setpoint.sources.failures import changed, clip_rule, gone, missing, unreadable
from setpoint.sources.listing import SeenFile, find
from setpoint.targets.storage import HADOOP_SCHEMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VARIES = re.compile(r"[*?\[]|\{(?:start|end|date)\b")


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
        self._shared: dict[tuple[str, ...], Span | None] = {}
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
            clip = f" and {self._source.clip}" if self._source.time else ""
            return f"the path says {window.id}{clip}"
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

    def remarks(
        self, session: SparkSession, pins: Mapping[Window, Pinned]
    ) -> dict[Window, Remarks]:
        """Rows of the files that a window's path names, and that no window would hold."""
        time = self._source.time
        if time is None or not self._files.by_window:
            return {}
        readers = {window: self._readers(window) for window in pins}
        told: dict[Stretch, Clipped] = {}
        frames: dict[Stretch, DataFrame] = {}
        for window, pinned in pins.items():
            shared, listed = readers[window], self._listed(window, self._files.named_by(window))
            if shared is None or shared in told or shared in frames:
                continue
            paths = {file.path for file in listed}
            if self._dated(listed):
                told[shared] = self._clipped_folders(listed, shared)
            elif owned := [file for file in pinned.handle if file.path in paths]:
                frames[shared] = self._loaded(session, window, owned)
        if frames:
            told |= self._clipped_rows(frames)
        why = "No other window reads these files, so that the rows would be in no window."
        policy = self._source.outside
        return {
            window: told[shared].remarks(self._name, time, shared, policy, why)
            for window, shared in readers.items()
            if shared is not None and shared in told
        }

    def _readers(self, window: Window) -> Span | None:
        """The windows whose paths are those of a window."""
        named = self._files.named_by(window)
        if named not in self._shared:
            self._shared[named] = sharing_address(self._files.named_by, window)
        return self._shared[named]

    def _clipped_folders(self, files: Sequence[SeenFile], readers: Span) -> Clipped:
        rule = SliceRule.of(self._source.time or "", "date", self._every, self._timezone)
        days = [(self._day(file), file.path) for file in files]
        odd = sorted((day, path) for day, path in days if day and not rule.holds(readers, day))
        untimed = sum(day is None for day, _ in days)
        shown = dict.fromkeys(path for _, path in [*odd[:1], *odd[-1:]])
        return Clipped(len(days), untimed, len(odd), tuple(shown), word="file")

    def _clipped_rows(self, frames: Mapping[Stretch, DataFrame]) -> dict[Stretch, Clipped]:
        schema = next(iter(frames.values())).schema
        rule = self._rule({field.name: field.dataType.typeName() for field in schema.fields})
        try:
            return clip_counts_of_files(list(frames.items()), rule)
        except Exception as error:
            raise unreadable(self.label, error) from error

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

    def absent(self, window: Window | None, pinned: Pinned) -> SetpointError | None:
        """Why a window, or all of them, cannot be read, if no file is there."""
        if pinned.handle or self._files.absent != "fail":
            return None
        timed = window is not None and not window.grain.is_incremental
        paths = self._files.paths_of(window) if window is not None else self._files.paths
        what = f"no file of {window.id if window and timed else 'it'} is at {some_of(paths)}"
        return missing(self._name, self.label, what)

    def _refuse_absent(self, window: Window | None, pinned: Pinned) -> None:
        if (refusal := self.absent(window, pinned)) is not None:
            raise refusal

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
            frame = load(session, self._files, places, folders)
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

    def _listed(
        self, window: Window | None, paths: tuple[str, ...] | None = None
    ) -> list[SeenFile]:
        """The files at all paths of a window, or at some of them."""
        if paths is None:
            paths = self._files.paths if window is None else self._files.paths_of(window)
        if paths not in self._lists:
            found = {file.path: file for path in paths for file in find(self._located(path))}
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


def _are_one(parts: tuple[str, ...]) -> bool:
    return len(set(parts)) == 1


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
