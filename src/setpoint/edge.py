"""The only place that reads the clock, entropy and the identity of this process.

Everything else gets these values passed in, so that a run can be repeated and a test can say
what time it is.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from datetime import datetime, timezone
from pathlib import Path


def utc_now() -> datetime:
    """The wall clock, in UTC; read when a command starts, never inside a pipeline."""
    return datetime.now(timezone.utc)


def pause(seconds: float) -> None:
    """Wait: the one pause between two looks at something that others change."""
    time.sleep(seconds)


def chance() -> float:
    """A number from 0 to 1 that no two processes share, to keep their pauses apart."""
    return secrets.randbelow(2**20) / 2**20


def new_attempt_id() -> str:
    """A name for one attempt that no other attempt has: 16 lowercase hexadecimal digits."""
    return secrets.token_hex(8)


def process_identity() -> tuple[str, int, str]:
    """Host, process id and start mark of this process, enough for `is_alive` to find it later."""
    pid = os.getpid()
    return socket.gethostname(), pid, _start_mark(pid)


def identity_of(pid: int) -> tuple[str, int, str]:
    """The same for another process of this host."""
    return socket.gethostname(), pid, _start_mark(pid)


def is_alive(host: str, pid: int, started: str) -> bool | None:
    """Whether the process of a recorded identity still runs; None when it cannot be told.

    It cannot be told for a process of another host. Process ids are reused, so a process with
    the same id but another start mark is not the recorded one.
    """
    if host != socket.gethostname():
        return None
    if pid <= 0:
        return False
    if os.name == "nt":
        # Signal 0 would end the process there instead of asking after it.
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it exists and belongs to somebody else
    if _is_zombie(pid):
        return False
    mark = _start_mark(pid)
    return not (started and mark) or mark == started


def _start_mark(pid: int) -> str:
    """The kernel's start time of a process with the boot it belongs to, or "" without /proc."""
    fields = stat_fields(pid)
    if len(fields) < 20:
        return ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return f"{boot[:8]}-{fields[19]}"


def _is_zombie(pid: int) -> bool:
    fields = stat_fields(pid)
    return bool(fields) and fields[0] in ("Z", "X")


def stat_fields(pid: int) -> list[str]:
    """What the kernel tells about a process, from its state on; empty when it is gone."""
    # The command name in parentheses may itself hold blanks and parentheses.
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()
