"""Copies that are apart from what they are copies of: no link in them leads out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from setpoint.errors import NOTHING_STARTED, PermanentError
from setpoint.prove.command.links import resolved, stays_inside


def copy(source: Path, target: Path) -> None:
    """Copy a file or folder so that nothing in the copy leads out of it.

    Links that stay inside are copied as links; all others become what they lead to.
    """
    real, _ = resolved(source)
    _copy_below(real, target, real, ())


def _copy_below(source: Path, target: Path, root: Path, above: tuple[Path, ...]) -> None:
    if source.is_symlink():
        if stays_inside(source, root):
            target.symlink_to(os.readlink(source))
            return
        source = root = resolved(source)[0]
    if source.is_dir():
        if source in above:
            raise _circle(source)
        target.mkdir(parents=True, exist_ok=True)
        with os.scandir(source) as entries:
            for entry in sorted(entries, key=lambda item: item.name):
                below = (*above, source)
                _copy_below(Path(entry.path), target / entry.name, root, below)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    shutil.copystat(source, target)


def _circle(folder: Path) -> PermanentError:
    return PermanentError(
        "SP-V28",
        f"{folder} cannot be copied: a link in it leads back to it.",
        why="A copy has to be apart from what it is a copy of.",
        state=NOTHING_STARTED,
        next="Prove the command on a copy of your own, without that link.",
    )
