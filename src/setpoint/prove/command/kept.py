"""The state before a proof: kept on disk until it is restored, whatever becomes of the prover.

Everything is kept first; then a marker is written, and only then may a command run. As long as the
marker is there, the places may be in any state, and `restore` brings them back. It goes when every
place was compared with what was kept. Without a marker nothing has been touched.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from setpoint import edge
from setpoint.errors import (
    NOTHING_STARTED,
    PermanentError,
    SetpointError,
    TransientError,
    UsageError,
    words_of,
)
from setpoint.prove.command.places import Place
from setpoint.prove.folders import is_made_here, made_here, write_whole

MARKER = "restore.json"
_RUNNING = "running.jsonl"
_FORMAT = 2
UNDER_WAY, NOT_OURS = "SP-V25", "SP-V29"


@dataclass(frozen=True)
class Kept:
    """A folder with the kept states of some places."""

    folder: Path
    places: tuple[Place, ...]

    def of(self, place: Place) -> Path:
        return self.folder / "before" / place.name

    def reset(self) -> None:
        """Bring everything back for the next trial."""
        for place in self.places:
            place.reset(self.of(place))

    def restore(self, copies: Sequence[Place] = ()) -> None:
        """Bring everything back exactly, remove copies, and forget about it.

        One place that cannot be brought back keeps no other from it; then all is remembered.
        """
        failures: list[PermanentError] = []
        for place in self.places:
            try:
                place.restore(self.of(place))
            except Exception as error:
                failures.append(_not_restored(place.label, self.folder, error))
        for copy in copies:
            try:
                copy.discard()
            except Exception as error:
                failures.append(_not_removed(copy.label, self.folder, error))
        if failures:
            raise _together(failures)
        (self.folder / MARKER).unlink(missing_ok=True)


@contextmanager
def keeping(
    folder: Path, originals: Sequence[Place], chosen: Mapping[str, Place], here: Path
) -> Iterator[Kept]:
    """Keep the state of the places that a command will write; at the end all is as it was.

    `originals` are what the user named; `chosen` are what the command works on, by name: the
    originals themselves, or copies of them.
    """
    own = [place for place in originals if chosen[place.name] is place]
    copies = [chosen[place.name] for place in originals if place not in own]
    host, pid, started = edge.process_identity()
    marker = {
        "format": _FORMAT,
        "process": [host, pid, started],
        "here": str(here),
        "places": [],
        "copies": [_spec(place) for place in copies],
        "labels": [place.label for place in originals],
        "identities": [place.identity for place in originals],
        "made": made_here(folder),
    }
    if not marker["made"]:
        raise _no_key()
    folder.mkdir(parents=True, mode=0o700)
    kept = Kept(folder, tuple(chosen.values()))
    write_whole(folder / MARKER, json.dumps(marker), lasting=True)
    try:
        for place in originals:
            if (copy := chosen[place.name]) is not place:
                with _keeping(place):
                    copy.fill(place)
        for place in kept.places:
            with _keeping(place):
                place.keep(kept.of(place))
        os.sync()  # a power failure must not take the copies and leave what the command did
        known = {**marker, "places": [_spec(place) for place in own]}
        write_whole(folder / MARKER, json.dumps(known), lasting=True)
        yield kept
    finally:
        from setpoint.spark.session import uninterrupted

        with uninterrupted():
            complete = json.loads((folder / MARKER).read_text(encoding="utf-8"))["places"]
            Kept(folder, tuple(own) if complete else ()).restore(copies)


def remember(folder: Path, pid: int) -> None:
    """Write a process down that runs the command: it may outlive the prover."""
    with (folder / _RUNNING).open("a", encoding="utf-8") as file:
        file.write(json.dumps(edge.identity_of(pid)) + "\n")


def _end_left_running(folder: Path) -> None:
    """End the commands of a prover that was killed, before they write to what is restored."""
    file = folder / _RUNNING
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    for host, pid, started in (json.loads(line) for line in lines if line.endswith("]")):
        if edge.is_alive(host, pid, started):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            while edge.is_alive(host, pid, started):
                time.sleep(0.01)


def left_behind(root: Path) -> Iterator[Path]:
    """The folders of proofs that could not restore what they had kept."""
    if root.is_dir():
        for folder in sorted(root.iterdir()):
            if (folder / MARKER).is_file():
                yield folder


def restore_left(
    folder: Path, opened: Callable[[Sequence[str], Path], Sequence[Place]]
) -> tuple[str, ...]:
    """Restore what a proof that was killed has kept; the labels of what was restored."""
    try:
        marker: dict[str, Any] = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(
            "SP-V24",
            f"{folder} holds nothing to restore.",
            why="A proof that has restored everything leaves no folder to restore from.",
            state=NOTHING_STARTED,
            next="Give the folder that the message of the proof named.",
        ) from error
    except ValueError as error:
        raise _not_ours(folder) from error
    if not isinstance(marker, dict) or not is_made_here(folder, marker.get("made")):
        raise _not_ours(folder)
    host, pid, started = marker["process"]
    if edge.is_alive(host, pid, started) is not False:
        raise TransientError(
            UNDER_WAY,
            f"A proof of {', '.join(marker['labels'])} is under way: process {pid} on {host}.",
            why="Two proofs on the same tables would disturb each other.",
            state=NOTHING_STARTED,
            next="Wait for its end. If that machine is gone, restore there or remove "
            f"{folder / MARKER}",
        )
    if marker.get("format") != _FORMAT:
        raise _of_another_version(folder)
    _end_left_running(folder)
    here = Path(marker["here"])
    copies = tuple(opened(marker["copies"], here))
    Kept(folder, tuple(opened(marker["places"], here))).restore(copies)
    shutil.rmtree(folder, ignore_errors=True)
    return tuple(marker["labels"])


def identities_of(folder: Path) -> tuple[str, ...]:
    """What a proof that was left behind has kept, whatever names it had for it.

    As far as that can be read: the folder may not be ours.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        return tuple(str(name) for name in marker.get("identities", marker["labels"]))
    return ()


