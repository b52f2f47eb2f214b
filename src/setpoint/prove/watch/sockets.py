"""Who listens at the other end of a connection: a process of the proof, or somebody else."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from setpoint import edge

_NAMES = 53
# Services that answer questions about names and users, and take nothing.
_LOOKUPS = (
    "/run/nscd/", "/var/run/nscd/", "/run/systemd/userdb/", "/run/systemd/resolve/",
    "/var/lib/sss/", "/run/dbus/",
)  # fmt: skip


@dataclass(frozen=True)
class Address:
    """Where somebody connects to: a host and port, or the path of a socket."""

    kind: Literal["host", "path", "none"]
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.kind == "path":
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def read(cls, raw: bytes) -> Address:
        """An address as the kernel is given it; one that leads nowhere is of the kind `none`."""
        if len(raw) < 2:
            return cls("none")
        (family,) = struct.unpack_from("=H", raw)
        if family == socket.AF_INET and len(raw) >= 8:
            return cls(
                "host", socket.inet_ntop(family, raw[4:8]), *struct.unpack_from(">H", raw, 2)
            )
        if family == socket.AF_INET6 and len(raw) >= 24:
            host = socket.inet_ntop(family, raw[8:24]).removeprefix("::ffff:")
            return cls("host", host, *struct.unpack_from(">H", raw, 2))
        if family == socket.AF_UNIX:
            name = raw[2:]
            if name[:1] == b"\0":
                return cls("path", "@" + os.fsdecode(name[1:].rstrip(b"\0")))
            return cls("path", os.fsdecode(name.partition(b"\0")[0]))
        return cls("none")

    @classmethod
    def of(cls, given: object) -> Address:
        """An address as Python is given it."""
        if isinstance(given, (str, bytes)):
            return cls("path", os.fsdecode(given))
        if isinstance(given, tuple) and len(given) >= 2 and isinstance(given[1], int):
            return cls("host", str(given[0]).removeprefix("::ffff:"), given[1])
        return cls("none")

    @property
    def is_harmless(self) -> bool:
        """Whether nothing can be changed there: names are looked up, or nobody is there."""
        if self.kind == "host":
            return self.port == _NAMES
        if self.kind == "path":
            gone = not self.host.startswith("@") and not os.path.exists(self.host)
            return gone or os.path.realpath(self.host).startswith(_LOOKUPS)
        return True


class Listeners:
    """The sockets on which processes below one of them wait for connections."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._known: set[str] = set()

    def own(self, address: Address) -> bool:
        """Whether a process of the tree listens there."""
        sockets = set(_waiting(address))
        if not sockets:
            return False
        if not sockets & self._known:
            self._known |= {item for pid in tree_of(self._root) for item in _sockets(pid)}
        return bool(sockets & self._known)


def tree_of(root: int) -> list[int]:
    """A process and all that have come from it and still run."""
    parents = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and len(fields := edge.stat_fields(int(entry.name))) > 1:
            parents[int(entry.name)] = int(fields[1])
    found, more = {root}, True
    while more:
        below = {pid for pid, parent in parents.items() if parent in found} - found
        found, more = found | below, bool(below)
    return sorted(found)


def _sockets(pid: int) -> Iterator[str]:
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            end = os.readlink(f"/proc/{pid}/fd/{name}")
            if end.startswith("socket:["):
                yield end[8:-1]
    except OSError:
        return  # it has ended, or is somebody else's


def _waiting(address: Address) -> Iterator[str]:
    """The sockets that wait for connections to an address of this machine."""
    if address.kind == "path":
        for line in _lines("unix"):
            fields = line.split(maxsplit=7)
            if len(fields) == 8 and fields[7] in (address.host, os.path.realpath(address.host)):
                yield fields[6]
    elif address.kind == "host" and _is_local(address.host):
        for line in (*_lines("tcp"), *_lines("tcp6")):
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == address.port:
                yield fields[9]


def _is_local(host: str) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as trial:
        try:
            trial.bind((host, 0))
        except (OSError, UnicodeError):
            return False
    return True


def _lines(table: str) -> list[str]:
    try:
        return Path(f"/proc/net/{table}").read_text(errors="replace").splitlines()[1:]
    except OSError:
        return []
