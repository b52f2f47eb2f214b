"""An input of a pipeline: its origin, what bounds it, and what becomes of late rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, Protocol, cast, get_args, runtime_checkable

from setpoint.errors import NOTHING_STARTED, DefinitionError
from setpoint.model.http import Http
from setpoint.model.origin import (
    ORIGINS,
    Files,
    Jdbc,
    Landable,
    Landed,
    Origin,
    Rows,
    RowsOf,
    inner_of,
    is_bounded,
    source_error,
)
from setpoint.model.table import TABLES, Postgres, Table

TimeKind = Literal["event", "processing"]
Outside = Literal["refuse", "note"]
_SECRET = re.compile(r"(?i)password|pwd|secret|token")
_LATE = re.compile(r"ignore|fail|restate\((?P<windows>[1-9][0-9]{0,4})\)")


@runtime_checkable
class Upstream(Protocol):
    """Another pipeline, whose target is read."""

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> Table: ...


@dataclass(frozen=True)
class Late:
    """What to do with rows that arrive for a window that is published already.

    `restate` is the number of windows before the newest published one that follow their
    inputs; None means all of them.
    """

    policy: Literal["restate", "ignore", "fail"] = "restate"
    restate: int | None = None

    def __str__(self) -> str:
        return f"restate({self.restate})" if self.restate else self.policy


@dataclass(frozen=True)
class Source:
    """An input of a pipeline: an origin, clipped to the window on its time column.

    An incremental pipeline reads one of its inputs from the high-water mark of a cursor on.
    `outside` says what becomes of rows that the clip leaves out of something that is given for
    the window by name; it decides whether rows are published, not which.
    `pipeline` is the one whose target is read, if it is one.
    """

    origin: Origin
    time: str | None = None
    whole: bool = False
    cursor: tuple[str, ...] = ()
    lookback: timedelta | int | None = None
    time_is: TimeKind = "event"
    late: Late = Late()
    partitions: int | None = None
    probe: str = ""
    pipeline: Any = field(default=None, compare=False, repr=False)
    outside: Outside = "note"
    before: str = ""
    """The columns, if what is read is the pipeline's own window before."""

    @property
    def upstream(self) -> str:
        """The name of the pipeline whose target is read; empty if it is none."""
        return self.pipeline.name if self.pipeline is not None else ""

    @property
    def label(self) -> str:
        return self.upstream or self.origin.label

    @property
    def clip(self) -> str:
        """The clip of something that is given for the window by name, as a person reads it."""
        if self.outside == "refuse":
            return f"{self.time} lies in the window, or else the run is refused"
        return f"{self.time} lies in the window, and other rows are left out with a note"

    @property
    def inner(self) -> Landable:
        """The origin itself, also when what it gives is landed."""
        return inner_of(self.origin)

    @property
    def functions(self) -> tuple[RowsOf, ...]:
        """The user's functions that the rows come from; they count as the pipeline's code."""
        inner = self.inner
        return (inner.function,) if isinstance(inner, Rows) else ()

    def definition(self) -> dict[str, object]:
        """The parts of a source that decide what a run reads; they are in the run key."""
        body: dict[str, object] = {"time": self.time, "whole": self.whole}
        if self.before:
            body |= {"before": self.before}
        if self.cursor:
            body |= {"cursor": list(self.cursor), "lookback": str(self.lookback or 0)}
        if not isinstance(self.origin, TABLES):
            body |= {"origin": self.origin.definition()}
        if isinstance(self.origin, (Postgres, Jdbc)):
            # A probe's answer does not tell of which database it is.
            body |= {"database": _database(self.origin)}
        return body


