"""A file or folder, kept byte by byte and brought back byte by byte.

What did not change since it was kept is not written again: a file is the same if the kernel says
so (inode, size and the time of its last change of any sort, which nobody can set).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from setpoint.prove.folders import write_whole

_CONTENT, _ABSENT, _MARKS = "content", "absent", "marks.json"

Mark = tuple[int, int, int]


def keep(place: Path, kept: Path, *, links: bool = False) -> None:
    """Copy a file or folder, or remember that there is none.

    With `links` files that are never changed once they are written are not copied.
    """
    kept.mkdir(parents=True)
    if not os.path.lexists(place):
        (kept / _ABSENT).touch()
        return
    content = kept / _CONTENT
    if place.is_dir():
        shutil.copytree(
            place, content, symlinks=True, copy_function=_link if links else shutil.copy2
        )
    else:
        shutil.copy2(place, content, follow_symlinks=False)
    _save_marks(kept, {name: _mark(place / name) for name in _files(place)})


def content(kept: Path) -> Path | None:
    """The copy itself; None when there was nothing."""
    return None if (kept / _ABSENT).exists() else kept / _CONTENT


def restore(kept: Path, place: Path) -> None:
    """Bring a file or folder back to what was kept; a second call repairs a broken first one."""
    source = content(kept)
    if source is None:
        remove(place)
        return
    marks = _marks(kept)
    wanted = set(_files(source))
    folders = [source / name for name in _folders(source)]
    if source.is_dir() and not source.is_symlink():
        if place.is_symlink() or not place.is_dir():
            remove(place)
        place.mkdir(parents=True, exist_ok=True)
        _remove_others(source, place)
        for folder in folders:
            (place / folder.relative_to(source)).mkdir(exist_ok=True)
    elif place.is_dir() and not place.is_symlink():
        remove(place)
    changed = [name for name in sorted(wanted) if _mark(place / name) != marks.get(name)]
    for name in changed:
        _copy(source / name, place / name)
    # From the leaves up: what is done below a folder changes its times.
    for folder in reversed(folders):
        shutil.copystat(folder, place / folder.relative_to(source))
    if source.is_dir() and not source.is_symlink():
        shutil.copystat(source, place)
    if changed:
        _save_marks(kept, {**marks, **{name: _mark(place / name) for name in changed}})


def _remove_others(source: Path, place: Path) -> None:
    """Remove what was not there, and what was of another sort."""
    for name in sorted([*_files(place), *_folders(place)], reverse=True):
        was, now = source / name, place / name
        same_sort = os.path.lexists(was) and _is_folder(was) == _is_folder(now)
        if os.path.lexists(now) and not same_sort:
            remove(now)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another disk
        shutil.copy2(source, target)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.setpoint-restored")
    beside.unlink(missing_ok=True)
    shutil.copy2(source, beside, follow_symlinks=False)
    os.replace(beside, target)


def remove(place: Path) -> None:
    """Remove a file or folder, if there is one."""
    if _is_folder(place):
        shutil.rmtree(place)
    elif os.path.lexists(place):
        place.unlink()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _files(root: Path) -> Iterator[str]:
    """The relative names of all files and links; that of a lone file is `.`."""
    if not _is_folder(root):
        if os.path.lexists(root):
            yield "."
        return
    for folder, folders, files in os.walk(root):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in (*files, *links):
            yield os.path.relpath(os.path.join(folder, name), root)


def _folders(root: Path) -> Iterator[str]:
    """The relative names of all folders below, parents first."""
    for folder, folders, _ in os.walk(root):
        for name in sorted(folders):
            if not os.path.islink(os.path.join(folder, name)):
                yield os.path.relpath(os.path.join(folder, name), root)


def _mark(path: Path) -> Mark | None:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_size, found.st_ctime_ns


def _marks(kept: Path) -> dict[str, Mark | None]:
    try:
        found = json.loads((kept / _MARKS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # then everything is copied
    return {name: tuple(mark) if mark else None for name, mark in found.items()}


def _save_marks(kept: Path, marks: dict[str, Mark | None]) -> None:
    write_whole(kept / _MARKS, json.dumps(marks))
