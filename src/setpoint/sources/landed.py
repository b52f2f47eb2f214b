"""A landed source: what its origin returned is kept once per window, and read from there.

Landing and reading are two things. The origin is asked when a window has no landed copy, or
when a new generation is wanted; every read is of one generation, which never changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from setpoint.errors import PermanentError, SetpointError
from setpoint.model.fingerprint import digest
from setpoint.model.grain import Grain
from setpoint.model.http import Http
from setpoint.model.landing import Landing, asked_of, recorded
from setpoint.model.mark import Mark
from setpoint.model.origin import Landed, is_bounded, refuse_shared_address, sharing_address
from setpoint.model.ports import Leftover, Remarks
from setpoint.model.run import Pinned
from setpoint.model.source import Source
from setpoint.model.span import Span
from setpoint.model.window import Window
from setpoint.sources.clip import Clipped, clip_counts
from setpoint.sources.failures import clip_rule, gone
from setpoint.sources.landing import Kept, Shelf
from setpoint.sources.supply import Supply

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as T

_NOT_LANDED = "not landed"
_MOMENT_ADVICE = (
    "Write timestamp or date for it in schema=, which takes ISO texts and whole seconds; nothing "
    "has to be landed anew. For milliseconds, ask for the window itself ({start:unix_ms}) and "
    "leave time= out."
)


class LandedSource:
    """The landing port, over any origin that can fill a generation."""

    def __init__(
        self,
        name: str,
        source: Source,
        pipeline: str,
        every: Grain,
        timezone: str,
        shelf: Shelf,
        supply: Supply,
        now: Callable[[], datetime],
    ) -> None:
        assert isinstance(source.origin, Landed)
        self._name, self._source, self._pipeline = name, source, pipeline
        self._origin = source.origin.origin
        self._every, self._timezone = every, timezone
        self._shelf, self._supply, self._now = shelf, supply, now
        self._planned: dict[Window, int] = {}
        self._mine: dict[Window, Kept] = {}
        self._clipped: dict[Window, Clipped] = {}

    @property
    def label(self) -> str:
        return self._source.label

    @property
    def uri(self) -> str:
        """Where landed copies lie; the places of leftovers start there."""
        return self._shelf.storage.uri

    def connectors(self) -> frozenset[str]:
        return self._supply.connectors()

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        if isinstance(self._origin, Http) and self._origin.by_window and self._source.time is None:
            refuse_shared_address(self.label, self._origin.asked_for, windows)
        # One look at the whole shelf, so that many windows without a copy cost nothing.
        held = self._shelf.windows()
        found = {w: self._shelf.newest(w) if w.slug in held else None for w in windows}
        for window, kept in found.items():
            self._planned[window] = kept.landing.generation if kept else 0
        return {window: self._as_asked(window, kept) for window, kept in found.items()}

    def _as_asked(self, window: Window, kept: Kept | None) -> Pinned:
        """What is landed; a copy that answers another question is no known input, read or not."""
        pinned = _pinned(kept)
        if kept is None or self._answers(window, kept):
            return pinned
        return replace(pinned, fingerprint=digest(pinned.fingerprint, "another question"))

    def _answers(self, window: Window, kept: Kept) -> bool:
        start, end = window.start.isoformat(), window.end.isoformat()
        return kept.landing.asked == asked_of(self._supply.request(), start, end)

    def pin_published(self, window: Window, recorded: Mapping[str, Any]) -> Pinned:
        number = recorded.get("version")
        kept = self._shelf.generation(window, number) if isinstance(number, int) else None
        what = f"The landed generation {number}"
        if kept is None:
            raise gone(self._name, self.label, what, f"it is not at {self.uri}")
        pinned = _pinned(kept)
        if pinned.fingerprint != recorded.get("fingerprint"):
            raise gone(self._name, self.label, what, "its items are others now")
        # Asked for by name: it may well answer an older question than the pipeline asks now.
        return replace(pinned, handle=(kept, "as published"))

    def land(self, session: Any, window: Window, attempt: str) -> Pinned:
        """Land the generation after the one that was planned on.

        If it is there by now, another process was faster: then it is taken as it is. So does a
        retry of the same command, which must not ask the origin a second time.
        """
        if window in self._mine:
            return _pinned(self._mine[window])
        number = self._planned.get(window, 0) + 1
        kept = self._shelf.generation(window, number)
        if kept is None:
            kept = self._filled(session, window, number, attempt)
        self._mine[window] = kept
        return _pinned(kept)

    def _filled(self, session: Any, window: Window, number: int, attempt: str) -> Kept:
        folder = self._shelf.folder(window, number, attempt)
        request = dict(self._supply.request())
        start, end = window.start.isoformat(), window.end.isoformat()
        try:
            filled = self._supply.fill(session, window, self._shelf.storage, folder)
        except BaseException:
            with suppress(SetpointError):
                self._shelf.drop(folder)
            raise
        landing = Landing(
            name=self._shelf.name,
            window=window.id,
            start=start,
            end=end,
            generation=number,
            attempt=attempt,
            landed_at=self._now().isoformat(timespec="seconds"),
            asked=asked_of(request, start, end),
            items=filled.items,
            contents=filled.contents,
            request=recorded(request),
            pages=filled.pages,
            readings=filled.readings,
            notes=filled.notes,
        )
        # Not dropped when this fails: a commit without an answer may yet name the files.
        kept = self._shelf.commit(window, landing, folder, filled.schema)
        if kept.landing.attempt != attempt:
            with suppress(SetpointError):
                self._shelf.drop(folder)
        return kept

    def bounds(self, window: Window) -> str:
        if self._source.whole:
            return "whole, as landed for the window"
        if self._source.time is None:
            return "as landed"
        bounded = is_bounded(self._source.origin)
        return self._source.clip if bounded else f"{self._source.time} in the window"

    def read(self, session: SparkSession, window: Window, pinned: Pinned) -> DataFrame:
        from setpoint.spark.files import read_files

        kept, as_published = _handle(pinned)
        if not as_published:
            self._refuse_other_question(window, kept)
        root = self._shelf.storage.spark_path()
        try:
            frame = read_files(session, root, kept.schema, (), kept.files)
            if not isinstance(self._origin, Http):
                return frame
            return self._items(frame, window, kept.landing.items)
        except SetpointError:
            raise
        except Exception as error:
            raise self._unreadable(window, kept, error) from error

    def _unreadable(self, window: Window, kept: Kept, error: Exception) -> SetpointError:
        from setpoint.spark.failures import explain

        doing = f"reading generation {kept.landing.generation} of {self._name}, as landed"
        said = explain(error, doing, code="SP-H07")
        if isinstance(said, PermanentError):
            said.next = (
                f"Bring back what is missing at {self.uri}, or ask the origin anew: setpoint run "
                f"{self._pipeline} --window {window.id} --refresh"
            )
        return said

    def confirm(self, window: Window, pinned: Pinned) -> None:
        """A generation does not change while it is read."""

    def read_increment(
        self, session: Any, pinned: Pinned, after: Mark | None, again: tuple[str, str] | None
    ) -> tuple[Any, Mark | None]:
        raise AssertionError("a landed source has no cursor")

    def generations(self, window: Window) -> Sequence[Landing]:
        return [kept.landing for kept in self._shelf.generations(window)]

    def remarks(self, session: Any, pins: Mapping[Window, Pinned]) -> dict[Window, Remarks]:
        """What was left out when the copy was made, or is now that it is read."""
        return {window: self._remarks(window, _handle(pins[window])[0]) for window in pins}

    def _remarks(self, window: Window, kept: Kept) -> Remarks:
        if not isinstance(self._origin, Http):
            return Remarks(tuple(kept.landing.notes))
        said = []
        if self._origin.by_day and window.end.date() - window.day > timedelta(days=1):
            said.append(
                f"{self._name} was asked for {window.day} alone, by its {{date}}, and the window "
                "is longer; write {start:%Y-%m-%d} if that is meant"
            )
        clipped = self._clipped.get(window)
        if clipped is None:
            return Remarks(tuple(said))
        shared = self._sharing(window)
        if shared is None:
            # Of a listing that was not asked for the window, most items lie outside.
            clipped = replace(clipped, outside=0, examples=())
        why = "The API was asked for this window; for another it need not send them."
        time, policy = self._source.time or "", self._source.outside
        found = replace(clipped, word="item").remarks(
            self._name, time, shared or window, policy, why
        )
        return replace(found, notes=(*said, *found.notes))

    def _sharing(self, window: Window) -> Span | None:
        """The windows that ask the API the same; None where all of them do."""
        assert isinstance(self._origin, Http)
        if not self._origin.by_window:
            return None
        return sharing_address(self._origin.asked_for, window)

    def leftovers(self) -> Sequence[Leftover]:
        return self._shelf.leftovers(self._pipeline)

    def drop(self, location: str) -> None:
        self._shelf.drop(location)

    def _items(self, frame: DataFrame, window: Window, count: int) -> DataFrame:
        assert isinstance(self._origin, Http)
        fields = self._columns(frame).fields if self._origin.schema else []
        typed, time = self._typed(frame, fields), self._source.time
        if time is None:
            return typed
        kinds = {field.name: field.dataType.typeName() for field in typed.schema.fields}
        rule = clip_rule(self._name, self.label, time, kinds, self._every, self._timezone)
        # What an earlier try has read may have been another generation.
        self._clipped.pop(window, None)
        if count:
            # The one column decides, and is much cheaper to read than all of them.
            judged = self._typed(frame, [field for field in fields if field.name == time])
            self._clipped[window] = clip_counts(
                judged,
                rule,
                self._sharing(window) or window,
                self._name,
                self.label,
                _MOMENT_ADVICE,
            )
        return typed.where(rule.predicate(window))

    def _typed(self, frame: DataFrame, fields: Sequence[T.StructField]) -> DataFrame:
        from pyspark.sql import types as T

        from setpoint.sources.http.reading import typed_items

        if not fields:
            return frame
        return typed_items(frame, T.StructType(list(fields)), self.label, self._timezone)

    def _columns(self, frame: DataFrame) -> T.StructType:
        """The schema of the items, as Spark understands it."""
        assert isinstance(self._origin, Http)
        from pyspark.sql import functions as F

        # The parser of the session that reads, so that it works without a JVM of our own too.
        read = frame.select(F.from_json("item", self._origin.schema).alias("row"))
        return cast("T.StructType", read.schema["row"].dataType)

    def _refuse_other_question(self, window: Window, kept: Kept) -> None:
        if self._answers(window, kept):
            return
        before = kept.landing.request
        now = recorded(json.loads(json.dumps(self._supply.request())))
        names = sorted(n for n in {*before, *now} if before.get(n) != now.get(n))
        raise PermanentError(
            "SP-H06",
            f"The landed copy of {self._name} for {window.id} (generation "
            f"{kept.landing.generation}, {kept.landing.landed_at}) answers another question than "
            f"the pipeline asks now: {', '.join(names) or 'the bounds of the window'} changed.",
            why="Its items may be others than those that the pipeline means.",
            next=f"Land it anew, beside the old one: setpoint run {self._pipeline} --window "
            f"{window.id} --refresh",
        )


def _handle(pinned: Pinned) -> tuple[Kept, str]:
    kept, as_published = pinned.handle
    assert isinstance(kept, Kept), "the source is read before it is landed"
    return kept, as_published


def _pinned(kept: Kept | None) -> Pinned:
    if kept is None:
        return Pinned(None, _NOT_LANDED, "not landed yet")
    landing = kept.landing
    detail = f"generation {landing.generation}, landed {landing.landed_at}"
    return Pinned(
        version=landing.generation,
        fingerprint=digest(kept.schema, landing.contents),
        detail=f"{detail}, items: {landing.items:,}",
        rows=landing.items,
        landed=True,
        handle=(kept, ""),
    )
