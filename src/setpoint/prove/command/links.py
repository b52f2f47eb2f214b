"""Symbolic links on the way to a place and inside of it: followed, or a reason to refuse."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from setpoint.prove.command.entries import ROOT, entry_at, is_folder, names_of

# As many as the kernel follows.
_MOST = 40


def resolved(place: Path) -> tuple[Path, tuple[Path, ...]]:
    """Where a path leads, and the links that it goes through; what is there need not exist."""
    waiting = list(reversed(Path(os.path.abspath(place)).parts[1:]))
    here = Path(os.sep)
    links: list[Path] = []
    while waiting:
        part = waiting.pop()
        if part == os.pardir:
            here = here.parent
            continue
        step = here / part
        if not step.is_symlink():
            here = step
            continue
        if len(links) == _MOST:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(place))
        links.append(step)
        text = Path(os.readlink(step))
        here = Path(os.sep) if text.is_absolute() else here
        waiting += reversed([item for item in text.parts if item != os.sep])
    return here, tuple(links)


def is_below(place: Path, folder: Path) -> bool:
    """Whether a place is a folder or lies in it; both without links."""
    return place == folder or folder in place.parents


def stays_inside(link: Path, root: Path) -> bool:
    """Whether a link below a folder leads to something below it, wherever the folder lies."""
    text = os.readlink(link)
    if os.path.isabs(text):
        return False
    lexically = Path(os.path.normpath(link.parent / text))
    return is_below(lexically, root) and is_below(resolved(link)[0], root)


def why_not_restorable(place: Path, covered: Sequence[Path] = ()) -> str:
    """Why a change of what is at a place could not be undone exactly; empty when it can.

    `covered` are other places, without links, that are brought back as well.
    """
    try:
        root, _ = resolved(place)
    except OSError as error:
        return f"the links on its way cannot be followed: {error.strerror}"
    for name in names_of(root):
        path = root / name
        if told := _why_not_entry(path, root, covered):
            return f"{'it' if name == ROOT else name} {told}"
    return _why_not_names(root)


def _why_not_entry(path: Path, root: Path, covered: Sequence[Path]) -> str:
    entry = entry_at(path)
    if entry is None:
        return ""
    if entry.sort == "other":
        return "is neither a file nor a folder nor a link"
    if entry.sort == "link":
        try:
            end, _ = resolved(path)
        except OSError as error:
            return f"is a link that cannot be followed: {error.strerror}"
        if not any(is_below(end, folder) for folder in (root, *covered)):
            return (
                f"is a link to {end}, where a change would stay; name that as well (--state {end})"
            )
    if os.geteuid() != 0 and entry.owner[0] != os.geteuid():
        return "belongs to another user, to whom only root could give it back"
    return ""


def _why_not_names(root: Path) -> str:
    """Files with a name elsewhere: written in place they change there, replaced they part."""
    seen: dict[tuple[int, int], list[str]] = {}
    wanted: dict[tuple[int, int], int] = {}
    for name in _files(root):
        info = (root / name).lstat()
        if info.st_nlink > 1:
            seen.setdefault((info.st_dev, info.st_ino), []).append(name)
            wanted[info.st_dev, info.st_ino] = info.st_nlink
    for file, names in seen.items():
        if len(names) < wanted[file]:
            which = "it" if names[0] == ROOT else names[0]
            return f"{which} has another name elsewhere (a hard link), where a change would be seen"
    return ""


def _files(root: Path) -> Iterator[str]:
    return (n for n in names_of(root) if not (root / n).is_symlink() and not is_folder(root / n))
