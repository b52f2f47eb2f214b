"""What a process of a proof is asked to do, and what it answers: plain values, kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from setpoint.errors import CODES, PermanentError, SetpointError
from setpoint.model.secret import Secret
from setpoint.prove.folders import write_whole
from setpoint.prove.redirection import Redirection

Trouble = Literal["", "failing", "overtaken"]
SERVER = "SETPOINT_SERVER"
"""The URL of the server that a process of a proof writes to; it may hold a password."""


@dataclass(frozen=True)
class Spec:
    """One trial of a proof, as another process can take part in it.

    `reference` is the pipeline as `file.py:name`; empty when it was not read from a file, and
    then no other process can run it. `parameters` are those that differ from their defaults, as
    text. `inputs` says what every input is pinned to, by argument and window.
    """

    trial: str
    redirection: Redirection
    root: str
    config: str
    reference: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    sample: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark that the sandbox adds to those of the project."""
    given: bool = False
    """It is the sandbox of a test: production's table is not looked at, and no history is kept."""
    inputs: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        return self.redirection.folder


@dataclass(frozen=True)
class Request:
    """One trial, or a part of one, for a process of its own.

    `earlier` windows are run first, without the fault. `trouble` is made inside Spark and leaves
    its traces in the folder `traces`. With `keep`, the rows of the tables are written to that
    folder afterwards, and with `look` to that one before anything is run: for tables that only
    the process itself can read. `begins` says that the tables are not there yet.
    """

    spec: Spec
    windows: tuple[str, ...]
    answer: str
    parent: int
    earlier: tuple[str, ...] = ()
    begins: bool = False
    fault: str = ""
    master: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    trouble: Trouble = ""
    traces: str = ""
    look: str = ""
    keep: str = ""

    def write(self, path: Path) -> dict[str, str]:
        """Write it down; returns what the process gets by its environment: no file has a URL."""
        body = asdict(self)
        del body["spec"]["redirection"]["server"]
        write_whole(path, json.dumps(body, indent=1))
        server = self.spec.redirection.server
        return {SERVER: server.reveal()} if server else {}

    @classmethod
    def read(cls, path: Path, environment: MutableMapping[str, str]) -> Request:
        """What was asked; the URL of the server is taken out of the environment."""
        body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        server = Secret(environment.pop(SERVER, ""), whole=False)
        redirection = Redirection(**body["spec"]["redirection"], server=server)
        spec = Spec(**{**body["spec"], "redirection": redirection})
        listed = {name: tuple(body[name]) for name in ("windows", "earlier")}
        return cls(**{**body, **listed, "spec": spec})


@dataclass(frozen=True)
class KeptTable:
    """The rows of a table that a process has written down."""

    schema: str
    path: str


@dataclass(frozen=True)
class Answer:
    """What became of a request: how the windows ended, or the error."""

    states: tuple[str, ...] = ()
    error: Mapping[str, str] = field(default_factory=dict)
    looked: Mapping[str, KeptTable] = field(default_factory=dict)
    kept: Mapping[str, KeptTable] = field(default_factory=dict)
    ran: str = ""
    """What the clock of the process said when its last run began."""
    run_keys: tuple[str, ...] = ()

    def write(self, path: str) -> None:
        """All of it or nothing: a process that is killed meanwhile has not answered."""
        write_whole(Path(path), json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, path: Path) -> Answer | None:
        """The answer, or None if there is none."""
        if not path.is_file():
            return None
        body = json.loads(path.read_text(encoding="utf-8"))
        tables = {
            side: {name: KeptTable(**item) for name, item in body[side].items()}
            for side in ("looked", "kept")
        }
        keys = tuple(body["run_keys"])
        return cls(tuple(body["states"]), body["error"], **tables, ran=body["ran"], run_keys=keys)

    def raised(self) -> SetpointError | None:
        """The error as one of this process."""
        if not self.error:
            return None
        code = self.error["code"]
        parts = {name: self.error[name] for name in ("why", "state", "next")}
        return PermanentError(code if code in CODES else "SP-X01", self.error["what"], **parts)
