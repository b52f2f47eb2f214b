"""What a trial may change and where it may connect to: its sandbox, and what nobody else reads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_TEMPORARY = ("/tmp", "/var/tmp")
_SYSTEM = ("/dev/", "/proc/", "/sys/")


@dataclass(frozen=True)
class Bounds:
    """The bounds of one proof.

    `root` is the project and `folder` the sandbox in it. `own` is the target of production, if it
    is a folder. The rest is what the proof itself needs: `hosts` are addresses, as text; `ports`
    those that it reads inputs through, wherever they are; `files` and `folders` were written
    before the first trial began.
    """

    root: str
    folder: str
    own: str = ""
    temporary: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    @classmethod
    def of(cls, root: str | os.PathLike[str], folder: str | os.PathLike[str], own: str) -> Bounds:
        """The bounds of a sandbox on this machine, with the temporary folders of this process."""
        real = os.path.realpath(root)
        target = os.path.realpath(os.path.join(real, own)) if own and "://" not in own else own
        places = {os.path.realpath(place) for place in (tempfile.gettempdir(), *_TEMPORARY)}
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return cls(real, os.path.realpath(folder), target, (*sorted(places), cache))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> Bounds:
        lists = ("temporary", "hosts", "ports", "files", "folders")
        return cls(**{**known, **{name: tuple(known[name]) for name in lists}})

    def holds(self, folder: str) -> bool:
        """Whether a folder has to do with the project or the target, which no one else writes."""
        mine = [place for place in (self.root, self.own) if place]
        return any(is_below(folder, one) or is_below(one, folder) for one in mine)

    def is_outside(self, place: str) -> bool:
        """Whether somebody else may read what is written to a path without links after the run."""
        if place.startswith(_SYSTEM) or "/__pycache__" in place:
            return False
        if is_below(place, self.folder) or _without_suffix(place) in self.files:
            return False
        if is_below(place, self.root) or (self.own and is_below(place, self.own)):
            return True
        return not any(is_below(place, folder) for folder in (*self.temporary, *self.folders))


def _without_suffix(place: str) -> str:
    """The file that a journal of SQLite belongs to; any other file is its own."""
    for suffix in ("-journal", "-wal", "-shm"):
        place = place.removesuffix(suffix)
    return place


def is_below(place: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it."""
    return place == folder or place.startswith(f"{folder.rstrip(os.sep)}{os.sep}")
