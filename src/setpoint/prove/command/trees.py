"""A file or folder, kept byte by byte, brought back, and compared before its copy may go.

What is kept is what lies at the end of all links on the way, and the links themselves. What did
not change since it was kept is not written again: a file is the same if the kernel says so. A
restore that is `exact` does not believe that: it reads everything again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from setpoint.errors import NOTHING_STARTED, PermanentError, TransientError
from setpoint.prove.command.copying import copy
from setpoint.prove.command.entries import (
    Entry,
    Mark,
    dress,
    entries_of,
    entry_at,
    mark_of,
    open_up,
    remove,
    seal_of,
)
from setpoint.prove.command.links import is_below, resolved
from setpoint.prove.folders import write_whole

_CONTENT, _STATE, _MARKS = "content", "tree.json", "marks.json"
_NAMED = 3


@dataclass(frozen=True)
class _Tree:
    """A place as it was: the links on the way to it, where they led, and all that was there."""

    place: Path
    real: Path
    links: Mapping[str, Entry]
    entries: Mapping[str, Entry]
    """Empty when nothing was there."""
    missing: Path | None = None
    """The topmost folder on the way that was not there."""

    def write(self, kept: Path) -> None:
        known = {
            "place": str(self.place),
            "real": str(self.real),
            "links": {name: entry.as_dict() for name, entry in self.links.items()},
            "entries": {name: entry.as_dict() for name, entry in self.entries.items()},
            "missing": str(self.missing) if self.missing else None,
        }
        write_whole(kept / _STATE, json.dumps(known, ensure_ascii=True), lasting=True)

    @classmethod
    def read(cls, kept: Path) -> _Tree:
        known = json.loads((kept / _STATE).read_text(encoding="utf-8"))
        return cls(
            Path(known["place"]),
            Path(known["real"]),
            {name: Entry.from_dict(item) for name, item in known["links"].items()},
            {name: Entry.from_dict(item) for name, item in known["entries"].items()},
            Path(known["missing"]) if known["missing"] else None,
        )


def keep(place: Path, kept: Path) -> None:
    """Copy a file or folder, or remember that there is none; both with the links on the way."""
    kept.mkdir(parents=True, mode=0o700)
    real, links = resolved(place)
    found = entries_of(real)
    marks = {name: mark_of(real / name) for name in found}
    if found:
        copy(real, kept / _CONTENT)
    sealed = {
        name: replace(entry, seal=seal_of(kept / _CONTENT / name))
        if entry.sort == "file"
        else entry
        for name, entry in found.items()
    }
    # The copy is what a table is brought back from: it is believed when it was compared.
    if entries_of(real, sealed=True) != sealed:
        raise _changed_meanwhile(place)
    above = {str(link): entry for link in links if (entry := entry_at(link)) is not None}
    _Tree(place, real, above, sealed, _missing(real)).write(kept)
    _save_marks(kept, marks)


def content(kept: Path) -> Path | None:
    """The copy itself; None when there was nothing."""
    return kept / _CONTENT if os.path.lexists(kept / _CONTENT) else None


def restore(kept: Path, *, exact: bool = False) -> None:
    """Bring a place back to what was kept; a second call repairs a first one that was ended.

    With `exact` everything is compared afterwards, and what still differs is raised.
    """
    tree = _Tree.read(kept)
    _bring_back(tree, kept, _marks(kept))
    if exact and differences(kept):
        _bring_back(tree, kept, {})
        if left := differences(kept):
            raise _not_as_it_was(tree.place, left)


def differences(kept: Path) -> list[str]:
    """What is not as it was when it was kept, in words; every file is read."""
    tree = _Tree.read(kept)
    told = [f"{name} {words}" for name, entry in tree.links.items()
            if (words := entry.difference(entry_at(Path(name))))]  # fmt: skip
    now = entries_of(tree.real, sealed=True)
    for name in sorted({*tree.entries, *now}):
        path = tree.real / name
        if (entry := tree.entries.get(name)) is None:
            told.append(f"{path} was not there")
        elif words := entry.difference(now.get(name)):
            told.append(f"{path} {words}")
    return told


def pointed_elsewhere(kept: Path) -> str:
    """A link on the way to the place that leads elsewhere now, in words; empty without one."""
    tree = _Tree.read(kept)
    for name, entry in tree.links.items():
        now = entry_at(Path(name))
        if now is not None and now.sort == "link" and now.link != entry.link:
            return f"{name} was a link to {entry.link} and is one to {now.link}"
    return ""


def _bring_back(tree: _Tree, kept: Path, marks: Mapping[str, Mark]) -> None:
    if not tree.entries:
        remove(tree.real)
        _remove_empty(tree)
    else:
        _bring_back_entries(tree, kept, marks)
    for name, entry in tree.links.items():
        _bring_back_link(Path(name), entry, tree.place)


def _bring_back_entries(tree: _Tree, kept: Path, marks: Mapping[str, Mark]) -> None:
    tree.real.parent.mkdir(parents=True, exist_ok=True)
    _beside(tree.real).unlink(missing_ok=True)
    open_up(tree.real)
    now = entries_of(tree.real)
    for name in reversed(list(now)):
        was = tree.entries.get(name)
        if was is None or was.sort != now[name].sort:
            remove(tree.real / name)
    changed = set()
    for name, entry in tree.entries.items():
        path = tree.real / name
        if entry.sort == "folder":
            path.mkdir(exist_ok=True)
        # What has no mark counts as changed.
        elif (mark := marks.get(name)) is None or mark_of(path) != mark:
            changed.add(name)
            _write(path, entry, kept / _CONTENT / name)
    for name, entry in tree.entries.items():
        first = tree.real / entry.twin
        if entry.twin not in ("", name) and not os.path.samefile(first, tree.real / name):
            _put(tree.real / name, partial(os.link, first))
            changed.add(name)
    # From the leaves up: what is done below a folder changes its time.
    for name, entry in reversed(list(tree.entries.items())):
        if name in changed or entry_at(tree.real / name) != replace(entry, seal="", twin=""):
            dress(tree.real / name, entry)
    _save_marks(kept, {name: mark_of(tree.real / name) for name in tree.entries})


def _write(path: Path, entry: Entry, source: Path) -> None:
    """A file or link as it was; there as a whole or not at all."""
    if entry.sort == "link":
        _put(path, lambda beside: beside.symlink_to(entry.link))
    else:
        _put(path, lambda beside: shutil.copyfile(source, beside))


def _put(path: Path, make: Callable[[Path], object]) -> None:
    beside = _beside(path)
    beside.unlink(missing_ok=True)
    make(beside)
    os.replace(beside, path)
    beside.unlink(missing_ok=True)  # two names of one file are not replaced by each other


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:200]}.setpoint-restored")


def _bring_back_link(path: Path, entry: Entry, place: Path) -> None:
    now = entry_at(path)
    if now == entry:
        return
    if now is not None and now.sort != "link":
        if path != place:
            raise _not_as_it_was(place, [f"{path} was a link to {entry.link} and is a {now.sort}"])
        remove(path)
    if now is None or now.link != entry.link:
        path.parent.mkdir(parents=True, exist_ok=True)
        _put(path, lambda beside: beside.symlink_to(entry.link))
    dress(path, entry)


def _remove_empty(tree: _Tree) -> None:
    """Remove the folders on the way that were not there, as far as nothing else is in them."""
    for folder in tree.real.parents:
        if tree.missing is None or not is_below(folder, tree.missing):
            return
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return


def _missing(real: Path) -> Path | None:
    gone = [folder for folder in real.parents if not folder.exists()]
    return gone[-1] if gone else None


def _marks(kept: Path) -> dict[str, Mark]:
    try:
        found = json.loads((kept / _MARKS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # then everything is copied
    return {name: (mark[0], mark[1], mark[2], mark[3]) for name, mark in found.items() if mark}


def _save_marks(kept: Path, marks: Mapping[str, Mark | None]) -> None:
    write_whole(kept / _MARKS, json.dumps(marks))


def _changed_meanwhile(place: Path) -> TransientError:
    return TransientError(
        "SP-V28",
        f"{place} was changed while its state was copied.",
        why="Somebody else writes to it. A proof would undo that.",
        state=NOTHING_STARTED,
        next="Wait until nobody writes to it, or prove the command on a copy.",
    )


def _not_as_it_was(place: Path, left: list[str]) -> PermanentError:
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return PermanentError(
        "SP-V23",
        f"{place} could not be restored: {'; '.join(left[:_NAMED])}{more}.",
        why="Everything was compared with what was kept before the proof, file by file.",
        state="What it was before the proof is kept.",
        next="Remove the cause and restore again.",
    )
