"""A call that waits for an answer, as what it would do: the paths it changes, where it connects."""

from __future__ import annotations

import os
from dataclasses import dataclass

from setpoint.prove.watch.kernel import WRITING, Notice
from setpoint.prove.watch.sockets import Address

_LONGEST, _ADDRESS = 4096, 128
_HERE = -100
_NEVER_FOLLOWED = (
    "unlink", "unlinkat", "rmdir", "rename", "renameat", "renameat2", "symlink", "symlinkat",
    "link", "linkat", "mkdir", "mkdirat", "mknod", "mknodat",
)  # fmt: skip
# Where a call has its paths: pairs of the argument with the folder (none: the current one) and
# the argument with the name.
_PATHS: dict[str, tuple[tuple[int | None, int], ...]] = {
    "open": ((None, 0),), "creat": ((None, 0),), "openat": ((0, 1),), "openat2": ((0, 1),),
    "truncate": ((None, 0),), "chmod": ((None, 0),), "fchmodat": ((0, 1),), "fchmodat2": ((0, 1),),
    "mkdir": ((None, 0),), "mkdirat": ((0, 1),), "rmdir": ((None, 0),), "mknod": ((None, 0),),
    "mknodat": ((0, 1),), "unlink": ((None, 0),), "unlinkat": ((0, 1),),
    "rename": ((None, 0), (None, 1)), "renameat": ((0, 1), (2, 3)), "renameat2": ((0, 1), (2, 3)),
    "link": ((None, 1),), "linkat": ((2, 3),), "symlink": ((None, 1),), "symlinkat": ((1, 2),),
}  # fmt: skip


# Calls that change nothing where nothing is, and one that changes nothing where something is.
_OF_NOTHING = ("unlink", "unlinkat", "rmdir", "truncate", "chmod", "fchmodat", "fchmodat2")
_MAKING = ("mkdir", "mkdirat")


@dataclass(frozen=True)
class Doing:
    """What a call would do: change files, or connect."""

    paths: tuple[str, ...] = ()
    address: Address | None = None


def doing_of(notice: Notice) -> Doing:
    """What a call would do; raises OSError when its process is gone."""
    arguments = notice.arguments
    if notice.call == "connect":
        return Doing(address=_address(notice.pid, arguments[1], arguments[2]))
    if notice.call == "sendto":
        return Doing(address=_address(notice.pid, arguments[4], arguments[5]))
    if notice.call == "openat2" and not _flags(notice) & WRITING:
        return Doing()
    follow = notice.call not in _NEVER_FOLLOWED
    paths = []
    for folder, name in _PATHS.get(notice.call, ()):
        text = os.fsdecode(_memory(notice.pid, arguments[name], _LONGEST).partition(b"\0")[0])
        start = None if folder is None else arguments[folder]
        paths.append(_resolved(notice.pid, start, text, follow))
    return Doing(tuple(path for path in paths if _changes(notice.call, path)))


def _changes(call: str, path: str) -> bool:
    there = os.path.lexists(path)
    return not ((call in _OF_NOTHING and not there) or (call in _MAKING and there))


def _resolved(pid: int, folder: int | None, text: str, follow: bool) -> str:
    if not os.path.isabs(text):
        number = None if folder is None else _signed(folder)
        start = "cwd" if number in (None, _HERE) else f"fd/{number}"
        text = os.path.join(os.readlink(f"/proc/{pid}/{start}"), text)
    elif text.startswith("/proc/self/"):
        text = f"/proc/{pid}/{text.removeprefix('/proc/self/')}"
    if follow:
        return os.path.realpath(text)
    parent, name = os.path.split(text.rstrip("/") or "/")
    return os.path.join(os.path.realpath(parent), name)


def _signed(value: int) -> int:
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low


def _address(pid: int, place: int, length: int) -> Address:
    return Address.read(_memory(pid, place, min(length & 0xFFFFFFFF, _ADDRESS)))


def _flags(notice: Notice) -> int:
    return int.from_bytes(_memory(notice.pid, notice.arguments[2], 8), "little")


def _memory(pid: int, place: int, length: int) -> bytes:
    """Bytes of another process, as far as they are there: a text may end at the end of a page."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        found = b""
        while len(found) < length:
            page = 4096 - (place + len(found)) % 4096
            memory.seek(place + len(found))
            try:
                part = memory.read(min(page, length - len(found)))
            except OSError:
                if found:
                    break
                raise
            found += part
            if not part or (b"\0" in part and length == _LONGEST):
                break
    return found
