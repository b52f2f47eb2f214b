"""What lies below a place, entry by entry: its sort, bytes, rights, owner, times and links."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

ROOT = "."
_CHUNK = 1 << 20
# Attributes that a copy has to carry along: the others belong to the system.
_ATTRIBUTES = ("user.", "system.posix_acl_")

Sort = Literal["file", "folder", "link", "other"]
Mark = tuple[int, int, int, int]


@dataclass(frozen=True)
class Entry:
    """One file, folder or link as it was; `seal` is a hash of the bytes of a file.

    `twin` is the first name of the same file, where it has several below the place.
    """

    sort: Sort
    mode: int
    owner: tuple[int, int]
    mtime: int
    size: int = 0
    link: str = ""
    seal: str = ""
    twin: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> Entry:
        uid, gid = known["owner"]
        return cls(**{**known, "owner": (uid, gid)})

    def difference(self, now: Entry | None) -> str:
        """What is not as it was, in words; empty when all of it is."""
        if now is None:
            return "is missing"
        if now.sort != self.sort:
            return f"is a {now.sort} and was a {self.sort}"
        told = {
            "leads elsewhere": now.link != self.link,
            "has other bytes": (now.size, now.seal) != (self.size, self.seal),
            "is no longer the same file as before under its other name": now.twin != self.twin,
            "has other permissions": now.mode != self.mode,
            "has another owner": now.owner != self.owner,
            "has another time": now.mtime != self.mtime,
            "has other attributes": dict(now.attributes) != dict(self.attributes),
        }
        return next((words for words, differs in told.items() if differs), "")


def entry_at(path: Path) -> Entry | None:
    """What is there now, without the hash of its bytes; None when nothing is."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    sort = _sort(found.st_mode)
    return Entry(
        sort,
        0 if sort == "link" else stat.S_IMODE(found.st_mode),
        (found.st_uid, found.st_gid),
        found.st_mtime_ns,
        found.st_size if sort == "file" else 0,
        os.readlink(path) if sort == "link" else "",
        attributes={} if sort == "link" else _attributes(path),
    )


def entries_of(root: Path, *, sealed: bool = False) -> dict[str, Entry]:
    """All that is there, parents first, by relative names; the root itself is `.`.

    With `sealed` every file is read and hashed. Links are not followed.
    """
    found: dict[str, Entry] = {}
    names: dict[tuple[int, int], str] = {}
    for name in names_of(root):
        path = root / name
        if (entry := entry_at(path)) is None:
            continue
        if entry.sort == "file":
            info = path.lstat()
            if info.st_nlink > 1:
                twin = names.setdefault((info.st_dev, info.st_ino), name)
                entry = replace(entry, twin=twin)
            if sealed:
                entry = replace(entry, seal=seal_of(path))
        found[name] = entry
    return _without_lone_twins(found)


def names_of(root: Path) -> Iterator[str]:
    """The relative names of all that is there, parents first; the root itself is `.`."""
    if os.path.lexists(root):
        yield ROOT
    for folder, folders, files in _walked(root):
        for name in sorted([*folders, *files]):
            yield os.path.relpath(os.path.join(folder, name), root)


def mark_of(path: Path) -> Mark | None:
    """What the kernel says about a file: it changes with every change, and nobody can set it."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns


def seal_of(path: Path) -> str:
    """A hash of the bytes of a file."""
    own = hashlib.sha256()
    with path.open("rb") as stream:
        while part := stream.read(_CHUNK):
            own.update(part)
    return own.hexdigest()


def dress(path: Path, entry: Entry) -> None:
    """Give what is at a path the owner, attributes, rights and times of an entry."""
    now = entry_at(path)
    if now is None:
        return
    if now.owner != entry.owner:
        with suppress(PermissionError):
            os.chown(path, *entry.owner, follow_symlinks=False)
    if entry.sort != "link":
        for name in now.attributes.keys() - entry.attributes.keys():
            os.removexattr(path, name)
        for name, value in entry.attributes.items():
            if now.attributes.get(name) != value:
                os.setxattr(path, name, bytes.fromhex(value))
        os.chmod(path, entry.mode)
    os.utime(path, ns=(path.lstat().st_atime_ns, entry.mtime), follow_symlinks=False)


def is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def open_up(root: Path) -> None:
    """Let their owner change what lies in a folder and in those below it."""
    if is_folder(root):
        _open_up(root)
    for folder, folders, _ in _walked(root):
        for name in folders:
            if not os.path.islink(os.path.join(folder, name)):
                _open_up(Path(folder, name))


def remove(place: Path) -> None:
    """Remove a file, link or folder, if there is one; what a link leads to stays."""
    if is_folder(place):
        open_up(place)
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _open_up(folder: Path) -> None:
    mode = stat.S_IMODE(folder.lstat().st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        folder.chmod(mode | stat.S_IRWXU)


def _walked(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """All folders from a root down; one that cannot be looked into is an error, not empty."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    return os.walk(root, onerror=refuse) if is_folder(root) else iter(())


def _without_lone_twins(found: dict[str, Entry]) -> dict[str, Entry]:
    """Files with several names of which only one is here have no twin here."""
    counts: dict[str, int] = {}
    for entry in found.values():
        counts[entry.twin] = counts.get(entry.twin, 0) + 1
    return {
        name: replace(entry, twin="") if counts[entry.twin] == 1 else entry
        for name, entry in found.items()
    }


def _sort(mode: int) -> Sort:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def _attributes(path: Path) -> dict[str, str]:
    if not hasattr(os, "listxattr"):
        return {}
    try:
        names = [name for name in os.listxattr(path) if name.startswith(_ATTRIBUTES)]
        return {name: os.getxattr(path, name).hex() for name in sorted(names)}
    except OSError:
        return {}  # a file system without attributes
