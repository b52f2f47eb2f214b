"""The guard: while a pipeline is tried, its code writes nothing by itself.

A sandbox redirects what setpoint writes. What the function does on its own (a second table, a
file, a message) would go where it always goes, so it is refused and named: before anything runs
where reading the code tells it, and at the call where it does not. Here that is what goes through
Spark's Python classes and through Python itself, while the function is called. What native code,
Spark's JVM and its workers do is seen by the watch, where the system permits one.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setpoint.errors import NOTHING_STARTED, RefusedError
from setpoint.lint.doings import Doing, doings_of
from setpoint.lint.sql.parse import read_sql
from setpoint.lint.vocabulary import vocabulary
from setpoint.model.pipeline import Pipeline
from setpoint.prove.watch.bounds import Bounds, is_below
from setpoint.prove.watch.sockets import Address, Listeners
from setpoint.prove.watch.watch import NOBODY, Watch

_READS = vocabulary(
    "select with values table from show describe desc explain set reset use cache uncache clear",
    "refresh declare list",
)
_TEMPORARY = re.compile(
    r"\s*(create|drop)\s+(or\s+replace\s+)?(global\s+)?temp(orary)?\s+(view|function|variable)\b",
    re.IGNORECASE,
)
_COMMENTS = re.compile(r"\A(?:\s+|--[^\n]*\n|/\*.*?\*/|\()+", re.DOTALL)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = vocabulary(
    "os.remove os.rename os.rmdir os.mkdir os.link os.symlink os.truncate os.chmod os.chown",
    "shutil.rmtree shutil.move shutil.copyfile shutil.copytree",
)
_STARTS = vocabulary(
    "subprocess.Popen os.system os.exec os.posix_spawn os.spawn os.startfile pty.spawn"
)
_SENDS = vocabulary("smtplib.send ftplib.sendcmd")
_CONNECTS = vocabulary("socket.connect socket.sendto")
_NAMED = 5
_METHODS = (b"POST ", b"PUT ", b"PATCH ", b"DELETE ")


class _Hook:
    """The one audit hook of this process: Python takes hooks up and never lets go of them."""

    watcher: Callable[[str, tuple[Any, ...]], None] | None = None
    added = False
    busy = threading.local()
    """Of a thread that is looking at an event: looking makes events of its own."""

    @classmethod
    def tell(cls, event: str, arguments: tuple[Any, ...]) -> None:
        if cls.watcher is None or getattr(cls.busy, "now", False):
            return
        cls.busy.now = True
        try:
            cls.watcher(event, arguments)
        finally:
            cls.busy.now = False


class Guard:
    """Refuses what a pipeline does outside of the sandbox and of temporary folders.

    A refusal lasts: code that catches every error does not get away with it.
    """

    def __init__(self, root: Path, folder: Path, own: str = "", watch: Watch = NOBODY) -> None:
        self.bounds = Bounds.of(root, folder, own)
        self._watch = watch
        self._listeners = Listeners(os.getpid())
        self.reads: tuple[str, ...] | None = None
        """Folders that the function reads past its sources; None before it was called."""
        self._caught: list[RefusedError] = []
        self._label = ""

    def refusal(self) -> RefusedError | None:
        """What was refused since the last time this was asked, in whatever process it was."""
        caught, self._caught = self._caught, []
        if seen := self._watch.refused():
            more = f" and {len(seen) - _NAMED} more" if len(seen) > _NAMED else ""
            caught.append(_refused(self._label, f"{'; '.join(seen[:_NAMED])}{more}"))
        return caught[0] if caught else None

    def refuse_what_lint_sees(self, pipeline: Pipeline) -> None:
        """Refuse writes and effects that the code tells, and that no call would show here.

        What changes files is left to the call: there the path is known.
        """
        if not pipeline.file or not os.path.isfile(pipeline.file):
            return
        name = getattr(pipeline.function, "__name__", "")
        found = doings_of(pipeline.file, Path(pipeline.file).read_bytes(), name)
        seen = [doing for doing in found if not (doing.on_disk and doing.api in _WATCHED)]
        if seen:
            raise _refused(pipeline.name, _listed(pipeline.file, seen))

    def guarded(self, pipeline: Pipeline) -> Callable[..., Any]:
        """The pipeline's function, watched while it is called."""
        function = pipeline.function

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            with self._armed(pipeline.name):
                result = function(*args, **kwargs)
            if self.reads is None:
                self._look_at_reads(pipeline.name, [*args, *kwargs.values()], result)
            return result

        return watched

    def _look_at_reads(self, label: str, given: Sequence[Any], result: Any) -> None:
        """Name what the result reads and no source has handed over; its own target is refused."""
        from setpoint.spark.guard import files_of

        declared = frozenset(file for frame in given for file in files_of(frame))
        past = sorted(files_of(result) - declared)
        target = self.bounds.own
        if target and any(is_below(os.path.realpath(file), target) for file in past):
            raise _reads_itself(label, target)
        self.reads = tuple(dict.fromkeys(os.path.dirname(file) for file in past))

    @contextmanager
    def _armed(self, label: str) -> Iterator[None]:
        from setpoint.spark.guard import watched

        if not _Hook.added:
            sys.addaudithook(_Hook.tell)
            _Hook.added = True
        self._label, before = label, len(self._caught)
        try:
            with watched(self._refuse, self._look_at_sql):
                _Hook.watcher = self._look_at_event
                try:
                    yield
                finally:
                    _Hook.watcher = None
        finally:
            if len(self._caught) > before:
                raise self._caught[before]

    def _refuse(self, what: str) -> None:
        self._caught.append(_refused(self._label, what))
        raise self._caught[-1]

    def _look_at_sql(self, text: str) -> None:
        if writes_by_sql(text):
            self._refuse(f"spark.sql({' '.join(text.split())[:80]!r})")

    def _look_at_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            writing = (
                bool(set(mode) & set("wax+")) if isinstance(mode, str) else bool(flags & _WRITING)
            )
            if writing and self._is_outside(path):
                self._refuse(f"open({str(path)!r}) for writing")
        elif event in _CHANGES:
            places = [item for item in arguments[:2] if isinstance(item, (str, bytes, os.PathLike))]
            if any(self._is_outside(place) for place in places):
                self._refuse(f"{event}({', '.join(repr(str(place)) for place in places)})")
        elif event == "sqlite3.connect":
            if self._is_outside(arguments[0]) and "mode=ro" not in str(arguments[0]):
                self._refuse(f"sqlite3.connect({str(arguments[0])!r})")
        elif event in _STARTS:
            self._refuse(f"{event}({str(arguments[0])[:80]!r}), a process that may write anything")
        elif event == "http.client.send" and bytes(arguments[1][:8]).startswith(_METHODS):
            self._refuse(f"an HTTP {bytes(arguments[1][:8]).split()[0].decode()}")
        elif event in _SENDS:
            self._refuse(event)
        elif event in _CONNECTS:
            address = Address.of(arguments[1])
            if not address.is_harmless and not self._listeners.own(address):
                self._refuse(f"a connection to {address}")

    def _is_outside(self, path: Any) -> bool:
        """Whether a path is one that somebody else may read after the run."""
        if isinstance(path, int) or path in (":memory:", ""):
            return False
        text = os.fsdecode(path).removeprefix("file:").partition("?")[0]
        return self.bounds.is_outside(os.path.realpath(text))