def source(
    origin: Origin | Upstream,
    *,
    time: str | None = None,
    time_is: TimeKind = "event",
    whole: bool = False,
    cursor: str | Sequence[str] | None = None,
    lookback: timedelta | int | None = None,
    late: str = "",
    partitions: int | None = None,
    probe: str = "",
    outside: Outside | None = None,
) -> Any:
    """Declare an input as the default of a pipeline function's argument.

    `origin` is a table, `files(...)`, `jdbc(...)`, `rows(...)`, something landed, or another
    pipeline, whose target is then read.

    `time` names the column that is clipped to the window; an input without one (a small
    lookup) has to say `whole=True`, and is then read in full by every window. `time_is` says
    whether that column tells when something happened (`"event"`) or when it was recorded
    (`"processing"`). In a pipeline with `every="incremental"`, `cursor` names the column (or
    columns, the most significant first) by which rows are read from the last high-water mark
    on, and `lookback` how far before the mark a read starts, for rows that were committed
    late: a timedelta, or a number for a cursor of whole numbers.

    `late` says what becomes of rows that arrive for a published window: `"restate(3)"` makes
    the three windows before the newest one stale, `"ignore"` leaves windows as they were
    published, `"fail"` refuses to run them again. Without it, every such window is stale.

    `outside` is for `time=` on an input that is asked for the window by name: files with the
    window in their path, a function, an API. Rows of it that lie outside of the window are a
    reason to refuse the run (`"refuse"`, the default for files) or are left out with a note that
    counts them (`"note"`, the default for the others).

    `partitions` is the number of parallel reads of a database. `probe` is a query whose answer
    tells whether the window's part of a database has changed.
    """
    pipeline = None
    if isinstance(origin, Upstream):
        pipeline, origin = origin, origin.target
        if not (time or whole or cursor):
            time = origin.slice_column
    asked: object = origin
    if isinstance(asked, Http):
        raise DefinitionError(
            "SP-D07",
            f"source(http({asked.label!r})) asks the API again on every run.",
            why="What it answers may differ from one run to the next, and what it said before "
            "would be gone.",
            state=NOTHING_STARTED,
            next="Write source(land(http(...))): the answer is kept once per window.",
        )
    if not isinstance(origin, ORIGINS):
        raise source_error(f"source() got {origin!r:.80}, which cannot be read")
    label = pipeline.name if pipeline is not None else origin.label
    cursors = (cursor,) if isinstance(cursor, str) else tuple(cursor or ())
    bounded = is_bounded(origin)
    said = (time is not None) + bool(whole) + bool(cursors)
    if said > 1 or (said == 0 and not bounded):
        raise source_error(
            f"source({label!r}) needs one of time=, cursor= and whole=True, and only one"
        )
    if whole and bounded and not isinstance(inner_of(origin), Rows):
        raise source_error(
            f"source({label!r}) has the window in its address, and whole=True",
            "Leave whole=True out.",
        )
    if cursors and isinstance(origin, Landed):
        raise source_error(
            f"source(land({label!r})) is kept per window, and has a cursor=",
            "Leave land(...) out, or give time= instead of cursor=.",
        )
    if late and isinstance(origin, Landed):
        raise DefinitionError(
            "SP-D07",
            f"source(land({label!r})) has late={late!r:.40}.",
            why="Nobody looks at the origin once a window is landed: late rows are not noticed.",
            state=NOTHING_STARTED,
            next="Leave late= out. To have late rows, land the window anew: setpoint run NAME "
            "--window ID --refresh",
        )
    names = all(isinstance(name, str) and name for name in cursors)
    if not names or len(set(cursors)) != len(cursors):
        raise source_error(
            f"source({label!r}): cursor={cursor!r:.80} is not a list of different columns",
            'Write cursor="updated_at", or cursor=("updated_at", "id").',
        )
    _check_lookback(label, cursors, lookback)
    _check_late(label, origin, late, probe)
    if time_is not in get_args(TimeKind):
        raise source_error(
            f'source({label!r}): time_is={time_is!r:.40} is neither "event" nor "processing"',
            'Write time_is="processing", or leave it out.',
        )
    if partitions is not None and (not isinstance(partitions, int) or not 1 <= partitions <= 1000):
        raise source_error(
            f"source({label!r}): partitions={partitions!r:.40} is not 1 to 1000",
            "Write partitions=8, or leave it out.",
        )
    return Source(
        origin,
        time,
        whole,
        cursors,
        lookback or None,
        time_is,
        _late(label, late, time),
        partitions,
        probe,
        pipeline,
        _outside(label, origin, time, outside),
    )


