"""Another day on the wall clock of a process, by libfaketime.

The library is put in front of the C library and shifts what a process and everything it starts
read as the time: Python, the JVM, the workers. Clocks that only measure how long something takes
are left alone, or waits would never end. A version of the library that cannot do that, and there
are such, is found out by trying it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from glob import glob
from pathlib import Path

from setpoint import edge

LIBRARY = "SETPOINT_FAKETIME"
HOW_TO_GET_IT = (
    "the clock was not changed, for want of a working libfaketime: pip install 'setpoint[prove]' "
    f"on Linux, or name the library with {LIBRARY}"
)
# Another day, weekday and hour. Less than the five days after which Iceberg and the seven after
# which Delta take what lies around for rubbish: a command that tidies up must not lose anything.
SHIFT = 3 * 86_400 + 7 * 3_600 + 12 * 60
_LONGEST = 4 * 86_400 + 20 * 3_600
_INTO_THE_MONTH = 7 * 3_600
_PLACES = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib/*/faketime/libfaketime.so.1",
    "/usr/lib*/faketime/libfaketimeMT.so.1",
    "/usr/lib*/faketime/libfaketime.so.1",
    "/usr/local/lib/faketime/libfaketime.so.1",
)
# Each line is something that a version of the library is known to break.
_TRIAL = """
import subprocess, sys, threading, time
before = float(sys.argv[1])
assert time.time() - before > float(sys.argv[2]) / 2
began = time.monotonic()
time.sleep(0.01)
threading.Event().wait(0.01)
held = threading.Lock()
held.acquire()
held.acquire(timeout=0.01)
subprocess.run([sys.executable, "-c", ""], timeout=8)
assert 0.02 < time.monotonic() - began < 8
print("shifted")
"""


@dataclass(frozen=True)
class Clock:
    """A library that shifts the clock, tried on this machine."""

    library: str
    shift: int = SHIFT
    other_month: bool = False

    @property
    def what(self) -> str:
        """How much later it is, in words; they tell whether that is in another month."""
        days, rest = divmod(self.shift, 86_400)
        month = "another" if self.other_month else "the same"
        return f"{days} days and {rest // 3_600} hours later, in {month} month"

    @property
    def changes(self) -> Mapping[str, str]:
        """The variables that make a process live later."""
        return {
            "LD_PRELOAD": self.library,
            "FAKETIME": f"+{self.shift}",
            # Waits and durations are those of the real world. Both names: versions differ.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            # The library's own repair of timed waits ends those of the JVM at once.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            # A file keeps its own time: it may be part of what an input is pinned to.
            "NO_FAKE_STAT": "1",
        }


def find_clock(environment: Mapping[str, str]) -> Clock | None:
    """The first library that works here, or None; see `HOW_TO_GET_IT`."""
    if not sys.platform.startswith("linux"):
        return None
    shift, other_month = shift_from(edge.utc_now())
    for library in _candidates(environment):
        clock = Clock(library, shift, other_month)
        if Path(library).is_file() and _works(clock, environment):
            return clock
    return None


def shift_from(now: datetime) -> tuple[int, bool]:
    """By how many seconds the clock is moved, and whether that leads into another month.

    Over the end of the month if it is near enough: values such as `2026-04` change then only.
    """
    first = (now.replace(day=1) + timedelta(days=32)).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    over = int((first - now).total_seconds()) + _INTO_THE_MONTH
    if over <= SHIFT:
        return SHIFT, True
    return (over, True) if over <= _LONGEST else (SHIFT, False)


class Reach:
    """Which of the processes that ran were ones whose clock was moved.

    A command may start another without its environment, or one that is linked statically.
    """

    def __init__(self, clock: Clock) -> None:
        self._library = os.path.basename(clock.library).encode()
        self._seen: dict[int, tuple[int, bool, str]] = {}

    def look(self, pids: Iterable[int]) -> None:
        for pid in pids:
            with suppress(OSError):
                loaded = Path(f"/proc/{pid}/maps").read_bytes()
                name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
                if loaded:
                    looks = self._seen.get(pid, (0, False, ""))[0] + 1
                    self._seen[pid] = (looks, self._library in loaded, name)

    @property
    def nobody(self) -> bool:
        """Whether the clock was moved for none of them."""
        return bool(self.unmoved) and not any(moved for _, moved, _ in self._seen.values())

    @property
    def unmoved(self) -> tuple[str, ...]:
        """The names of those that lived on another clock, so far as they lived long enough."""
        names = [name for looks, moved, name in self._seen.values() if looks > 1 and not moved]
        return tuple(dict.fromkeys(names))


def _candidates(environment: Mapping[str, str]) -> Iterator[str]:
    if named := environment.get(LIBRARY):
        yield str(Path(named).absolute())
    # Found, not imported: the package's own code is for other purposes.
    spec = importlib.util.find_spec("libfaketime")
    for home in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield from sorted(glob(os.path.join(home, "vendor", "libfaketime", "src", "*.so.1")))
    for pattern in _PLACES:
        yield from sorted(glob(pattern))


def _works(clock: Clock, environment: Mapping[str, str]) -> bool:
    before = str(edge.utc_now().timestamp())
    try:
        answer = subprocess.run(
            [sys.executable, "-c", _TRIAL, before, str(clock.shift)],
            env={**environment, **clock.changes},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and "shifted" in answer.stdout