# What Python itself announces before it happens.
_WATCHED = vocabulary(
    "open write write_text write_bytes remove unlink rename replace rmtree move copy copyfile",
    "copytree mkdir makedirs rmdir touch",
)


# What no word of a statement can stand in: texts, quoted names and comments.
_QUOTED = re.compile(
    r"""\b[rR]'[^']*' | \b[rR]"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*`
    | --[^\n]* | /\*.*?\*/""",
    re.DOTALL | re.VERBOSE,
)
# Spark takes these after a FROM or a WITH as well, and parsers of other dialects do not.
_AFTERWARDS = re.compile(
    r"\b(insert\s+(into|overwrite)|merge\s+into|delete\s+from|update\s+\S+\s+(\S+\s+)?set)\b",
    re.IGNORECASE,
)


def writes_by_sql(text: str) -> bool:
    """Whether a text for `spark.sql` changes more than the session."""
    plain = _COMMENTS.sub("", f"{text}\n")
    word = re.match(r"[a-zA-Z]+", plain)
    if _TEMPORARY.match(plain):
        return False
    if word is None or word[0].lower() not in _READS:
        return True
    if word[0].lower() in ("from", "with") and _AFTERWARDS.search(_QUOTED.sub(" ", text)):
        return True
    _, statements = read_sql(text, "spark")
    return any(item.verb not in ("select", "other", "view") for item in statements)


def _listed(file: str, doings: list[Doing]) -> str:
    shown = "; ".join(str(doing) for doing in doings[:3])
    more = f" and {len(doings) - 3} more" if len(doings) > 3 else ""
    return f"{os.path.basename(file)}, {shown}{more}"


def _refused(label: str, what: str) -> RefusedError:
    return RefusedError(
        "SP-V06",
        f"{label} writes by itself: {what}.",
        why="A pipeline returns rows and setpoint publishes them. What the function writes on its "
        "own is not repeated safely, and a proof cannot redirect it.",
        state=f"The call was stopped. {NOTHING_STARTED.partition(';')[2].strip().capitalize()}",
        next="Return the rows instead; what they go to is the pipeline's target, or that of "
        "another pipeline. What it has to read elsewhere, declare as a source.",
    )


def _reads_itself(label: str, own: str) -> RefusedError:
    return RefusedError(
        "SP-V09",
        f"{label} reads its own target past its sources: {own}.",
        why="What a run has published is then an input of the next one: a run that is made again "
        "finds its own rows, and adds to them.",
        state=NOTHING_STARTED,
        next="Read what earlier windows have left with previous(...), which never holds the "
        "window's own rows.",
    )
