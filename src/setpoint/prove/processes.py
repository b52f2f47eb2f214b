"""Processes of their own: started, held, killed with everything they have started, waited for.

What they say goes to files, not to pipes: a JVM that outlives its killed driver for a moment
would hold a pipe open. Each process leads a session of its own and passes a mark on in its
environment. Whatever belongs to the session or has the mark is ended with it: Spark's JVM, the
workers of Python, which have a process group of their own, and what a command has sent to the
background.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import setpoint
from setpoint import edge
from setpoint.errors import NOTHING_STARTED, PermanentError, SetpointError, UsageError, shortened

LIMIT = 900.0
"""Seconds after which a process counts as hanging; generous, because proofs run real work."""
MARK = "SETPOINT_PROCESS"
KEEP = "To read all that it said, which is kept with the sandbox: the same command with --keep"

# Settings of the user's own shell that would send a session of ours somewhere else.
FOREIGN = ("SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SETPOINT_FAULT")
_STEP = 0.02
# A JVM whose driver has ended well removes its temporary folders; it gets the time for it.
_FAREWELL = 20.0


@dataclass(frozen=True)
class Ended:
    """How a process ended, and where its words are.

    `killed` says that it was ended from here, and `hung` that this was because it took too long.
    """

    code: int
    out: Path
    err: Path
    killed: bool = False
    hung: bool = False

    @property
    def signal(self) -> int | None:
        """The signal that ended it, if one did."""
        return -self.code if self.code < 0 else None

    @property
    def answer(self) -> str:
        """What it wrote to its standard output."""
        return self.out.read_text(errors="replace")

    def last_words(self, lines: int = 5) -> str:
        """The last lines that it said, of its messages or, without any, of its output."""
        for file in (self.err, self.out):
            said = [line for line in file.read_text(errors="replace").splitlines() if line.strip()]
            if said:
                return shortened("\n".join(said[-lines:]), 2000)
        return ""

    def told(self, lines: int = 5) -> str:
        """Its last words as part of an error: the files may be gone before anybody reads it."""
        said = "".join(f"  {line}\n" for line in self.last_words(lines).splitlines())
        return f"Its last words:\n{said}" if said else "It said nothing."


class Process:
    """A process that `start` has started; leaving its context ends it if it still runs."""

    def __init__(self, popen: subprocess.Popen[bytes], mark: str, out: Path, err: Path) -> None:
        self._popen, self._mark, self._out, self._err = popen, mark, out, err
        self._killed = False
        self._ended: Ended | None = None

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ended is None:
            self.kill()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether the driver still runs."""
        return self._popen.poll() is None

    def members(self) -> Iterator[int]:
        """The driver and all that belongs to it, as far as they run."""
        if self.running:
            yield self.pid
        yield from self._others()

    def kill(self) -> Ended:
        """SIGKILL to the driver, and at once to all that belongs to it: the machine is gone.

        The driver goes first: nothing of it may see its children die and begin to tidy up.
        """
        if self._ended is None:
            if self.running:
                self._killed = True
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            self._ended = self._gone(hung=False)
        return self._ended

    def wait(self, limit: float = LIMIT) -> Ended:
        """Wait for its end; one that takes longer than the limit is killed, and told so."""
        if self._ended is None:
            try:
                code = self._popen.wait(limit)
            except subprocess.TimeoutExpired:
                self._killed = True
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
                self._ended = self._gone(hung=True)
            else:
                if code >= 0:
                    _until(lambda: not any(self._others()), _FAREWELL)
                self._ended = self._gone(hung=False)
        return self._ended

    def _gone(self, *, hung: bool) -> Ended:
        if not os.path.isdir("/proc"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        code = self._popen.wait()
        for _ in range(100):
            left = list(self._others())
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if not left or _until(lambda: not any(self._others()), 0.2):
                break
        return Ended(code, self._out, self._err, self._killed, hung)

    def _others(self) -> Iterator[int]:
        """Processes that belong to this one and still run."""
        wanted = f"{MARK}={self._mark}".encode()
        for entry in os.scandir("/proc") if os.path.isdir("/proc") else ():
            if not entry.name.isdigit() or int(entry.name) in (self.pid, os.getpid()):
                continue
            fields = edge.stat_fields(int(entry.name))
            if len(fields) < 4 or fields[0] in ("Z", "X"):
                continue
            if fields[3] == str(self.pid) or wanted in _environment(entry.path):
                yield int(entry.name)


def start(
    command: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    logs: Path,
    name: str = "process",
) -> Process:
    """Start a command in a folder with this environment and no other; its words go to `logs`.

    Two files are made there, `<name>-<n>.out` and `.err`. The command reads nothing.
    """
    if os.name != "posix":
        raise UsageError(
            "SP-V10",
            "Processes cannot be killed here as a machine that goes down would.",
            why="This needs SIGKILL and sessions of processes, which Linux and macOS have.",
            state=NOTHING_STARTED,
            next="Prove the pipeline on Linux, for example in a container.",
        )
    logs.mkdir(parents=True, exist_ok=True)
    out, err = _files(logs, name)
    mark = edge.new_attempt_id()
    try:
        with out.open("wb") as said, err.open("wb") as told:
            popen = subprocess.Popen(
                list(command),
                cwd=folder,
                env={**env, MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=told,
                start_new_session=True,
            )
    except OSError as error:
        raise PermanentError(
            "SP-V10",
            f"{shortened(command[0], 200)} could not be started: {error.strerror}.",
            why="A proof runs programs as they are named, without a shell.",
            state=NOTHING_STARTED,
            next=f"Name a program that can be started in {folder}.",
        ) from error
    return Process(popen, mark, out, err)


def own_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a Python process of ours that works in another folder.

    It finds this setpoint and the user's modules, and no session of somebody else.
    """
    home = Path(setpoint.__file__).parent.parent
    given = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    path = os.pathsep.join([str(home), *(str(Path(entry).absolute()) for entry in given)])
    kept = {name: value for name, value in environment.items() if name not in FOREIGN}
    return {**kept, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}


def failed(what: str, ended: Ended) -> SetpointError:
    """The error for a process that should have ended well and did not."""
    if ended.hung:
        return PermanentError(
            "SP-V11",
            f"{what} did not end within {LIMIT / 60:.0f} minutes and was killed.",
            why=ended.told(),
            state="Only the sandbox was written to.",
            next=f"A smaller window or --sample takes less time. {KEEP}",
        )
    how = f"was killed by signal {ended.signal}" if ended.signal else f"ended with {ended.code}"
    return PermanentError(
        "SP-V12",
        f"{what} {how}.",
        why=ended.told(),
        state="Only the sandbox was written to.",
        next=KEEP,
    )


def _files(logs: Path, name: str) -> tuple[Path, Path]:
    number = 1
    while True:
        out = logs / f"{name}-{number}.out"
        try:
            out.touch(exist_ok=False)
            return out, out.with_suffix(".err")
        except FileExistsError:
            number += 1


def _until(true: Callable[[], bool], seconds: float) -> bool:
    """Wait until a question is answered with yes, but no longer than so many seconds."""
    for _ in range(max(int(seconds / _STEP), 1)):
        if true():
            return True
        time.sleep(_STEP)
    return bool(true())


def _environment(process: str) -> bytes:
    try:
        return Path(process, "environ").read_bytes()
    except OSError:
        return b""
