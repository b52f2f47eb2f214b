"""What the kernel can be asked for: a filter whose answers another process gives (seccomp).

The filter is inherited by every process that is started under it, whatever it is written in, and
needs no privileges. Calls that only read never leave the kernel.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import re
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass

_SET_NO_NEW_PRIVS, _SET_CHILD_SUBREAPER, _SET_PDEATHSIG = 38, 36, 1
_FILTER, _NEW_LISTENER, _SPEC_ALLOW, _WAIT_KILLABLE = 1, 1 << 3, 1 << 2, 1 << 5
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1
# From here on a call that was looked at can go on.
_OLDEST = (5, 5)
_NOTICE = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
# Of a filter: load a word, jump if equal, jump if any bit is set, return.
_LOAD, _EQUAL, _ANY, _RETURN = 0x20, 0x15, 0x45, 0x06
_NR, _ARCH, _ARGUMENTS = 0, 4, 16
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class _Machine:
    """A processor: its mark in filters, the number of `seccomp`, and those of watched calls."""

    mark: int
    seccomp: int
    calls: Mapping[str, int]


_NEWER = {"openat2": 437, "fchmodat2": 452}
MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        317,
        {
            "connect": 42, "sendto": 44, "open": 2, "creat": 85, "openat": 257, "truncate": 76,
            "rename": 82, "renameat": 264, "renameat2": 316, "mkdir": 83, "mkdirat": 258,
            "rmdir": 84, "unlink": 87, "unlinkat": 263, "link": 86, "linkat": 265, "symlink": 88,
            "symlinkat": 266, "chmod": 90, "fchmodat": 268, "mknod": 133, "mknodat": 259,
            **_NEWER,
        },
    ),
    "aarch64": _Machine(
        0xC00000B7,
        277,
        {
            "connect": 203, "sendto": 206, "openat": 56, "truncate": 45, "renameat": 38,
            "renameat2": 276, "mkdirat": 34, "unlinkat": 35, "linkat": 37, "symlinkat": 36,
            "fchmodat": 53, "mknodat": 33, **_NEWER,
        },
    ),
}  # fmt: skip
# Calls that only count with certain arguments: which one, and with which bits (any, if empty).
_CONDITIONS = {"open": (1, WRITING), "openat": (2, WRITING), "sendto": (4, 0xFFFFFFFF)}


@dataclass(frozen=True)
class Notice:
    """A call that waits for an answer."""

    id: int
    pid: int
    call: str
    arguments: tuple[int, ...]


def machine() -> _Machine | None:
    """The processor of this machine, if it can be watched here."""
    if sys.platform != "linux" or _release() < _OLDEST:
        return None
    return MACHINES.get(platform.machine())


def _release() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return (int(found[1]), int(found[2])) if found else (0, 0)


def filter_of(one: _Machine) -> bytes:
    """The filter as the kernel takes it: everything passes but the watched calls."""
    program: list[tuple[int, int, int, int]] = []
    for call, number in one.calls.items():
        if call in _CONDITIONS:
            argument, bits = _CONDITIONS[call]
            low = _ARGUMENTS + 8 * argument
            words = [low, low + 4] if bits == 0xFFFFFFFF else [low]
            tests = [
                step
                for place in words
                for step in ((_LOAD, 0, 0, place), (_ANY, 0, 1, bits), (_RETURN, 0, 0, _NOTIFY))
            ]
            program.append((_EQUAL, 0, len(tests) + 1, number))
            program += [*tests, (_RETURN, 0, 0, _ALLOW)]
        else:
            program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
    program.append((_RETURN, 0, 0, _ALLOW))
    head = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, one.mark),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _NR),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in [*head, *program])


def put_under_watch() -> int:
    """Put this thread and all that it starts under watch; the descriptor that notices come from.

    Raises OSError where the system does not permit it.
    """
    one = machine()
    if one is None:
        raise OSError("there is no filter for this system")
    program = filter_of(one)
    held = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(
        struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(held)), 16
    )
    _control(_SET_NO_NEW_PRIVS, 1)
    for flags in (_NEW_LISTENER | _SPEC_ALLOW | _WAIT_KILLABLE, _NEW_LISTENER | _SPEC_ALLOW):
        found: int = _library().syscall(one.seccomp, _FILTER, flags, header)
        if found >= 0:
            return found
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def adopt_orphans() -> None:
    """Become the parent of processes whose own parent ends before them."""
    _control(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int) -> None:
    """Get a signal when the parent of this process is gone."""
    _control(_SET_PDEATHSIG, number)


def receive(listener: int) -> Notice | None:
    """The next call that waits; None when it no longer does."""
    buffer = bytearray(_NOTICE.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except OSError:
        return None
    name, pid, _, number, _, _, *arguments = _NOTICE.unpack(buffer)
    one = machine()
    calls = {value: call for call, value in one.calls.items()} if one else {}
    return Notice(name, pid, calls.get(number, str(number)), tuple(arguments))


def answer(listener: int, notice: Notice, error: int = 0) -> None:
    """Let a call pass, or have it fail with an error."""
    reply = _ANSWER.pack(notice.id, 0, -error, 0 if error else _CONTINUE)
    try:
        fcntl.ioctl(listener, _SEND, bytearray(reply))
    except OSError:
        return  # whoever called is gone


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _control(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    if _library().prctl(option, ctypes.c_ulong(value), zero, zero, zero) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