def _spec(place: Place) -> str:
    """A place as it is found again."""
    return f"{place.name}={place.label}"


@contextmanager
def _keeping(place: Place) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PermanentError(
            "SP-V28",
            f"The state of {place.label} could not be kept: {words_of(error)}",
            why="Without a copy it could not be brought back after the proof. The copy needs as "
            "much room as the table, below the project's folder.",
            state=NOTHING_STARTED,
            next="Make room, or make it readable. Or prove the command on a small copy.",
        ) from error


def _of_another_version(folder: Path) -> PermanentError:
    return PermanentError(
        "SP-V23",
        f"{folder} was kept by another version of setpoint.",
        why="What it holds is not read by guessing.",
        state="The tables are as the command left them; their state before the proof is kept.",
        next=f"Copy the files back by hand, from {folder / 'before'}, and remove "
        f"{folder / MARKER}. Or restore with that version: setpoint prove --restore {folder}",
    )


def _not_removed(label: str, folder: Path, error: Exception) -> PermanentError:
    told = f"{error.code}  {error.what}" if isinstance(error, SetpointError) else words_of(error)
    return PermanentError(
        "SP-V23",
        f"The copy {label} could not be removed: {told}",
        why="It belongs to the proof, and nobody else needs it.",
        state="The table that it is a copy of was only read.",
        next=f"Remove the cause, then: setpoint prove --restore {folder}",
    )


def _together(failures: Sequence[PermanentError]) -> PermanentError:
    first, *others = failures
    if not others:
        return first
    return PermanentError(
        "SP-V23",
        " ".join([first.what, *(error.what for error in others)]),
        why=first.why,
        state=first.state,
        next=first.next,
    )


def _not_ours(folder: Path) -> UsageError:
    return UsageError(
        NOT_OURS,
        f"{folder} was not made by this user on this machine.",
        why="It may have come with a clone, and restoring overwrites tables with what it holds.",
        state=NOTHING_STARTED,
        next="If a proof of yours made it, restore as the user and on the machine that ran it. "
        f"Otherwise remove it: rm -r {shlex.quote(str(folder))}",
    )


def _no_key() -> PermanentError:
    return PermanentError(
        NOT_OURS,
        f"{edge.home_dir()} cannot be written.",
        why="The key there says which kept tables are yours; a proof that is killed could not be "
        "restored without it.",
        state=NOTHING_STARTED,
        next="Make it writable, or name another folder: export SETPOINT_HOME=...",
    )


def _not_restored(label: str, folder: Path, error: Exception) -> PermanentError:
    why = "The command has changed it while it was proven."
    match error:
        case SetpointError(code="SP-V23"):
            what, why = error.what, error.why
        case SetpointError():
            what = f"{label} could not be restored: {error.code}  {error.what}"
        case _:
            what = f"{label} could not be restored: {words_of(error)}"
    return PermanentError(
        "SP-V23",
        what,
        why=why,
        state=f"It is as the command left it; its state before the proof is kept in {folder}.",
        next=f"Remove the cause, then: setpoint prove --restore {folder}",
    )
