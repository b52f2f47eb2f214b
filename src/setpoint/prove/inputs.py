"""The inputs of a proof: the user's own, read-only, and the same for every run.

What has versions (Delta, Iceberg) is pinned once and read at that version. What has none (a
database, files, a metastore, a function, an API) is read once for every window and kept in the
sandbox. Both can be sampled, by a hash, so that every run sees the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setpoint.errors import NOTHING_STARTED, PermanentError, SetpointError, UsageError
from setpoint.model.fingerprint import digest
from setpoint.model.mark import Mark
from setpoint.model.origin import Landed
from setpoint.model.pipeline import Pipeline
from setpoint.model.ports import HoldingPort, LandingPort, SourcePort, SpanPort
from setpoint.model.run import UNKNOWN, Pinned
from setpoint.model.source import Source
from setpoint.model.span import Span
from setpoint.model.table import Delta, Iceberg
from setpoint.model.window import Window
from setpoint.prove.given import Given, given_names, given_source

if TYPE_CHECKING:
    from setpoint.project.adapters import Adapters


@dataclass(frozen=True)
class Sample:
    """A share of the rows: by a hash of the whole row, or of one column."""

    share: float
    column: str = ""

    @classmethod
    def parse(cls, text: str) -> Sample | None:
        """Read `1%` or `customer_id=1%`; None for an empty text."""
        if not text:
            return None
        column, _, share = text.rpartition("=")
        try:
            value = float(share.removesuffix("%")) / 100
        except ValueError:
            value = -1.0
        if not share.endswith("%") or not 0 < value <= 1:
            raise UsageError(
                "SP-V01",
                f"--sample {text!r:.80} is not a share of the rows.",
                why="A share is more than 0% and at most 100%.",
                state=NOTHING_STARTED,
                next="Write --sample 1%, or --sample customer_id=1% to keep what belongs together.",
            )
        return cls(value, column)

    def of(self, frame: Any, source: Source) -> Any:
        """The rows of an input that are in the sample.

        Without a column, a lookup (`whole=True`) is read in full: half of it would not be
        a smaller window but another join.
        """
        from setpoint.spark.rearrange import sampled

        if self.column:
            return (
                sampled(frame, self.share, self.column) if self.column in frame.columns else frame
            )
        return frame if source.whole else sampled(frame, self.share)


class PinnedSource:
    """A source with versions, read at the version that the proof was begun with."""

    def __init__(
        self,
        source: Source,
        port: SpanPort,
        recorded: Mapping[str, Mapping[str, Any]],
        sample: Sample | None,
        pins: Mapping[Window, Pinned] | None = None,
    ) -> None:
        self._source, self._port, self._sample = source, port, sample
        self._recorded, self._pins = recorded, dict(pins or {})

    @property
    def label(self) -> str:
        return self._port.label

    def connectors(self) -> frozenset[str]:
        return self._port.connectors()

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        for window in windows:
            if window not in self._pins:
                known = _known(self._recorded, window, self.label)
                self._pins[window] = self._port.pin_published(window, known)
        return {window: self._pins[window] for window in windows}

    def pin_published(self, window: Window, recorded: Mapping[str, Any]) -> Pinned:
        return self._port.pin_published(window, recorded)

    def bounds(self, window: Window) -> str:
        return self._port.bounds(window)

    def read(self, session: Any, window: Window, pinned: Pinned) -> Any:
        return self._sampled(self._port.read(session, window, pinned))

    def read_span(self, session: Any, span: Span, pins: Mapping[Window, Pinned]) -> Any:
        return self._sampled(self._port.read_span(session, span, pins))

    def confirm(self, window: Window, pinned: Pinned) -> None:
        self._port.confirm(window, pinned)

    def read_increment(
        self, session: Any, pinned: Pinned, after: Mark | None, again: tuple[str, str] | None
    ) -> tuple[Any, Mark | None]:
        frame, mark = self._port.read_increment(session, pinned, after, again)
        return self._sampled(frame), mark

    def _sampled(self, frame: Any) -> Any:
        return self._sample.of(frame, self._source) if self._sample else frame


class KeptSource:
    """A source without versions: what it gave once, kept in the sandbox."""

    def __init__(
        self, source: Source, label: str, recorded: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._source, self._label, self._recorded = source, label, recorded

    @property
    def label(self) -> str:
        return self._label

    def connectors(self) -> frozenset[str]:
        return frozenset()

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        return {window: self._pinned(window) for window in windows}

    def pin_published(self, window: Window, recorded: Mapping[str, Any]) -> Pinned:
        return self._pinned(window)

    def _pinned(self, window: Window) -> Pinned:
        known = _known(self._recorded, window, self.label)
        return Pinned(None, known["fingerprint"], f"kept, rows: {known['rows']:,}", known["rows"])

    def bounds(self, window: Window) -> str:
        return "as kept for the proof"

    def read(self, session: Any, window: Window, pinned: Pinned) -> Any:
        from setpoint.spark.rearrange import read_rows

        known = _known(self._recorded, window, self.label)
        return read_rows(session, known["schema"], known["path"])

    def confirm(self, window: Window, pinned: Pinned) -> None:
        """What is kept does not change while it is read."""

    def read_increment(
        self, session: Any, pinned: Pinned, after: Mark | None, again: tuple[str, str] | None
    ) -> tuple[Any, Mark | None]:
        from setpoint.spark.increment import increment

        (known,) = self._recorded.values()
        from setpoint.spark.rearrange import read_rows

        frame = read_rows(session, known["schema"], known["path"])
        return increment(frame, self._source, after, again, self.label)


@dataclass(frozen=True)
class Inputs:
    """The inputs of a proof by argument, and what is known about each, as plain values."""

    sources: Mapping[str, SourcePort]
    recorded: Mapping[str, Mapping[str, Mapping[str, Any]]]

    @classmethod
    def recalled(
        cls,
        pipeline: Pipeline,
        adapters: Adapters,
        recorded: Mapping[str, Mapping[str, Mapping[str, Any]]],
        sample: Sample | None,
    ) -> Inputs:
        """The inputs that another process has prepared."""
        sources: dict[str, SourcePort] = {}
        for name, source in _read(pipeline).items():
            if name in given_names({name: recorded[name]}):
                sources[name] = given_source(name, source, pipeline, recorded[name])
            elif _has_versions(source):
                port = adapters.source(name, source, pipeline)
                assert isinstance(port, SpanPort)
                sources[name] = PinnedSource(source, port, recorded[name], sample)
            else:
                sources[name] = KeptSource(source, source.label, recorded[name])
        return cls(sources, recorded)

    def missing(self, window: Window) -> bool:
        """Whether an input could not be prepared for a window."""
        return any(window.id not in pins for pins in self.recorded.values())


@dataclass(frozen=True)
class Preparation:
    """What is needed to prepare the inputs of a proof.

    `production` makes the sources as the user has them. `landing` makes those that are landed
    with the sandbox's own folder, for windows of which production has no landed copy.
    """

    pipeline: Pipeline
    production: Adapters
    landing: Adapters
    folder: str
    sample: Sample | None
    given: Given | None = None
    """What a test has made by hand."""

    def prepare(self, session: Any, windows: Sequence[Window], needed: Window) -> Inputs:
        """Pin or keep every input; a window other than `needed` may be left out."""
        sources: dict[str, SourcePort] = {}
        recorded: dict[str, Mapping[str, Mapping[str, Any]]] = {}
        for name, source in _read(self.pipeline).items():
            if self.given is not None and name in self.given.inputs:
                known = self.given.kept(session, name, source, windows, self.folder)
                recorded[name] = known
                sources[name] = given_source(name, source, self.pipeline, known)
                continue
            port = self.production.source(name, source, self.pipeline)
            if isinstance(port, SpanPort) and _has_versions(source):
                pins = _pins(port, windows, needed)
                recorded[name] = {window.id: pinned.as_dict() for window, pinned in pins.items()}
                sources[name] = PinnedSource(source, port, recorded[name], self.sample, pins)
            else:
                recorded[name] = self._kept(session, name, source, port, windows, needed)
                sources[name] = KeptSource(source, source.label, recorded[name])
        return Inputs(sources, recorded)

    def _kept(
        self,
        session: Any,
        name: str,
        source: Source,
        port: SourcePort,
        windows: Sequence[Window],
        needed: Window,
    ) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for window in windows:
            try:
                if source.whole and found and not isinstance(source.origin, Landed):
                    found[window.id] = next(iter(found.values()))
                else:
                    found[window.id] = self._keep(session, name, source, port, window, needed)
            except SetpointError:
                if window == needed:
                    raise
        return found

    def _keep(
        self,
        session: Any,
        name: str,
        source: Source,
        port: SourcePort,
        window: Window,
        needed: Window,
    ) -> dict[str, Any]:
        from setpoint.spark.rearrange import write_rows

        path = os.path.join(self.folder, "inputs", name, window.slug)
        pinned = port.pin([window])[window]
        if isinstance(port, LandingPort) and pinned.version is None:
            if window != needed:
                raise _not_landed(name, window)  # an API is not asked for what nobody asked for
            port = self.landing.source(name, source, self.pipeline)
            assert isinstance(port, LandingPort)
            pinned = port.pin([window])[window]
            pinned = port.land(session, window, "proof")
        try:
            if source.cursor:
                frame, _ = port.read_increment(session, pinned, None, None)
            else:
                frame = port.read(session, window, pinned)
            frame = self.sample.of(frame, source) if self.sample else frame
            schema, rows = write_rows(frame, path)
            port.confirm(window, pinned)
        finally:
            if isinstance(port, HoldingPort):
                port.release(window)
        known = pinned.fingerprint
        return {
            # An input that cannot tell whether it changed stays one: its runs are compared by rows.
            "fingerprint": known if known == UNKNOWN else digest("kept", known, schema),
            "rows": rows,
            "schema": schema,
            "path": path,
            "version": pinned.version,
        }


def _pins(port: SourcePort, windows: Sequence[Window], needed: Window) -> dict[Window, Pinned]:
    """One look at a source for all windows; those that it has no answer for are left out."""
    try:
        return dict(port.pin(windows))
    except SetpointError:
        if len(windows) == 1:
            raise
        return dict(port.pin([needed]))


def _read(pipeline: Pipeline) -> dict[str, Source]:
    """What a pipeline reads from outside; its own window before is in the sandbox."""
    return {name: item for name, item in pipeline.sources.items() if not item.before}


def _has_versions(source: Source) -> bool:
    return isinstance(source.origin, (Delta, Iceberg))


def _known(
    recorded: Mapping[str, Mapping[str, Any]], window: Window, label: str
) -> Mapping[str, Any]:
    if window.id not in recorded:
        raise PermanentError(
            "SP-V02",
            f"The proof has not prepared {label} for the window {window.id}.",
            why="Every run of a proof reads what was pinned before the first one.",
            state="Nothing of production was written.",
            next="Report it: the windows of a proof are chosen by setpoint.",
        )
    return recorded[window.id]


def _not_landed(name: str, window: Window) -> PermanentError:
    return PermanentError(
        "SP-V02",
        f"{name} is not landed for {window.id}.",
        why="Every run of a proof reads what was landed before the first one.",
        state="Nothing of production was written.",
        next="Report it: the windows of a proof are chosen by setpoint.",
    )
