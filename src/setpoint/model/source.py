"""What a pipeline reads: the values a user writes to declare an input."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Literal, Protocol, cast, get_args, runtime_checkable

from setpoint.errors import NOTHING_STARTED, DefinitionError
from setpoint.model.fingerprint import digest
from setpoint.model.http import Http
from setpoint.model.table import TABLES, Postgres, Table
from setpoint.model.window import Window

TimeKind = Literal["event", "processing"]
FileFormat = Literal["parquet", "csv", "json"]
Absent = Literal["fail", "empty"]
OriginKind = Literal["files", "jdbc", "rows", "http", "landed"]

_SUFFIXES: dict[str, FileFormat] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_HOLE = re.compile(r"\{(start|end|date)(?::[^{}]*)?\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_FILES = 'Write files("inbox/{date}/*.csv", schema="order_id long, amount decimal(12,2)").'
_LAND = (
    'Write land(http(...)), land(rows(...)) or land(postgres("shop.accounts"), name="accounts").'
)
_SECRET = re.compile(r"(?i)password|pwd|secret|token")
_LATE = re.compile(r"ignore|fail|restate\((?P<windows>[1-9][0-9]{0,4})\)")


@dataclass(frozen=True, kw_only=True)
class Files:
    """Files of one format, by folder or pattern. Made with `files(...)`."""

    kind: ClassVar[OriginKind] = "files"

    paths: tuple[str, ...]
    format: FileFormat
    schema: str = ""
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    absent: Absent = "fail"

    @property
    def label(self) -> str:
        return ", ".join(self.paths)

    @property
    def by_window(self) -> bool:
        """Whether the paths themselves say which window a file belongs to."""
        return any(_HOLE.search(path) for path in self.paths)

    def paths_of(self, window: Window) -> tuple[str, ...]:
        """The paths with the window's times in their holes."""
        values = {"start": window.start, "end": window.end, "date": window.day}

        def filled(found: re.Match[str]) -> str:
            return found[0].format(**values)

        return tuple(_HOLE.sub(filled, path) for path in self.paths)

    def definition(self) -> dict[str, object]:
        """The parts that decide what a run reads."""
        return {
            "format": self.format,
            "schema": self.schema,
            "options": dict(self.options),
            "paths": list(self.paths),
            "absent": self.absent,
        }


@dataclass(frozen=True, kw_only=True)
class Jdbc:
    """A table or a query of a database that Spark reaches by JDBC. Made with `jdbc(...)`."""

    kind: ClassVar[OriginKind] = "jdbc"

    table: str = ""
    query: str = ""
    connection: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @property
    def label(self) -> str:
        return self.table or "a query"

    def definition(self) -> dict[str, object]:
        """The parts that decide what a run reads."""
        return {"table": self.table, "query": self.query}


RowsOf = Callable[[Window], Iterable[Any]]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a Python function returns for a window. Made with `rows(...)`."""

    kind: ClassVar[OriginKind] = "rows"

    function: RowsOf
    schema: str

    @property
    def label(self) -> str:
        return str(getattr(self.function, "__name__", "a function"))

    def definition(self) -> dict[str, object]:
        """The parts that decide what a run reads; the code is in the pipeline's fingerprint."""
        return {"schema": self.schema}


Landable = Table | Files | Jdbc | Rows | Http
LANDABLE = (*TABLES, Files, Jdbc, Rows, Http)


@dataclass(frozen=True, kw_only=True)
class Landed:
    """What another origin returned, kept once per window. Made with `land(...)`."""

    kind: ClassVar[OriginKind] = "landed"

    origin: Landable
    name: str = ""

    @property
    def label(self) -> str:
        return self.origin.label

    def request(self) -> dict[str, object]:
        """What the origin is asked: the question that a landed copy answers."""
        match self.origin:
            case Http():
                asked = self.origin.request()
            case Files() | Rows():
                asked = {**self.origin.definition(), "label": self.origin.label}
            case Jdbc(table=table, query=query, connection=connection):
                # Named one by one: options may hold a password, and this is kept in the record.
                asked = {"table": table, "query": query, "connection": connection}
            case Postgres(connection=connection):
                asked = {"table": self.origin.label, "connection": connection}
            case _:
                asked = {"table": self.origin.label}
        return {"kind": self.origin.kind, **asked}

    def definition(self) -> dict[str, object]:
        """The parts that decide what a run reads; where the copy lies is none of them."""
        read = self.origin.definition() if isinstance(self.origin, Http) else self.request()
        return {"landed": self.origin.kind, **read}


