"""The pipeline: a pure function of a window and bounded inputs, and what surrounds it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from setpoint.errors import NOTHING_STARTED, DefinitionError, SetpointError, UsageError
from setpoint.model import audit as audits_of
from setpoint.model.audit import Audit
from setpoint.model.determinism import checked_allowances
from setpoint.model.fingerprint import code_fingerprint, digest
from setpoint.model.grain import Grain
from setpoint.model.moment import during
from setpoint.model.slice import SliceRule
from setpoint.model.source import Previous, Source
from setpoint.model.support import refuse_unsupported
from setpoint.model.table import TABLES, Postgres, Table
from setpoint.model.wallclock import zone_of
from setpoint.model.window import Window
from setpoint.model.write import (
    KEYED,
    PATTERNS,
    DeleteInsert,
    Merge,
    Overwrite,
    Replace,
    WritePattern,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class Pipeline:
    """A named function with its grain, inputs, target, write pattern and audits.

    Calling it calls the function, so that a unit test can pass hand-made frames.
    """

    name: str
    function: Callable[..., Any]
    every: Grain
    timezone: str
    target: Table
    write: WritePattern
    audits: tuple[Audit, ...]
    sources: Mapping[str, Source]
    parameters: Mapping[str, Any]
    start: Window | None = None
    allow: Mapping[str, str] = field(default_factory=dict, compare=False)
    spans: bool = field(default=False, compare=False)
    file: str = field(default="", compare=False)

    def __call__(self, window: Window, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(self.function).bind_partial(window, *args, **kwargs)
        missing = [name for name in self.sources if name not in bound.arguments]
        if missing:
            raise UsageError(
                "SP-D08",
                f"{self.name}() was called without {', '.join(missing)}.",
                why="Called directly, a pipeline is a plain function: nothing is read for it.",
                state=NOTHING_STARTED,
                next=f"Pass a frame: {self.name}(window, {missing[0]}=frame), or: setpoint run "
                f"{self.name}",
            )
        with during(window):
            return self.function(window, *args, **kwargs)

    @property
    def description(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n", 1)[0]

    @property
    def cursor_source(self) -> str | None:
        """The argument that is read from the high-water mark on; None without a mark."""
        return next((name for name, item in self.sources.items() if item.cursor), None)

    @property
    def reads_itself(self) -> bool:
        """Whether a window needs the one before it."""
        return any(item.before for item in self.sources.values())

    @property
    def slice_column(self) -> str | None:
        """The column that divides the table into windows, for patterns that go by windows."""
        if isinstance(self.write, (Overwrite, DeleteInsert)):
            return self.target.slice_column
        return None

    def slice_rule(self, kind_of: Callable[[str], str]) -> SliceRule | None:
        """How windows are found in a table; `kind_of` tells the type of the slice column there."""
        column = self.slice_column
        if column is None:
            return None
        return SliceRule.of(column, kind_of(column), self.every, self.timezone)

    def needed_columns(self) -> dict[str, str]:
        """The columns that the definition asks for, with what each is for."""
        needed = {name: "a partition column" for name in self.target.partition_by}
        if column := self.slice_column:
            needed[column] = "the column that says which window a row belongs to"
        if isinstance(self.write, KEYED):
            needed |= {name: "a part of the key" for name in self.write.keys}
        if isinstance(self.write, Merge):
            needed |= {name: "a part of sequence_by" for name in self.write.sequence}
        return needed

    @property
    def newest_counts(self) -> bool:
        """Whether all windows state the same rows, so that the newest window's are the table's."""
        match self.write:
            case Replace():
                return True
            case Merge():
                return self.write.when_missing == "delete"
            case DeleteInsert():
                return self.target.slice_column is None
            case _:
                return False

    @property
    def code(self) -> str:
        """The fingerprint of the function, of those it reads from, and of the code they reach."""
        inputs = [function for item in self.sources.values() for function in item.functions]
        return code_fingerprint(self.function, *inputs)

    def definition(self) -> dict[str, object]:
        """What surrounds the function and decides the published state."""
        return {
            "every": str(self.every),
            "target": self.target.definition(),
            "write": self.write.definition(),
            "audits": digest(*(audits_of.definition(audit) for audit in self.audits)),
            "sources": {name: item.definition() for name, item in self.sources.items()},
        }


def pipeline(
    *,
    every: str,
    target: Table,
    write: WritePattern | None = None,
    audits: Sequence[Any] = (),
    name: str | None = None,
    timezone: str = "UTC",
    start: str | None = None,
    allow: Mapping[str, str] | None = None,
    spans: bool = False,
) -> Callable[[Callable[..., Any]], Pipeline]:
    """Turn a function of a window and its inputs into a pipeline.

    The first argument receives the window. Arguments whose default is `source(...)` receive
    the clipped inputs; other defaults are parameters, set with `--param name=value`. `start`
    is the first window that should exist: from there on, a missing window is a gap. `allow`
    names findings of the determinism check that are no mistake, each with its reason. With
    `spans=True` the function is called once for many windows that follow each other, with a
    `Span` in place of the window: a column of its rows says which window each belongs to.
    """

    def decorate(function: Callable[..., Any]) -> Pipeline:
        grain = Grain.parse(every)
        zone_of(timezone)
        chosen = str(name or getattr(function, "__name__", ""))
        if not _NAME.fullmatch(chosen):
            raise _definition_error(
                f"{chosen!r:.80} is not a pipeline name",
                "Use letters, digits, '_', '-' and '.', starting with a letter.",
            )
        sources, parameters = _arguments(chosen, function, target)
        built = Pipeline(
            name=chosen,
            function=function,
            every=grain,
            timezone=timezone,
            target=target,
            write=write if write is not None else Overwrite(),
            audits=tuple(audits_of.as_audit(item) for item in audits),
            sources=sources,
            parameters=parameters,
            start=Window.parse(start, every=str(grain), timezone=timezone) if start else None,
            allow=checked_allowances(chosen, allow),
            spans=spans,
            file=getattr(getattr(function, "__code__", None), "co_filename", ""),
        )
        check(built)
        return built

    return decorate


def check(pipeline: Pipeline) -> None:
    """Refuse a definition that cannot keep the promise; needs neither Spark nor the table."""
    if not isinstance(pipeline.target, TABLES):
        raise _definition_error(
            f"{pipeline.name}: target={pipeline.target!r:.80} is not a table",
            'Write target=delta("warehouse/orders", partition_by="order_date").',
        )
    if not isinstance(pipeline.write, PATTERNS):
        raise _definition_error(
            f"{pipeline.name}: write={pipeline.write!r:.80} is not a write pattern",
            "Write write=Overwrite(), or leave it out.",
        )
    refuse_unsupported(pipeline.name, pipeline.write, pipeline.target)
    if pipeline.spans and not isinstance(pipeline.write, Overwrite):
        raise _definition_error(
            f"{pipeline.name}: spans=True goes with write=Overwrite() only",
            "Leave spans=True out: only slices of windows can be told apart afterwards.",
        )
    _check_incremental(pipeline)
    _check_previous(pipeline)
    slices = isinstance(pipeline.write, (Overwrite, DeleteInsert))
    if pipeline.target.slice_column is None:
        if not isinstance(pipeline.write, Overwrite):
            return
        raise DefinitionError(
            "SP-D03",
            f"{pipeline.name}: the target {pipeline.target.label} names no column that a "
            f"{pipeline.every} window can own.",
            why="Without it a run could only replace the whole table or add to it.",
            state=NOTHING_STARTED,
            next='Give the target partition_by="<column>" or time="<column>", or choose another '
            "write pattern.",
        )
    unit = pipeline.target.partition_every
    if unit is not None and slices:
        refuse_coarse_partition(pipeline, pipeline.target.slice_column, unit)


def _check_incremental(pipeline: Pipeline) -> None:
    """A high-water mark needs a cursor, and a write to which a repeated row does no harm."""
    cursors = [name for name, item in pipeline.sources.items() if item.cursor]
    if not pipeline.every.is_incremental:
        if cursors:
            raise _definition_error(
                f"{pipeline.name}: the source {cursors[0]} has a cursor, but the pipeline runs "
                f"every {pipeline.every}",
                'Write every="incremental", or give the source time= instead of cursor=.',
            )
        return
    timed = [name for name, item in pipeline.sources.items() if item.time]
    if len(cursors) != 1 or timed:
        raise _definition_error(
            f"{pipeline.name}: an incremental pipeline needs exactly one source with cursor=, and "
            "the others with whole=True",
            'Write source(delta("lake/orders"), cursor="updated_at").',
        )
    write = pipeline.write
    if not isinstance(write, KEYED) or (isinstance(write, Merge) and write.when_missing != "keep"):
        raise _definition_error(
            f"{pipeline.name}: an incremental pipeline cannot write with {type(write).__name__}"
            f"{' of complete states' if isinstance(write, Merge) else ''}",
            'Write write=Merge(key="...", sequence_by="..."), or InsertNew(key="...") for events: '
            "rows around the mark are read again, and must not be there twice.",
        )
    if write.null_keys == "quarantine":
        raise _definition_error(
            f'{pipeline.name}: null_keys="quarantine" needs windows, and an incremental pipeline '
            "has none",
            'Use "refuse" or "allow", or filter the rows in the pipeline.',
        )


def _check_previous(pipeline: Pipeline) -> None:
    """A window can only go on from one that has a slice of its own."""
    if not pipeline.reads_itself:
        return
    if not isinstance(pipeline.write, Overwrite) or pipeline.spans or pipeline.every.is_incremental:
        raise _definition_error(
            f"{pipeline.name}: previous() goes with write=Overwrite() and windows that are run one "
            "by one",
            "Leave spans=True out, and write with Overwrite().",
        )
    if isinstance(pipeline.target, Postgres):
        raise _definition_error(
            f"{pipeline.name}: previous() does not read from PostgreSQL",
            "Write to a Delta, Iceberg or Parquet table.",
        )


def windows_named(ids: Iterable[str], pipeline: Pipeline) -> list[Window]:
    """The windows of a pipeline that some ids name, as a target or a ledger has kept them."""
    windows = []
    for text in ids:
        try:
            windows.append(Window.parse(text, every=pipeline.every, timezone=pipeline.timezone))
        except SetpointError:
            continue  # a window of the time before the grain or the zone was changed
    return windows


def carrying(pipeline: Pipeline, ids: Iterable[str]) -> list[Window]:
    """Those of some windows that may go on from the one before: the start begins with nothing."""
    return [window for window in windows_named(ids, pipeline) if window != pipeline.start]


def newest_of(ids: Iterable[str], pipeline: Pipeline) -> str:
    """The newest of some windows of a pipeline, by their place in time; empty if there is none."""
    windows = windows_named(ids, pipeline)
    return max(windows).id if windows else ""


def refuse_coarse_partition(pipeline: Pipeline, column: str, unit: Grain) -> None:
    """Refuse a partition that holds more than one window: replacing it would wipe the others."""
    if unit.nests_in(pipeline.every):
        return
    raise DefinitionError(
        "SP-D04",
        f"{pipeline.name} runs every {pipeline.every} but its target {pipeline.target.label} is "
        f"partitioned by {unit} ({column}).",
        why=f"Replacing the {unit} partition of one {pipeline.every} window would delete the rows "
        "of the others.",
        state=NOTHING_STARTED,
        next=f'Partition the target by {pipeline.every} or finer, or write every="{unit}".',
    )


def _arguments(
    name: str, function: Callable[..., Any], target: Table
) -> tuple[dict[str, Source], dict[str, Any]]:
    arguments = list(inspect.signature(function).parameters.values())
    if not arguments or arguments[0].default is not inspect.Parameter.empty:
        raise _definition_error(
            f"{name}: the function's first argument must be the window",
            f"Write def {name}(window: Window, ...).",
        )
    sources: dict[str, Source] = {}
    parameters: dict[str, Any] = {}
    for argument in arguments[1:]:
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        if isinstance(argument.default, Source):
            sources[argument.name] = argument.default
        elif isinstance(argument.default, Previous):
            column = getattr(target, "slice_column", None)
            sources[argument.name] = Source(target, column, before=argument.default.schema)
        elif argument.default is inspect.Parameter.empty:
            raise _definition_error(
                f"{name}: the argument {argument.name!r} has no default",
                f"Write {argument.name}=source(...) for an input, or a plain default value for a "
                "parameter.",
            )
        else:
            parameters[argument.name] = argument.default
    return sources, parameters


def _definition_error(what: str, next: str) -> DefinitionError:
    return DefinitionError("SP-D01", f"{what}.", state=NOTHING_STARTED, next=next)
