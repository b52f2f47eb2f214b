"""What a proof itself needs while it is watched, and what is let through because of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from setpoint.model.pipeline import Pipeline
from setpoint.model.secret import Secret
from setpoint.model.table import Delta, Iceberg
from setpoint.project.adapters import Adapters
from setpoint.project.config import Config
from setpoint.prove.inputs import Inputs, PinnedSource
from setpoint.prove.watch.bounds import Bounds
from setpoint.prove.watch.watch import Needs, Watch

_NAMED = 5


@dataclass
class Watched:
    """The watch over the trials of one sandbox, and what it does not see."""

    watch: Watch
    bounds: Bounds
    unwatched: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.unwatched = self.watch.unwatched

    @contextmanager
    def begun(self, remote: tuple[str, ...], scratch: str, master: str) -> Iterator[None]:
        """Watch the block. `remote` are inputs that are read where they are, on other machines.

        `scratch` is the URL of a server that a proof writes to, `master` where Spark runs.
        """
        needs = self.watch.needed(self.bounds)
        ports = {item.port for item in needs.addresses if item.kind == "host"} if remote else set()
        within = replace(
            self.bounds,
            hosts=tuple(_addresses_of(scratch)),
            ports=tuple(sorted(ports)),
            files=needs.files,
            folders=needs.folders,
        )
        if not master.startswith("local"):
            self.unwatched += (f"what Spark does on other machines ({master})",)
        if ports and not self.watch.why:
            which = ", ".join(map(str, sorted(ports)))
            self.unwatched += (f"connections to port {which}: {', '.join(remote)} is read there",)
        if needs.folders:
            which = ", ".join(needs.folders[:_NAMED])
            self.unwatched += (f"files below {which}, where Spark keeps its own",)
        before = _states(needs)
        with self.watch.within(within):
            yield
        if missed := self.watch.missed():
            which = ", ".join(missed[:_NAMED])
            self.unwatched += (f"calls whose arguments could not be read: {which}",)
        changed = [file for file, state in _states(needs).items() if state != before.get(file)]
        if changed:
            self.unwatched += (f"changes of {', '.join(changed[:_NAMED])}, a file of the proof",)


def remote_inputs(pipeline: Pipeline, inputs: Inputs, adapters: Adapters) -> tuple[str, ...]:
    """The inputs that trials read where they are, and that may not be on this machine."""
    return tuple(
        name
        for name, port in inputs.sources.items()
        if isinstance(port, PinnedSource) and not _is_local(pipeline, name, adapters)
    )


def master_of(config: Config) -> str:
    """Where Spark runs."""
    return (config.remote.reveal() if config.remote else config.master) or "local"


def _is_local(pipeline: Pipeline, name: str, adapters: Adapters) -> bool:
    origin = pipeline.sources[name].origin
    if isinstance(origin, Delta):
        return bool(origin.path) and _is_path(origin.path or "")
    if isinstance(origin, Iceberg):
        _, settings = adapters.catalogued(origin.table)
        uri = Secret.of(settings.properties.get("uri", ""))
        return uri.reveal().startswith("sqlite") and _is_path(settings.warehouse or "")
    return False


def _is_path(text: str) -> bool:
    return "://" not in text or text.startswith("file:")


def _states(needs: Needs) -> dict[str, tuple[int, int]]:
    found = {}
    for file in needs.files:
        with suppress(OSError):
            info = os.stat(file)
            found[file] = (info.st_size, info.st_mtime_ns)
    return found


def _addresses_of(url: str) -> Iterator[str]:
    """Where the server of a URL listens, as the kernel names it."""
    if not url:
        return
    from psycopg.conninfo import conninfo_to_dict

    from setpoint.prove.watch.sockets import Address

    known = conninfo_to_dict(url)
    port = str(known.get("port") or 5432)
    for host in str(known.get("hostaddr") or known.get("host") or "").split(","):
        if host.startswith(("/", "@")):
            yield f"{host}/.s.PGSQL.{port}"
        for folder in ("/var/run/postgresql", "/run/postgresql", "/tmp") if not host else ():
            yield f"{folder}/.s.PGSQL.{port}"
        with suppress(OSError):
            for _, _, _, _, found in socket.getaddrinfo(host or "localhost", int(port)):
                yield str(Address.of(found))
