"""Moments of a command's life, found by watching what it writes while it runs.

A clean run is watched: every change that a reader could see is one moment, and so are the time
before the first one and what is written before anybody can see it. In a later run the process is
killed when the same change is seen again.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Literal

from setpoint.prove.command.places import Gate, Place, Sight, Watching
from setpoint.prove.processes import LIMIT, Process

# Between two looks; longer where a look itself takes long.
_INTERVAL = 0.003
_SHARE = 4
_HELD = 0.001
_RUNS, _STANDS = 0.0003, 0.002
SHORT = 20.0
"""Seconds that a command takes for which it is no trouble to be run slowly, or often."""
_PATIENCE = 5.0
_STUCK = 2.0
"""Seconds for which somebody may wait behind a lock of ours that queues itself."""
_LONG = 0.5
"""Seconds after which an empty file is not about to be filled."""
_MOST = 400
"""Changes after which nobody is held any more: the command would take too long."""

Sort = Literal["before", "beneath", "after", "end"]


@dataclass(frozen=True)
class Moment:
    """When to kill: `after` so many visible changes, or before any; `end` is when it is over."""

    sort: Sort
    number: int = 0
    of: int = 0
    place: str = ""

    @property
    def words(self) -> str:
        match self.sort:
            case "before":
                return "before its first change"
            case "beneath":
                return "while it writes what nobody can see yet"
            case "after":
                which = f"change {self.number} of {self.of}" if self.of > 1 else "its only change"
                return f"after {which} ({self.place})"
            case "end":
                return "right after its end, before anybody knew of it"


@dataclass(frozen=True)
class Observed:
    """What was seen of one run: the places that changed, in order, and when it ended."""

    changes: tuple[str, ...]
    beneath: bool
    seconds: float
    first: float
    """Seconds until the first change of any sort."""
    killed: bool = False
    held: bool = False
    """Whether writers were held between two commits."""
    flags: frozenset[tuple[str, str]] = frozenset()
    """Files, each with its place, that were empty while something else happened, or for long."""
    amid: bool = False
    """Whether the kill came after a file was made, and before it was filled."""


def chosen(seen: Observed, *, few: bool) -> tuple[Moment, ...]:
    """The moments at which to kill; with `few`, the two or three that tell most."""
    total = len(seen.changes)
    after = [Moment("after", n + 1, total, place) for n, place in enumerate(seen.changes)]
    before = [Moment("before")]
    if seen.beneath:
        before.append(Moment("beneath"))
    # Where another place is about to change or has begun to, state and data may part.
    turns = [n for n in range(1, total) if seen.changes[n] != seen.changes[n - 1]]
    if few:
        told = {0, *(n - 1 for n in turns[:1]), total - 1}
        ends = [after[n] for n in sorted(told) if 0 <= n < total]
        return tuple([*before[-1:], *ends][-max(2, len(ends)) :])
    told = {*turns, *(n - 1 for n in turns), 0, 1, total // 2, total - 2, total - 1}
    picked = [after[n] for n in sorted(told) if 0 <= n < total]
    return (*before, *(picked if len(picked) <= 8 else [*picked[:4], *picked[-4:]]))


def watch(
    start: Callable[[], Process],
    places: Sequence[Place],
    now: Callable[[], float],
    *,
    until: Moment | None = None,
    usual: Observed | None = None,
    held: bool = True,
    limit: float = LIMIT,
) -> tuple[Process, Observed]:
    """Run a process to its end, or to a moment at which it is killed.

    Writers are held between two commits, unless the process cannot bear it. One that takes longer
    than the limit is killed as well, and counts as hanging.
    """
    with ExitStack() as stack:
        eyes = {place.name: stack.enter_context(place.watching(held=held)) for place in places}
        watcher = _Watcher(eyes, now, until, usual)
        process = start()
        try:
            watcher.follow(process, limit)
        except BaseException:
            process.kill()
            raise
        finally:
            for name in eyes:
                if (gate := eyes[name].gate) is not None and not process.running:
                    gate.turn_away()
        return process, watcher.seen()


def _step(process: Process) -> None:
    """Let a process run for a moment only: what it has asked for is answered while it stands."""
    _signal(process, signal.SIGCONT)
    time.sleep(_RUNS)
    _signal(process, signal.SIGSTOP)
    time.sleep(_STANDS)


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


class _Watcher:
    def __init__(
        self,
        eyes: Mapping[str, Watching],
        now: Callable[[], float],
        until: Moment | None,
        usual: Observed | None,
    ) -> None:
        self._eyes, self._now = eyes, now
        self._until, self._usual = until, usual
        self._last = {name: eye.look() for name, eye in eyes.items()}
        self._passing: set[str] = set()
        self._open: set[str] = set()
        self._behind: dict[str, float] = {}
        self._held = any(eye.gate for eye in eyes.values())
        self._changes: list[str] = []
        self._made: tuple[str, frozenset[str], float] | None = None
        self._flags = set(usual.flags if usual else ())
        self._beneath = self._killed = self._stands = False
        self._first: float | None = None
        self._start = self._end = now()
        self._process: Process | None = None

    def follow(self, process: Process, limit: float) -> None:
        """Look again and again, until the process has ended or its moment has come."""
        self._start, self._process = self._now(), process
        while process.running and self._now() - self._start < limit:
            began = self._now()
            if self._look():
                # All at once: a JVM that outlives its driver for a moment would go on writing.
                _signal(process, signal.SIGKILL)
                process.kill()
                self._killed = True
                break
            if self._passing and self._is_next():
                _step(process)
            elif self._stands:
                _signal(process, signal.SIGCONT)
                self._stands = False
            else:
                spent = (self._now() - began) * _SHARE
                time.sleep(_HELD if self._held else max(_INTERVAL, spent))
        if process.running and not self._killed:
            process.wait(0)
        self._end = self._now()
        if not self._killed:
            self._settle()
        for name, eye in self._eyes.items():
            # What came between the last look and the end.
            self._record(name, eye.look(), passed=name in self._passing)
        if not self._killed:
            self._count_made()

    def seen(self) -> Observed:
        seconds = self._end - self._start
        first = seconds if self._first is None else self._first
        changes = tuple(self._changes)
        return Observed(
            changes,
            self._beneath,
            seconds,
            first,
            self._killed,
            self._held,
            frozenset(self._flags),
            amid=self._killed and self._made is not None,
        )

    def _look(self) -> bool:
        """One look at everything; whether the moment has come."""
        if self._usual is None and self._made and self._now() - self._made[2] > _LONG:
            self._count_made()
        if self._look_at_gates():
            return True
        for name, eye in self._eyes.items():
            if self._gate_of(name) is not None or (sight := eye.look()) == self._last[name]:
                continue
            if self._passing and self._look_at_gates(sure=True):
                return True  # a commit came first
            self._record(name, sight)
            if self._has_come():
                return True
        return self._time_has_come()

    def _look_behind(self) -> bool:
        """What a writer has changed in files before it came to the gate; whether that was it.

        It stands there: what can be seen now came before what it is about to commit, and a file
        that is empty now is not about to be filled.
        """
        for name, eye in self._eyes.items():
            if self._gate_of(name) is None:
                self._record(name, eye.look())
                self._count_made()
                if self._has_come():
                    return True
        return False

    def _look_at_gates(self, *, sure: bool = False) -> bool:
        for name, eye in self._eyes.items():
            if (gate := self._gate_of(name)) is None:
                continue
            asked = name in self._passing and (sure or self._stands)
            if not (gate.is_committed() if asked else gate.is_closed()):
                self._free(name, gate)
                continue
            # Behind a closed gate nothing changes, but for what has just passed.
            if name in self._passing:
                self._passing.discard(name)
                self._record(name, eye.look(), passed=True)
                if self._has_come():
                    return True
            waiting = gate.waiting()
            if waiting.ours and not self._passing and self._look_behind():
                return True
            if waiting.ours and self._before() and not self._changes:
                return True
            if waiting.any:
                self._pass(name, gate)
        return False

    def _gate_of(self, name: str) -> Gate | None:
        """The gate of a place, as long as it holds anybody."""
        return None if name in self._open else self._eyes[name].gate

    def _pass(self, name: str, gate: Gate) -> None:
        if len(self._changes) >= _MOST:
            self._leave_open(name, gate)
            return
        if self._is_next() and self._process is not None:
            # From here on it runs in steps: it may be done before anybody looks again.
            _signal(self._process, signal.SIGSTOP)
            self._stands = True
        gate.let_one_pass()
        self._passing.add(name)
        self._behind.pop(name, None)

    def _free(self, name: str, gate: Gate) -> None:
        """Open a gate for good behind which somebody waits, and for a transaction before it.

        The two may be one command: then neither would ever go on.
        """
        if not gate.waiting().any:
            self._behind.pop(name, None)
        elif self._now() - self._behind.setdefault(name, self._now()) > _STUCK:
            self._leave_open(name, gate)

    def _leave_open(self, name: str, gate: Gate) -> None:
        gate.leave_open()
        self._open.add(name)
        self._passing.discard(name)

    def _settle(self) -> None:
        """Wait for the last transaction of a process that has ended."""
        until = self._now() + _PATIENCE
        for name in self._passing:
            gate = self._eyes[name].gate
            while gate is not None and not gate.is_closed() and self._now() < until:
                time.sleep(_HELD)

    def _record(self, name: str, sight: Sight, *, passed: bool = False) -> None:
        """Take a sight down; who has passed a gate has changed something, seen or not."""
        last, self._last[name] = self._last[name], sight
        unseen = passed and not sight.exact
        if sight == last and not unseen:
            return
        if self._first is None:
            self._first = self._now() - self._start
        made = frozenset((name, file) for file in sight.made_since(last)) - self._flags
        if made:
            # Made and filled is one change: a kill between the two would be mere luck.
            self._count_made()
            self._made = (name, frozenset(file for _, file in made), self._now())
            return
        if self._made is not None and self._made[0] == name and not self._made[1] & sight.empty:
            self._made = None  # filled
        self._count_made()
        if sight.visible != last.visible or unseen:
            self._changes.append(name)
        else:
            self._beneath = self._beneath or not self._changes

    def _count_made(self) -> None:
        """Count a file that was made and is still empty: something else has happened meanwhile."""
        if self._made is not None:
            name, files, _ = self._made
            self._changes.append(name)
            self._flags |= {(name, file) for file in files}
            self._made = None

    def _has_come(self) -> bool:
        match self._until:
            case Moment("after", number):
                return len(self._changes) >= number
            case Moment("beneath"):
                return self._beneath and not self._changes
            case _:
                return False

    def _time_has_come(self) -> bool:
        """Before the first change there is nothing to see: half of the usual time."""
        if not self._before() or self._changes or self._held or self._usual is None:
            return False
        return self._now() - self._start >= self._usual.first / 2

    def _is_next(self) -> bool:
        """Whether the next transaction may be the one after which to kill.

        What follows it may be microseconds away, a mark in a file for one.
        """
        match self._until:
            case Moment("after", number) if len(self._changes) == number - 1:
                return self._usual is not None and self._usual.seconds < SHORT
            case _:
                return False

    def _before(self) -> bool:
        return self._until is not None and self._until.sort == "before"
