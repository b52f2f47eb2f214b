"""The process that answers the kernel: it lets calls pass, or refuses and remembers them.

Until it is given bounds everything passes, and where setpoint itself connects to is noted: that
is what a proof needs. From then on whatever leaves the bounds fails, in whatever process.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from setpoint.prove.watch import kernel
from setpoint.prove.watch.bounds import Bounds
from setpoint.prove.watch.calls import doing_of
from setpoint.prove.watch.sockets import Address, Listeners

_TURN = 200
_NOTED = 20_000
_MOST = 100
"""Refusals that are remembered; one is enough for a verdict."""


class Supervisor:
    """Answers for one watched process and all that it starts, until that process ends."""

    def __init__(self, child: int, channel: socket.socket) -> None:
        self._child, self._channel = child, channel
        self._listener = -1
        self._listeners = Listeners(os.getpid())  # orphans become ours
        self._bounds: Bounds | None = None
        self._needed: dict[str, Address] = {}
        self._written: dict[str, bool] = {}
        """Paths that were changed before there were bounds, each with whether Spark did it."""
        self._refused: list[str] = []
        self._missed: set[str] = set()
        self._asked = b""
        self._free = False

    def serve(self) -> int:
        """Answer until the child has ended; its exit code, or 128 and the signal that ended it."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        watching = False
        while (code := self._ended()) is None:
            for number, event in poll.poll(_TURN):
                if number == self._listener:
                    self._decide()
                elif not event & select.POLLIN or not self._hear():
                    poll.unregister(number)  # it says nothing any more, and may still run
                elif self._listener >= 0 and not watching:
                    poll.register(self._listener, select.POLLIN)
                    watching = True
        return code

    def _ended(self) -> int | None:
        """The exit code of the child, if it is over; orphans that have ended are buried."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 3
            if pid == 0:
                return None
            if pid == self._child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code

    def _hear(self) -> bool:
        """Take a message of the child and answer it; whether there may be more."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self._channel, 1 << 16, 1)
        except OSError:
            return False
        if descriptors:
            self._listener = descriptors[0]
            return True
        self._asked += message
        while b"\n" in self._asked:
            line, _, self._asked = self._asked.partition(b"\n")
            request = json.loads(line)
            reply = json.dumps([request["number"], self._answered(request)])
            with suppress(OSError):  # it was interrupted and has gone
                self._channel.sendall(f"{reply}\n".encode())
        return bool(message)

    def _answered(self, request: dict[str, Any]) -> Any:
        match request:
            case {"ask": "watch", "bounds": bounds}:
                self._bounds = Bounds.from_dict(bounds)
            case {"ask": "own", "free": bool(free)}:
                self._free = free
            case {"ask": "rest"}:
                self._bounds = None
            case {"ask": "needed", "bounds": bounds}:
                return self._needs(Bounds.from_dict(bounds))
            case {"ask": "missed"}:
                return sorted(self._missed)
            case {"ask": "refused"}:
                refused, self._refused = self._refused, []
                return refused
        return None

    def _needs(self, bounds: Bounds) -> dict[str, Any]:
        """What was connected to and written before, as far as bounds would not permit it."""
        outside = {path: spark for path, spark in self._written.items() if bounds.is_outside(path)}
        folders = {os.path.dirname(path) for path, spark in outside.items() if spark}
        return {
            "addresses": [[item.kind, item.host, item.port] for item in self._needed.values()],
            "files": sorted(path for path in outside if os.path.isfile(path)),
            "folders": sorted(folder for folder in folders if not bounds.holds(folder)),
        }

    def _decide(self) -> None:
        notice = kernel.receive(self._listener)
        if notice is None:
            return
        error = 0
        try:
            doing = doing_of(notice)
            if self._bounds is None and len(self._written) < _NOTED:
                spark = _program(notice.pid) == "java" if doing.paths else False
                self._written |= {path: spark for path in doing.paths}
            told = self._against(doing.paths, doing.address)
            if told and not (self._free and self._is_child(notice.pid)):
                error = errno.EACCES
                self._remember(f"{told} in a {_program(notice.pid)} process")
        except Exception:
            # What cannot be looked at passes, and is told. Who is gone does nothing any more.
            if self._bounds is not None and os.path.exists(f"/proc/{notice.pid}"):
                self._missed.add(f"{notice.call} of {_program(notice.pid)}")
        kernel.answer(self._listener, notice, error)

    def _is_child(self, thread: int) -> bool:
        return os.path.exists(f"/proc/{self._child}/task/{thread}")

    def _against(self, paths: tuple[str, ...], address: Address | None) -> str:
        """What a call would do that it may not, in words; empty when it may."""
        bounds = self._bounds
        if address is not None:
            if address.is_harmless or self._listeners.own(address):
                return ""
            if bounds is None:
                self._needed.setdefault(str(address), address)
                return ""
            if str(address) in bounds.hosts or (
                address.kind == "host" and address.port in bounds.ports
            ):
                return ""
            return f"a connection to {address}"
        if bounds is None:
            return ""
        outside = [path for path in paths if bounds.is_outside(path) and _would_pass(path)]
        return f"a change of {outside[0]}" if outside else ""

    def _remember(self, told: str) -> None:
        if told not in self._refused and len(self._refused) < _MOST:
            self._refused.append(told)


def supervised(child: int, channel: socket.socket) -> int:
    """Supervise a child to its end; signals to end are passed on to it."""

    def pass_on(number: int, frame: object) -> None:
        os.kill(child, number)

    # Ctrl-C reaches the child as well: it has the terminal, too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    kernel.adopt_orphans()
    return Supervisor(child, channel).serve()


def _would_pass(path: str) -> bool:
    """Whether the system lets this user change a path: what fails anyway harms nobody."""
    if os.path.lexists(path):
        return os.access(path, os.W_OK) or os.access(os.path.dirname(path), os.W_OK)
    return os.access(os.path.dirname(path), os.W_OK)


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return "nameless"
