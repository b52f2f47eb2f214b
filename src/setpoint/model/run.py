"""A run: the statement "this window is the result of this code on these inputs"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from setpoint.model.fingerprint import run_key
from setpoint.model.pipeline import Pipeline
from setpoint.model.receipt import Receipt
from setpoint.model.span import Span
from setpoint.model.window import Window

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Pinned:
    """What a run reads from one source: its version, and a fingerprint of the window's part.

    The fingerprint is `UNKNOWN` when the source cannot tell whether it changed. `rows` counts
    what the window's part holds, where that is known without reading it. `landed` says that the
    version is a landed generation. `handle` is the source's own, for the reading that follows.
    """

    version: int | None
    fingerprint: str
    detail: str = ""
    rows: int | None = None
    landed: bool = False
    handle: Any = field(default=None, compare=False, repr=False)

    def as_dict(self) -> dict[str, Any]:
        body: dict[str, Any] = {"version": self.version, "fingerprint": self.fingerprint}
        if self.rows is not None:
            body["rows"] = self.rows
        if self.landed:
            body["landed"] = True
        return body


@dataclass(frozen=True)
class Run:
    """The intent; attempts try to fulfil it. Two runs with one key are the same run."""

    pipeline: Pipeline
    window: Window
    parameters: Mapping[str, Any]
    inputs: Mapping[str, Pinned]
    code: str
    definition: Mapping[str, object]
    by_contents: bool = False
    """The run is identified by the rows themselves: a frame was handed over, not code."""
    key: str = field(init=False)

    def __post_init__(self) -> None:
        key = run_key(
            pipeline=self.pipeline.name,
            window=self.window.id,
            timezone=self.window.timezone,
            code=self.code,
            definition=self.definition,
            parameters=self.parameters,
            inputs={name: pinned.fingerprint for name, pinned in self.inputs.items()},
        )
        object.__setattr__(self, "key", key)

    @property
    def unsure(self) -> tuple[str, ...]:
        """The inputs that cannot tell whether they changed: the same key may be another run."""
        return tuple(name for name, item in self.inputs.items() if item.fingerprint == UNKNOWN)

    @property
    def label(self) -> str:
        """The run as people write it: pipeline[window]."""
        return f"{self.pipeline.name}[{self.window.id}]"

    def with_recorded(self, receipt: Receipt, names: Iterable[str]) -> Run:
        """The run as if some of its inputs were still what a receipt says."""
        recorded = {
            name: Pinned(None, str(receipt.inputs[name].get("fingerprint")))
            for name in names
            if name in receipt.inputs
        }
        return replace(self, inputs={**self.inputs, **recorded}) if recorded else self

    def of_contents(self, contents: str | None, attempt: str) -> Run:
        """The run as identified by its rows; without a fingerprint no two runs are the same."""
        fingerprint = contents if contents is not None else f"attempt {attempt}"
        return replace(self, inputs={"frame": Pinned(None, fingerprint)})


@dataclass(frozen=True)
class Chunk:
    """Runs of one pipeline on windows that follow each other, fulfilled together.

    They share one Spark job and one commit; each has a receipt of its own.
    """

    runs: tuple[Run, ...]

    @property
    def pipeline(self) -> Pipeline:
        return self.runs[0].pipeline

    @cached_property
    def window(self) -> Span:
        """The windows taken together."""
        return Span(tuple(run.window for run in self.runs))

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.runs[0].parameters

    @property
    def label(self) -> str:
        """The runs as people write them: pipeline[first..last]."""
        return f"{self.pipeline.name}[{self.window.id}]"


Statement: TypeAlias = "Run | Chunk"
"""What rows are staged for: one window, or several at once."""
