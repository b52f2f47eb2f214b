"""Files and folders that a command writes, and tables whose rows lie in a folder."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from setpoint.model.proof import Difference
from setpoint.prove.command import trees
from setpoint.prove.command.copying import copy
from setpoint.prove.command.links import resolved, why_not_restorable
from setpoint.prove.command.places import Place, Question, Sight, Watching
from setpoint.sources.existing import ExistingTable, open_table
from setpoint.targets.delta.storage import COMMIT, Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from typing_extensions import Self

    from setpoint.model.window import Window
    from setpoint.spark.session import Sessions

_CHUNK = 1 << 20
_POSITIVE = (1 << 62) - 1


@dataclass(frozen=True)
class FilePlace:
    """A file or folder that a command writes; by itself one without rows, such as a mark."""

    name: str
    path: Path

    @property
    def label(self) -> str:
        return str(self.path)

    @property
    def address(self) -> str:
        return str(self.path)

    @property
    def identity(self) -> str:
        try:
            return str(resolved(self.path)[0])
        except OSError:
            return str(self.path)  # links in a circle lead nowhere

    def refusal(self, beside: Sequence[Place]) -> str:
        return why_not_restorable(self.path, [Path(place.identity) for place in beside])

    def keep(self, folder: Path) -> None:
        trees.keep(self.path, folder)

    def remember(self, folder: Path) -> None:
        trees.keep(self.path, folder)

    def restore(self, folder: Path) -> None:
        trees.restore(folder, exact=True)

    def reset(self, folder: Path) -> None:
        trees.restore(folder)

    def elsewhere(self, folder: Path) -> str:
        return trees.pointed_elsewhere(folder)

    def copy_in(self, folder: Path) -> Self:
        return replace(self, path=folder / self.path.name)

    def fill(self, original: Place) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if os.path.exists(original.address):
            copy(Path(original.address), self.path)

    def left_out(self) -> str:
        return ""

    def discard(self) -> None:
        """The sandbox goes as a whole."""

    @contextmanager
    def watching(self, *, held: bool = True) -> Iterator[Watching]:
        yield Watching(self._sight)

    def _sight(self) -> Sight:
        listed = list(_listed(self.path))
        empty = frozenset(name for name, state in listed if state < 0)
        return Sight(_digest(listed), files=frozenset(listed), empty=empty)


@dataclass(frozen=True)
class FolderTable(FilePlace):
    """A Delta table, or Parquet files, in a folder of this machine."""

    kind: Literal["delta", "parquet"]

    @property
    def label(self) -> str:
        return f"{self.kind}:{self.path}"

    def exists(self, folder: Path) -> bool:
        return self._opened(trees.content(folder)) is not None

    def rows(self, folder: Path, sessions: Sessions) -> int:
        return _count(self._opened(trees.content(folder)), sessions)

    def rows_now(self, sessions: Sessions) -> int:
        return _count(self._opened(self.path), sessions)

    def difference(self, folder: Path, question: Question, sessions: Sessions) -> Difference | None:
        expected, found = self._opened(trees.content(folder)), self._opened(self.path)
        if expected is None or found is None:
            before, after = _count(expected, sessions), _count(found, sessions)
            if expected is None and found is None:
                return None
            words = "there are no files" if found is None else "after one run there are no files"
            return Difference(before, after, before, after, schema=(words,))
        if _same_files(expected, found):
            return None
        return _by_spark(expected, found, question, sessions)

    def time_column(
        self, before: Path, after: Path, named: str, window: Window, sessions: Sessions
    ) -> str:
        from setpoint.prove.command.frames import time_column

        was, table = (self._opened(trees.content(folder)) for folder in (before, after))
        if table is None:
            return ""
        sessions.get(table.connectors | (was.connectors if was is not None else frozenset()))
        known = _frame(was, sessions) if was is not None else None
        return time_column(known, _frame(table, sessions), named, window)

    def _opened(self, path: Path | None) -> ExistingTable | None:
        """The table at a path; None when nothing is there that holds rows."""
        if path is None or not path.exists():
            return None
        if self.kind == "delta":
            if not any(
                COMMIT.fullmatch(f"_delta_log/{name}") for name, _ in _listed(path / "_delta_log")
            ):
                return None
        elif not any(name for name, _ in _listed(path) if not _is_hidden(name)):
            return None
        return open_table(self.label, self.kind, Storage.at(str(path)))

    def _sight(self) -> Sight:
        everything = list(_listed(self.path))
        if self.kind == "delta":
            # A commit is there when its name is; its size may still grow.
            visible = [(name, 0) for name, _ in everything if COMMIT.fullmatch(name)]
        else:
            visible = [(name, size) for name, size in everything if not _is_hidden(name)]
        return Sight(_digest(visible), _digest(everything))


def _listed(root: Path) -> Iterator[tuple[str, int]]:
    """All files below, with one number for size and time; one that goes meanwhile is gone."""
    waiting = [str(root)]
    with suppress(FileNotFoundError, NotADirectoryError):
        found = root.stat()
        if stat.S_ISREG(found.st_mode):
            yield ".", _state_of(found)
            return
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        state = _state_of(entry.stat(follow_symlinks=False))
                        yield os.path.relpath(entry.path, root), state
        except (FileNotFoundError, NotADirectoryError):
            continue


def listing(root: Path) -> str:
    """One text for all files below a folder, their sizes and times."""
    return _digest(_listed(root))


def _state_of(found: os.stat_result) -> int:
    """One number for size and time, below zero for an empty file."""
    state = hash((found.st_size, found.st_mtime_ns)) & _POSITIVE
    return state if found.st_size else -1 - state


def _is_hidden(name: str) -> bool:
    """Whether readers of a Parquet folder pass a file over."""
    return any(part.startswith((".", "_")) and "=" not in part for part in name.split("/"))


def _digest(listed: list[tuple[str, int]] | Iterator[tuple[str, int]]) -> str:
    own = hashlib.sha256()
    for name, state in listed:
        own.update(f"{name}\0{state}\n".encode())
    return own.hexdigest()


def _same_files(expected: ExistingTable, found: ExistingTable) -> bool:
    """Whether both sides consist of the same bytes: then they are the same rows.

    The names of files do not count, those of their folders do: they are columns.
    """
    if expected.connectors or found.connectors or expected.columns != found.columns:
        return False
    if len(expected.files) != len(found.files):
        return False
    return _contents(expected) == _contents(found)


def _contents(table: ExistingTable) -> Counter[tuple[str, str]] | None:
    if table.storage is None:
        return None
    found: Counter[tuple[str, str]] = Counter()
    for file in table.files:
        own = hashlib.sha256()
        with table.storage.open(file.path) as stream:
            while part := stream.read(_CHUNK):
                own.update(part)
        found[repr(sorted(file.partition.items(), key=str)), own.hexdigest()] += 1
    return found


def _by_spark(
    expected: ExistingTable, found: ExistingTable, question: Question, sessions: Sessions
) -> Difference | None:
    from setpoint.prove.command.frames import difference_of

    sessions.get(expected.connectors | found.connectors)  # one session for both
    return difference_of(_frame(expected, sessions), _frame(found, sessions), question)


def _frame(table: ExistingTable, sessions: Sessions) -> DataFrame:
    from setpoint.spark.check import frame_of

    return frame_of(sessions.get(table.connectors), table, table.columns)


def _count(table: ExistingTable | None, sessions: Sessions) -> int:
    """The rows of a table, from its log or its footers where these tell."""
    from setpoint.sources.existing import with_rows

    if table is None:
        return 0
    counted = with_rows(table).rows
    return int(_frame(table, sessions).count()) if counted is None else counted
