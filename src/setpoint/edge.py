"""The only place that reads the clock, entropy and the identity of this process and its user.

Everything else gets these values passed in, so that a run can be repeated and a test can say
what time it is.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import time
from contextlib import suppress
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


def home_dir() -> Path:
    """The folder of what setpoint keeps for its user: SETPOINT_HOME or `~/.cache/setpoint`."""
    configured = os.environ.get("SETPOINT_HOME", "").strip()
    return Path(configured).expanduser() if configured else Path.home() / ".cache" / "setpoint"


def signature(text: str) -> str:
    """What this user alone can write under a text, here; "" when the key cannot be kept.

    Files below a project may have come with a clone. One that carries a signature was written
    by this user, on this machine.
    """
    key = _own_key()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest() if key else ""


def is_signed(text: str, signed: object) -> bool:
    """Whether this user has put the signature under the text."""
    known = signature(text)
    return bool(known) and isinstance(signed, str) and hmac.compare_digest(known, signed)


def _own_key() -> bytes:
    file = home_dir() / "key"
    with suppress(OSError, RuntimeError):
        if key := _private(file):
            return key
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".key-{secrets.token_hex(8)}")
        held = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(held, "wb") as out:
            out.write(secrets.token_bytes(32))
        try:
            # Of several processes at once, the first one counts.
            os.link(draft, file)
        except FileExistsError:
            if not _private(file):
                # One that others can read, or have put there, is worth nothing.
                os.replace(draft, file)
        draft.unlink(missing_ok=True)
        return _private(file)
    return b""


def _private(file: Path) -> bytes:
    """What is in a file that belongs to this user and that nobody else can read."""
    with suppress(FileNotFoundError), file.open("rb") as held:
        state = os.fstat(held.fileno())
        if state.st_mode & 0o077 == 0 and (os.name == "nt" or state.st_uid == os.geteuid()):
            return held.read()
    return b""


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
