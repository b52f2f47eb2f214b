"""A process that is watched, and how it talks to the one that watches it."""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from setpoint.prove.watch import kernel
from setpoint.prove.watch.bounds import Bounds
from setpoint.prove.watch.sockets import Address
from setpoint.prove.watch.supervisor import supervised

_BLIND = (
    "connections and files of native libraries, of Spark's JVM and of its workers, because {why}"
)


@dataclass(frozen=True)
class Needs:
    """Where a proof connects to and what it writes before its first trial begins."""

    addresses: tuple[Address, ...] = ()
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


@dataclass
class Watch:
    """Eyes on this process and on all that it starts; without a channel there are none."""

    why: str
    """Why nobody watches; empty when somebody does."""
    channel: socket.socket | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _number: int = 0
    _heard: bytes = b""

    @property
    def unwatched(self) -> tuple[str, ...]:
        return (_BLIND.format(why=self.why),) if self.why else ()

    def needed(self, bounds: Bounds) -> Needs:
        """What this process and its own have done until now that bounds would not permit."""
        told = self._ask({"ask": "needed", "bounds": bounds.as_dict()})
        if told is None:
            return Needs()
        addresses = tuple(Address(*item) for item in told["addresses"])
        return Needs(addresses, tuple(told["files"]), tuple(told["folders"]))

    def refused(self) -> list[str]:
        """What was refused since the last time, in words."""
        return list(self._ask({"ask": "refused"}) or ())

    def missed(self) -> list[str]:
        """Calls that passed because nobody could tell what they do: call and program."""
        return list(self._ask({"ask": "missed"}) or ())

    @contextmanager
    def within(self, bounds: Bounds) -> Iterator[None]:
        """Let nothing leave the bounds for the length of a block."""
        self._ask({"ask": "watch", "bounds": bounds.as_dict()})
        try:
            yield
        finally:
            self._ask({"ask": "rest"})

    @contextmanager
    def own_doing(self) -> Iterator[None]:
        """Let this process leave the bounds, and no other, while no code of a user is called."""
        self._ask({"ask": "own", "free": True})
        try:
            yield
        finally:
            self._ask({"ask": "own", "free": False})

    def _ask(self, request: dict[str, Any]) -> Any:
        if self.channel is None:
            return None
        with self._lock:
            # An interrupt may come before the answer, which is then not taken for the next one.
            self._number += 1
            number = self._number
            message = json.dumps({**request, "number": number})
            self.channel.sendall(f"{message}\n".encode())
            while True:
                line, ended, rest = self._heard.partition(b"\n")
                if not ended:
                    more = self.channel.recv(1 << 16)
                    if not more:
                        raise ConnectionError("nobody watches any more")
                    self._heard += more
                    continue
                self._heard = rest
                told, value = json.loads(line)
                if told == number:
                    return value


NOBODY = Watch("the proof runs inside another program")


def watched() -> Watch | int:
    """Divide this process in two: one goes on under watch, one watches it.

    The first gets its watch. The second gets the exit code of the first when that is over, and
    has nothing left to do. Call it before there are threads. Where the system does not permit it
    there is one process, and its watch says why.
    """
    if kernel.machine() is None:
        system = f"{platform.system()} {platform.release()} on {platform.machine()}"
        return Watch(f"{system} cannot be asked to watch")
    if threading.active_count() > 1:
        return NOBODY
    if told := _not_permitted():
        return Watch(told)
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        theirs.close()
        return supervised(child, ours)
    ours.close()
    kernel.die_with_parent(signal.SIGKILL)
    listener = kernel.put_under_watch()
    socket.send_fds(theirs, [b"listener"], [listener])
    os.close(listener)
    return Watch("", theirs)


def _not_permitted() -> str:
    """Why the system does not permit it, tried in a process of its own; empty when it does."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kernel.put_under_watch()
        except OSError as error:
            os.write(writing, (error.strerror or str(error)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        told = said.read().decode()
    os.waitpid(child, 0)
    return f"the system does not permit it ({told})" if told else ""