Origin = Table | Files | Jdbc | Rows | Landed
ORIGINS = (*TABLES, Files, Jdbc, Rows, Landed)


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
    `upstream` is the pipeline whose target is read, if it is one.
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
    upstream: str = ""

    @property
    def label(self) -> str:
        return self.upstream or self.origin.label

    @property
    def inner(self) -> Landable:
        """The origin itself, also when what it gives is landed."""
        return _inner(self.origin)

    @property
    def functions(self) -> tuple[RowsOf, ...]:
        """The user's functions that the rows come from; they count as the pipeline's code."""
        inner = self.inner
        return (inner.function,) if isinstance(inner, Rows) else ()

    def definition(self) -> dict[str, object]:
        """The parts of a source that decide what a run reads; they are in the run key."""
        body: dict[str, object] = {"time": self.time, "whole": self.whole}
        if self.cursor:
            body |= {"cursor": list(self.cursor), "lookback": str(self.lookback or 0)}
        if not isinstance(self.origin, TABLES):
            body |= {"origin": self.origin.definition()}
        if isinstance(self.origin, (Postgres, Jdbc)):
            # A probe's answer does not tell of which database it is.
            body |= {"database": _database(self.origin)}
        return body


def files(
    *paths: str,
    format: FileFormat | None = None,
    schema: str = "",
    options: Mapping[str, str] | None = None,
    absent: Absent = "fail",
) -> Files:
    """Name files to read: folders, or patterns such as `inbox/orders/*.csv`.

    A path may hold the window's times, `inbox/{date}/*.json` or `inbox/{start:%Y/%m/%d}`: then
    the path is what bounds the read. The format follows from the suffix, or is given. CSV and
    JSON need a `schema` in Spark's notation, because a guess from the data changes with the
    data. `options` are those of Spark's reader for the format. A window for which no file is
    there fails; with `absent="empty"` it has no rows.
    """
    if not paths or not all(isinstance(path, str) and path.strip("/ ") for path in paths):
        raise _source_error(f"files() got {paths!r:.80} where paths belong", _FILES)
    known = format or _format_of(paths)
    if known not in get_args(FileFormat):
        raise _source_error(
            f"files({paths[0]!r}): the format is not known; give format=, one of "
            f"{', '.join(get_args(FileFormat))}",
            _FILES,
        )
    if absent not in get_args(Absent):
        raise _source_error(f"files({paths[0]!r}): absent={absent!r:.40} is not known", _FILES)
    if known != "parquet" and not schema:
        raise _source_error(
            f"files({paths[0]!r}): {known} files need schema=: a guess changes with the data",
            _FILES,
        )
    return Files(
        paths=paths,
        format=cast(FileFormat, known),
        schema=schema,
        options=dict(options or {}),
        absent=absent,
    )


def _format_of(paths: Sequence[str]) -> FileFormat | None:
    names = [path.lower().removesuffix(".gz") for path in paths]
    found = {next((f for s, f in _SUFFIXES.items() if n.endswith(s)), None) for n in names}
    return found.pop() if len(found) == 1 else None


def jdbc(
    table: str = "",
    *,
    query: str = "",
    connection: str,
    options: Mapping[str, str] | None = None,
) -> Jdbc:
    """Name a table, or a query, of any database with a JDBC driver.

    `connection` names a `jdbc:` URL under `[connections]` of the configuration, or in the
    environment as SETPOINT_CONNECTION_<NAME>. The driver's jar is named in `[spark] jars`.
    `options` are those of Spark's JDBC reader. PostgreSQL is better read with `postgres(...)`,
    in one snapshot.
    """
    if bool(table) == bool(query):
        raise _source_error(
            "jdbc() needs either a table or query=, and not both",
            'Write jdbc("APP.ORDERS", connection="legacy").',
        )
    return Jdbc(table=table, query=query, connection=connection, options=dict(options or {}))


def rows(function: RowsOf, *, schema: str) -> Rows:
    """Take as input what a Python function returns for a window.

    The function gets the window and returns tuples, dicts or an Arrow table; `schema` is in
    Spark's notation. What it returns may differ the next time: `land(rows(...))` keeps the
    first answer.
    """
    if not callable(function) or not schema:
        raise _source_error(
            "rows() needs a function of a window, and schema=",
            'Write rows(fetch, schema="id long, amount decimal(12,2)").',
        )
    return Rows(function=function, schema=schema)


