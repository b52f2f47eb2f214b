"""Which files lie at a path, below a folder or behind a pattern; found without a JVM."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from setpoint.targets.storage import StoredFile, listed, reaching

_PATTERN = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class SeenFile(StoredFile):
    """A file as it was when it was looked at.

    `mark` is what a local disk tells beyond size and time: a file that was rewritten within the
    same moment has another one.
    """

    mark: tuple[int, ...] = ()


def find(path: str) -> Iterator[SeenFile]:
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


def _is_hidden(name: str) -> bool:
    """Names that Spark passes over: those of unfinished and of technical files."""
    return name.startswith((".", "_")) and "=" not in name
