"""The folders that proofs work in: below the project, removed at the end, cleared after a crash.

Certificates lie elsewhere: whoever commits those has no sandbox among them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from setpoint import edge
from setpoint.errors import NOTHING_STARTED, PermanentError
from setpoint.prove.servers import stop_leftover_server

_WORK = Path(".setpoint") / "prove"
PIPELINES, COMMANDS = _WORK / "pipelines", _WORK / "commands"
_OWNER, _KEPT = "owner.json", "kept"


@contextmanager
def proof_folder(root: Path, subject: str, *, keep: bool = False) -> Iterator[Path]:
    """A new folder for one proof; what proofs that were killed have left is removed first."""
    parent = root / PIPELINES
    clear(parent)
    safe = "".join(letter if letter.isalnum() else "_" for letter in subject)[:40]
    folder = parent / f"{safe}-{edge.new_attempt_id()}"
    try:
        # It will hold rows of production.
        folder.mkdir(mode=0o700, parents=True)
        owner = [*edge.process_identity(), made_here(folder)]
        (folder / _OWNER).write_text(json.dumps(owner), encoding="utf-8")
        if keep:
            (folder / _KEPT).touch()
    except OSError as error:
        raise PermanentError(
            "SP-V03",
            f"The sandbox {folder} could not be made: {error.strerror or error}.",
            why="A proof writes there instead of to production.",
            state=NOTHING_STARTED,
            next="Make room, or make the folder writable.",
        ) from error
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):
                # Only as far as nothing else is there: another proof, the state of a command.
                for empty in (parent, *parent.parents[:2]):
                    empty.rmdir()


def write_whole(file: Path, text: str, *, lasting: bool = False) -> None:
    """A file that is there as a whole or not at all; with `lasting`, also after a power failure."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    with beside.open("wb") as out:
        # Texts of tables may hold half of a character pair, which no encoding takes.
        out.write(text.encode("utf-8", "replace"))
        if lasting:
            out.flush()
            os.fsync(out.fileno())
    beside.replace(file)


def clear(parent: Path) -> None:
    """Remove the folders of proofs whose process is gone, unless they are to be kept."""
    for folder in parent.iterdir() if parent.is_dir() else ():
        if (folder / _KEPT).exists() or not folder.is_dir():
            continue
        try:
            host, pid, started, made = json.loads((folder / _OWNER).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # it is being made right now, or is not ours
        if is_made_here(folder, made) and edge.is_alive(host, pid, started) is False:
            stop_leftover_server(folder)
            shutil.rmtree(folder, ignore_errors=True)


def made_here(folder: Path) -> str:
    """A mark in a folder that says who has made it: one that came with a clone has none."""
    return edge.signature(f"folder {folder.resolve()}")


def is_made_here(folder: Path, mark: object) -> bool:
    """Whether this user has made the folder, on this machine."""
    return edge.is_signed(f"folder {folder.resolve()}", mark)