@dataclass(frozen=True)
class Previous:
    """The pipeline's own window before, as the default of an argument."""

    schema: str


def previous(schema: str) -> Any:
    """Declare an input that holds what the pipeline's own window before was published with.

    `schema` names its columns as in SQL, `"customer_id bigint, balance decimal(18,2)"`: the first
    window of all has no window before and is given no rows. Windows are then run in their order,
    and none is run while the one before it is missing.
    """
    if not isinstance(schema, str) or not schema.strip():
        raise DefinitionError(
            "SP-D07",
            "previous() needs the columns that the window before has.",
            why="The first window is given no rows, and still has to know their columns.",
            state=NOTHING_STARTED,
            next='Write previous("customer_id bigint, balance decimal(18,2)").',
        )
    return Previous(schema.strip())


def _late(label: str, text: str, time: str | None) -> Late:
    if not text:
        return Late()
    found = _LATE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise source_error(
            f"source({label!r}): late={text!r:.40} is none of "
            '"ignore", "fail" and "restate(3)" with a number of windows',
            'Write late="restate(3)", or leave it out.',
        )
    if found["windows"]:
        return Late("restate", int(found["windows"]))
    return Late(cast(Literal["ignore", "fail"], text))


def _outside(label: str, origin: Origin, time: str | None, outside: str | None) -> Outside:
    """The policy for rows outside of the window.

    No other window reads a file that has the window in its path, so its rows would be in no
    window at all. What a function or an API leaves out here it may well return for another one.
    """
    if outside is None:
        return "refuse" if isinstance(inner_of(origin), Files) else "note"
    if outside not in get_args(Outside):
        raise source_error(
            f'source({label!r}): outside={outside!r:.40} is neither "refuse" nor "note"',
            'Write outside="note", or leave it out.',
        )
    if time is None or not is_bounded(origin):
        raise source_error(
            f"source({label!r}) has outside=, but no window in its address, or no time= by which "
            "rows could lie outside of it",
            "Leave outside= out.",
        )
    return cast(Outside, outside)


def _check_late(label: str, origin: Origin, late: str, probe: str) -> None:
    """Only an input that can tell whether it changed can be refused for having changed."""
    if late == "fail" and isinstance(origin, (Postgres, Jdbc, Rows)) and not probe:
        remedy = "land it, source(land(...)), and late rows come by --refresh alone"
        raise DefinitionError(
            "SP-D07",
            f'source({label!r}) says late="fail", but cannot tell whether it has changed.',
            why="Late rows would be found after they were read, if at all: changed code gives "
            "other rows, too.",
            state=NOTHING_STARTED,
            next=f"{remedy[0].upper()}{remedy[1:]}."
            if isinstance(origin, Rows)
            else f"Give probe=, such as SELECT count(*), max(updated_at) FROM ...; or {remedy}.",
        )


def _database(origin: Postgres | Jdbc) -> dict[str, object]:
    """Where a database's rows come from, and the options that may change them."""
    place: dict[str, object] = {"table": origin.label, "connection": origin.connection}
    if isinstance(origin, Jdbc):
        # A new password changes no row.
        known = {key: value for key, value in origin.options.items() if not _SECRET.search(key)}
        place |= {"options": known}
    return place


def _check_lookback(label: str, cursor: tuple[str, ...], lookback: timedelta | int | None) -> None:
    if lookback is None:
        return
    known = isinstance(lookback, (timedelta, int)) and not isinstance(lookback, bool)
    negative = known and lookback < type(lookback)(0)  # type: ignore[operator]
    if not known or negative or not cursor:
        raise source_error(
            f"source({label!r}): lookback={lookback!r:.60} is not a timedelta or a number from 0 "
            "on, beside a cursor",
            'Write cursor="updated_at", lookback=timedelta(minutes=10).',
        )
