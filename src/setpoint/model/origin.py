"""Where a pipeline's input comes from: the values a user writes to name it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, cast, get_args

from setpoint.errors import NOTHING_STARTED, DefinitionError
from setpoint.model.http import Http
from setpoint.model.secret import refuse_url_for_name
from setpoint.model.span import Span
from setpoint.model.table import TABLES, Postgres, Table
from setpoint.model.window import Window

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
_LOGIN = re.compile(r"[A-Za-z][\w+.-]*://[^/]*:[^/]*@")
_SHARING = 40_000  # more than a year has quarters of an hour
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_BOUNDED = 'Write source(delta("lake/orders"), time="order_date"), or whole=True for a lookup.'
_FILES = 'Write files("inbox/{date}/*.csv", schema="order_id long, amount decimal(12,2)").'
_LAND = (
    'Write land(http(...)), land(rows(...)) or land(postgres("shop.accounts"), name="accounts").'
)


@dataclass(frozen=True, kw_only=True)
class Files:
    """Files of one format, by folder or pattern. Made with `files(...)`."""

    kind: ClassVar[OriginKind] = "files"

    paths: tuple[str, ...]
    format: FileFormat
    schema: str = ""
    options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
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

    def named_by(self, window: Window) -> tuple[str, ...]:
        """Those of its paths that hold the window's times, with them."""
        pairs = zip(self.paths, self.paths_of(window), strict=True)
        return tuple(filled for path, filled in pairs if _HOLE.search(path))

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
        raise source_error(f"files() got {paths!r:.80} where paths belong", _FILES)
    if any(_LOGIN.match(path) for path in paths):
        raise source_error(
            "files() got a path that holds a password, and paths are shown and recorded",
            "Give the store's credentials by [spark.conf], as env:NAME, or by the environment.",
        )
    known = format or _format_of(paths)
    if known not in get_args(FileFormat):
        raise source_error(
            f"files({paths[0]!r}): the format is not known; give format=, one of "
            f"{', '.join(get_args(FileFormat))}",
            _FILES,
        )
    if absent not in get_args(Absent):
        raise source_error(f"files({paths[0]!r}): absent={absent!r:.40} is not known", _FILES)
    if known != "parquet" and not schema:
        raise source_error(
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
    refuse_url_for_name(connection)
    if bool(table) == bool(query):
        raise source_error(
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
        raise source_error(
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
        raise source_error(f"land() got {origin!r:.80}, which cannot be landed", _LAND)
    if name and not _NAME.fullmatch(name):
        raise source_error(
            f"land({origin.label!r}): name={name!r:.80} is not a name of letters, digits, '_', "
            "'-' and '.', starting with a letter",
            _LAND,
        )
    return Landed(origin=origin, name=name)


def inner_of(origin: Origin) -> Landable:
    return origin.origin if isinstance(origin, Landed) else origin


def is_bounded(origin: Origin) -> bool:
    """Whether an origin gives the rows of the window without being clipped."""
    inner = inner_of(origin)
    return isinstance(inner, Rows) or (isinstance(inner, (Files, Http)) and inner.by_window)


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


def sharing_address(filled: Callable[[Window], object], window: Window) -> Span | None:
    """The windows around one that have its address; None where there is no end to them."""
    own = filled(window)
    ends = []
    for step in (Window.previous, Window.next):
        last = window
        for _ in range(_SHARING):
            if filled(step(last)) != own:
                break
            last = step(last)
        else:
            return None
        ends.append(last)
    windows = [ends[0]]
    while windows[-1] < ends[1]:
        windows.append(windows[-1].next())
    return Span(tuple(windows))


def _shared_with(filled: Callable[[Window], object], window: Window) -> Window | None:
    own, start = filled(window), window.start
    # Where the clock was put back, the time that it showed before or after that.
    twin = Window.containing(start.replace(fold=1 - start.fold), window.grain, window.timezone)
    others = (window.previous(), window.next(), twin)
    return next((w for w in others if w != window and filled(w) == own), None)


def source_error(what: str, next: str = _BOUNDED) -> DefinitionError:
    unbounded = "A read that is not bounded by the window gives other rows on every run."
    return DefinitionError(
        "SP-D07",
        f"{what}.",
        why=unbounded if next == _BOUNDED else "What is read has to be known before it is read.",
        state=NOTHING_STARTED,
        next=next,
    )
