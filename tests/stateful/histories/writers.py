"""The writers of a history as the player sees them: started ahead, told, killed, stopped."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONGEST = 120.0  # seconds; a writer that says nothing for so long hangs


class Writer:
    """One process that runs windows."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._held = b""
        self.pid: int = self._next(LONGEST)["pid"]  # type: ignore[index]
        self.said: list[dict[str, Any]] = []

    def send(self, **order: Any) -> None:
        self._channel.sendall((json.dumps(order) + "\n").encode())

    def wait(self, seconds: float) -> dict[str, Any] | None:
        """Its answer, or None if there is none after this time or it is dead."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            message = self._next(left)
            if message is None:
                return None
            if "at" not in message:
                return message
            self.said.append(message)
        return None

    def wait_for_step(self, number: int, seconds: float) -> dict[str, Any] | None:
        """Wait until it has begun so many steps; its answer if it came before that."""
        end = time.monotonic() + seconds
        while len(self.said) < number and (left := end - time.monotonic()) > 0:
            message = self._next(left)
            if message is None:
                return None
            if "at" not in message:
                return message
            self.said.append(message)
        return None

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._channel.close()

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _next(self, seconds: float) -> dict[str, Any] | None:
        end = time.monotonic() + seconds
        while b"\n" not in self._held:
            left = max(end - time.monotonic(), 0)
            if not select.select([self._channel], [], [], left)[0]:
                return None
            more = self._channel.recv(65536)
            if not more:
                return None
            self._held += more
        line, self._held = self._held.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        return message


@dataclass
class Writers:
    """Makes writers on a session's JVM, one ahead of need; a context manager."""

    spark: SparkSession
    _idle: list[Writer] = field(default_factory=list)
    _starting: list[Writer] = field(default_factory=list)

    def __enter__(self) -> Writers:
        self._folder = tempfile.TemporaryDirectory(prefix="writers")
        place = str(Path(self._folder.name) / "s")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(place)
        self._listener.listen()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "histories.writer", place],
            stdin=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for writer in [*self._idle, *self._starting]:
            writer.kill()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._listener.close()
        self._folder.cleanup()

    @contextmanager
    def two(self) -> Iterator[tuple[Writer, Writer]]:
        with self.one() as first, self.one() as second:
            yield first, second

    @contextmanager
    def one(self) -> Iterator[Writer]:
        """A writer that is ready; kept for the next caller unless it was killed or has failed."""
        writer = self._take()
        try:
            yield writer
        except BaseException:
            writer.kill()
            raise
        if writer._channel.fileno() >= 0:
            writer.said.clear()
            self._idle.append(writer)

    def _take(self) -> Writer:
        if self._idle:
            return self._idle.pop()
        writer = self._starting.pop() if self._starting else self._fork()
        self._starting.append(self._fork())
        if writer.wait(LONGEST) is None:
            raise AssertionError("a writer did not start")
        return writer

    def _fork(self) -> Writer:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._listener.settimeout(LONGEST)
        channel, _ = self._listener.accept()
        writer = Writer(channel)
        gateway = self.spark.sparkContext._gateway.gateway_parameters
        writer.send(port=str(gateway.port), secret=gateway.auth_token)
        return writer

    def settle(self) -> None:
        """Wait until the JVM does nothing any more for writers that are dead."""
        jvm: Any = self.spark.sparkContext._jvm
        end = time.monotonic() + LONGEST
        while time.monotonic() < end:
            threads = jvm.org.apache.spark.util.Utils.getThreadDump()
            dump = jvm.scala.runtime.ScalaRunTime.stringOf(threads)
            stacks = dump.split('"')  # a thread's name stands in quotes before its stack
            busy = [s for s in stacks if "py4j.commands." in s and "getThreadDump" not in s]
            if not busy:
                return
        raise AssertionError("the JVM is still busy with what a dead writer began")