def land(origin: Landable, name: str = "") -> Landed:
    """Keep what an origin returns, once per window, and read the kept copy from then on.

    For what cannot be read again: `land(http(...))`, `land(rows(...))`, or a table that others
    change, `land(postgres("shop.accounts"))`. `--refresh` lands a new generation beside the old
    ones. The copy lies below `[landing] path` of the configuration, under `name`; without one
    the name is that of the pipeline and of the argument. Pipelines with the same question may
    share a name.
    """
    if not isinstance(origin, LANDABLE):
        raise _source_error(f"land() got {origin!r:.80}, which cannot be landed", _LAND)
    if name and not _NAME.fullmatch(name):
        raise _source_error(
            f"land({origin.label!r}): name={name!r:.80} is not a name of letters, digits, '_', "
            "'-' and '.', starting with a letter",
            _LAND,
        )
    return Landed(origin=origin, name=name)


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

    `partitions` is the number of parallel reads of a database. `probe` is a query whose answer
    tells whether the window's part of a database has changed.
    """
    upstream = ""
    if isinstance(origin, Upstream):
        upstream, origin = origin.name, origin.target
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
        raise _source_error(f"source() got {origin!r:.80}, which cannot be read")
    label = upstream or origin.label
    cursors = (cursor,) if isinstance(cursor, str) else tuple(cursor or ())
    bounded = _is_bounded(origin)
    said = (time is not None) + bool(whole) + bool(cursors)
    if said > 1 or (said == 0 and not bounded):
        raise _source_error(
            f"source({label!r}) needs one of time=, cursor= and whole=True, and only one"
        )
    if whole and bounded and not isinstance(_inner(origin), Rows):
        raise _source_error(
            f"source({label!r}) has the window in its address, and whole=True",
            "Leave whole=True out.",
        )
    if cursors and isinstance(origin, Landed):
        raise _source_error(
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
        raise _source_error(
            f"source({label!r}): cursor={cursor!r:.80} is not a list of different columns",
            'Write cursor="updated_at", or cursor=("updated_at", "id").',
        )
    _check_lookback(label, cursors, lookback)
    _check_late(label, origin, late, probe)
    if time_is not in get_args(TimeKind):
        raise _source_error(
            f'source({label!r}): time_is={time_is!r:.40} is neither "event" nor "processing"',
            'Write time_is="processing", or leave it out.',
        )
    if partitions is not None and (not isinstance(partitions, int) or not 1 <= partitions <= 1000):
        raise _source_error(
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
        upstream,
    )


def _inner(origin: Origin) -> Landable:
    return origin.origin if isinstance(origin, Landed) else origin


def _is_bounded(origin: Origin) -> bool:
    """Whether an origin gives the rows of the window without being clipped."""
    inner = _inner(origin)
    return isinstance(inner, Rows) or (isinstance(inner, (Files, Http)) and inner.by_window)


def tells_windows_apart(filled: Callable[[Window], object], window: Window) -> bool:
    """Whether an address with the window's times in its holes is the window's own.

    `{date}` is the same for all hours of a day, and an hour without its offset for the two hours
    that the clock shows alike when it is put back.
    """
    return _shared_with(filled, window) is None


def refuse_shared_address(
    label: str, filled: Callable[[Window], object], windows: Iterable[Window]
) -> None:
    """Refuse an address that nothing but itself bounds, and that several windows share."""
    for window in windows:
        if (other := _shared_with(filled, window)) is not None:
            first, second = sorted((window, other))
            raise DefinitionError(
                "SP-D07",
                f"source({label!r}) has the same address for {first.id} and {second.id}.",
                why="Each of these windows would hold the rows of both.",
                state=NOTHING_STARTED,
                next="Give time=, which clips the rows, or write the start as finely as the "
                "windows are: {start:%Y-%m-%dT%H%M%z}",
            )


def _shared_with(filled: Callable[[Window], object], window: Window) -> Window | None:
    own, start = filled(window), window.start
    # Where the clock was put back, the time that it showed before or after that.
    twin = Window.containing(start.replace(fold=1 - start.fold), window.grain, window.timezone)
    others = (window.previous(), window.next(), twin)
    return next((w for w in others if w != window and filled(w) == own), None)


def _late(label: str, text: str, time: str | None) -> Late:
    if not text:
        return Late()
    found = _LATE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise _source_error(
            f"source({label!r}): late={text!r:.40} is none of "
            '"ignore", "fail" and "restate(3)" with a number of windows',
            'Write late="restate(3)", or leave it out.',
        )
    if found["windows"]:
        return Late("restate", int(found["windows"]))
    return Late(cast(Literal["ignore", "fail"], text))


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
        raise _source_error(
            f"source({label!r}): lookback={lookback!r:.60} is not a timedelta or a number from 0 "
            "on, beside a cursor",
            'Write cursor="updated_at", lookback=timedelta(minutes=10).',
        )


_BOUNDED = 'Write source(delta("lake/orders"), time="order_date"), or whole=True for a lookup.'


def _source_error(what: str, next: str = _BOUNDED) -> DefinitionError:
    unbounded = "A read that is not bounded by the window gives other rows on every run."
    return DefinitionError(
        "SP-D07",
        f"{what}.",
        why=unbounded if next == _BOUNDED else "What is read has to be known before it is read.",
        state=NOTHING_STARTED,
        next=next,
    )


def probe_fingerprint(*answers: object) -> str:
    """The fingerprint of a probe's answer."""
    return digest(*(repr(answer) for answer in answers))
