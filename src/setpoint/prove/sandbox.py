"""The sandbox: a user's pipeline with everything it writes redirected, and its inputs pinned.

Every trial has a table of its own here. Sources stay the user's and are only read. Whatever
becomes of a proof, production is not written: there is no adapter in here that could.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from setpoint import edge
from setpoint.flow.world import World
from setpoint.model.pipeline import Pipeline
from setpoint.model.secret import NOTHING, Secret
from setpoint.model.table import Delta, Iceberg, Parquet, Postgres
from setpoint.model.window import Window
from setpoint.project.adapters import Adapters
from setpoint.project.config import Config, find_config, located
from setpoint.project.discover import pipeline_named
from setpoint.project.wiring import Project, parameters_of
from setpoint.prove.folders import proof_folder
from setpoint.prove.given import Given, given_names, standing_in
from setpoint.prove.guard import Guard
from setpoint.prove.inputs import Inputs, Preparation, Sample
from setpoint.prove.likeness import Likeness
from setpoint.prove.metastore import forget_database, make_database, own_metastore
from setpoint.prove.needs import Watched, master_of, remote_inputs
from setpoint.prove.redirection import Redirection
from setpoint.prove.request import Spec
from setpoint.prove.scratch import scratch_database
from setpoint.prove.servers import throw_away_server
from setpoint.prove.size import merged, small_settings
from setpoint.prove.trial import Trial
from setpoint.prove.watch.watch import NOBODY, Watch

_NAMED = 5


def _silent(message: str) -> None:
    return None


class Sandbox:
    """A pipeline in its sandbox; made by `open_sandbox`, or by `reopened` in another process."""

    def __init__(
        self,
        spec: Spec,
        pipeline: Pipeline,
        production: Config,
        project: Project,
        parameters: Mapping[str, Any],
        watch: Watch = NOBODY,
    ) -> None:
        self.pipeline, self.project, self.parameters = pipeline, project, parameters
        self.production = production
        self.code = pipeline.code
        self.inputs = Inputs({}, {})
        self.windows: Sequence[Window] = ()
        self.connectors: frozenset[str] = frozenset()
        own = (pipeline.target.path or "") if isinstance(pipeline.target, Delta) else ""
        self.guard = Guard(Path(production.root), Path(spec.folder), own, watch)
        self.watched = Watched(watch, self.guard.bounds)
        self.likeness = Likeness(pipeline, spec.redirection)
        self._spec = spec
        self._trials: dict[str, Trial] = {}

    @property
    def folder(self) -> Path:
        return Path(self._spec.folder)

    @property
    def in_a_test(self) -> bool:
        """Whether it is about hand-made rows: few of them, and many tests."""
        return self._spec.given

    @property
    def redirection(self) -> Redirection:
        return self._spec.redirection

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not as in production, in words."""
        past = [
            f"{folder} is read past the sources: it is not pinned, and may change between runs"
            for folder in (self.guard.reads or ())[:_NAMED]
        ]
        return (*self.likeness.notes, *past)

    @property
    def session(self) -> Any:
        """The one Spark session of a proof."""
        return self.project.sessions.get(self.connectors)

    @cached_property
    def world(self) -> World:
        return self.project.world(with_ledger=not self.in_a_test)

    def trial(self, name: str) -> Trial:
        """The trial of that name; its table is empty when it is first asked for."""
        if name not in self._trials:
            trial = self._bare(name)
            with self.watched.watch.own_doing():
                self._make_room(name)
            self._trials[name] = trial
        return self._trials[name]

    def spec(self, trial: str) -> Spec:
        """What another process needs to take part in a trial."""
        self.trial(trial)
        return replace(self._spec, trial=trial, inputs=self.inputs.recorded)

    def joined(self, name: str) -> Trial:
        """A trial whose table another process has made, or is filling."""
        return self._trials.setdefault(name, self._bare(name))

    def _bare(self, name: str) -> Trial:
        pipeline = self.redirection.pipeline(self.pipeline, name, self.code)
        function = self.guard.guarded(pipeline)
        return Trial(name, replace(pipeline, function=function), self)

    def _make_room(self, name: str) -> None:
        """What has to be there before a target can be made."""
        if isinstance(self.pipeline.target, Parquet):
            make_database(self.session, self.redirection)
        if not self.in_a_test:
            self.likeness.copy_to(name, self.project)


@contextmanager
def open_sandbox(
    config: Config,
    pipeline: Pipeline,
    windows: Sequence[Window],
    *,
    parameters: Mapping[str, Any] | None = None,
    sample: str = "",
    keep: bool = False,
    scratch_metastore: bool = False,
    given: Given | None = None,
    watch: Watch = NOBODY,
    tell: Callable[[str], None] = _silent,
    warn: Callable[[str], None] = _silent,
) -> Iterator[Sandbox]:
    """A sandbox for a pipeline, with its inputs pinned for the windows; removed at the end.

    The first window is the one that is proven: it has to be readable, the others may be left
    out. `scratch_metastore` says that the metastore of the active session may be written to,
    because it is thrown away. `given` is what a test has made by hand.
    """
    root = given.place if given is not None else config.root
    with (
        proof_folder(root, pipeline.name, keep=keep) as folder,
        redirecting(config, pipeline, folder, scratch_metastore=scratch_metastore) as redirection,
        sandbox_at(
            redirection,
            config,
            pipeline,
            windows,
            parameters=parameters,
            sample=sample,
            given=given,
            watch=watch,
            tell=tell,
            warn=warn,
        ) as sandbox,
    ):
        yield sandbox


@contextmanager
def redirecting(
    config: Config, pipeline: Pipeline, folder: Path, *, scratch_metastore: bool = False
) -> Iterator[Redirection]:
    """The redirection to a folder, with the server that it needs, if any."""
    token = edge.new_attempt_id()[:8]
    with _server(config, pipeline, folder, token) as server:
        own = own_metastore(config, pipeline, str(folder), scratch=scratch_metastore)
        redirection = Redirection(str(folder), token, server, scratch_metastore=not own)
        try:
            yield redirection
        finally:
            if scratch_metastore and isinstance(pipeline.target, Parquet):
                forget_database(redirection)


@contextmanager
def sandbox_at(
    redirection: Redirection,
    config: Config,
    pipeline: Pipeline,
    windows: Sequence[Window],
    *,
    parameters: Mapping[str, Any] | None = None,
    sample: str = "",
    given: Given | None = None,
    watch: Watch = NOBODY,
    tell: Callable[[str], None] = _silent,
    warn: Callable[[str], None] = _silent,
) -> Iterator[Sandbox]:
    """A sandbox with a redirection that is there, with its inputs pinned for the windows."""
    chosen, made = Sample.parse(sample), list(given.inputs) if given is not None else []
    values = {**pipeline.parameters, **(parameters or {})}
    reference, pipeline = _reference(pipeline), standing_in(pipeline, made)
    with ExitStack() as stack:
        settings = _settings(config, pipeline, windows[0], made)
        redirected = redirection.config(config)
        redirected = replace(redirected, conf=merged(redirected.conf, settings))
        project = stack.enter_context(Project(redirected, tell=tell, warn=warn, trigger="prove"))
        spec = Spec(
            trial="",
            redirection=redirection,
            root=str(config.root),
            config=str(config.file or ""),
            reference=reference,
            parameters=_texts(pipeline, values),
            sample=sample,
            settings=settings,
            given=given is not None,
        )
        sandbox = Sandbox(spec, pipeline, config, project, values, watch)
        production = Adapters(replace(project.config, landing=_landing(config)), project.sessions)
        sandbox.connectors = _connectors(pipeline, production, sandbox, given=made)
        sandbox.windows = windows
        sandbox.guard.refuse_what_lint_sees(pipeline)
        preparation = Preparation(
            pipeline, production, project.adapters, redirection.folder, chosen, given
        )
        sandbox.inputs = preparation.prepare(sandbox.session, windows, windows[0])
        sandbox.windows = [item for item in windows if not sandbox.inputs.missing(item)]
        remote = remote_inputs(pipeline, sandbox.inputs, project.adapters)
        scratch = redirection.server.reveal() if config.prove_postgres else ""
        with sandbox.watched.begun(remote, scratch, master_of(config)):
            yield sandbox


@contextmanager
def reopened(
    spec: Spec,
    *,
    conf: Mapping[str, str] | None = None,
    master: str = "",
) -> Iterator[Sandbox]:
    """The sandbox that another process has opened; `conf` and `master` are for Spark here."""
    production = find_config(Path(spec.root), spec.config or None)
    production = replace(
        production,
        conf=merged(merged(production.conf, spec.settings), conf or {}),
        master=master or production.master,
    )
    pipeline = pipeline_named(production, spec.reference)
    pipeline = standing_in(pipeline, given_names(spec.inputs))
    parameters = parameters_of(pipeline, spec.parameters)
    config = spec.redirection.config(production)
    with Project(config, trigger="prove") as project:
        sandbox = Sandbox(spec, pipeline, production, project, parameters)
        sandbox.inputs = Inputs.recalled(
            pipeline,
            Adapters(replace(config, landing=_landing(production)), project.sessions),
            spec.inputs,
            Sample.parse(spec.sample),
        )
        sandbox.connectors = _connectors(
            pipeline, Adapters(config, project.sessions), sandbox, inputs=sandbox.inputs
        )
        yield sandbox


def _connectors(
    pipeline: Pipeline,
    adapters: Adapters,
    sandbox: Sandbox,
    *,
    given: Sequence[str] = (),
    inputs: Inputs | None = None,
) -> frozenset[str]:
    """What the session of a proof needs: a JVM takes up connectors at its start only."""
    trial = sandbox._bare("clean").pipeline
    needed = sandbox.project.adapters.target(trial).connectors()
    for name, source in pipeline.sources.items():
        if not source.before and name not in given:
            port = inputs.sources[name] if inputs else adapters.source(name, source, pipeline)
            needed |= port.connectors()
    # Publishing needs no connector for Iceberg; comparing the rows in Spark does.
    return needed | {"iceberg"} if isinstance(pipeline.target, Iceberg) else needed


@contextmanager
def _server(config: Config, pipeline: Pipeline, folder: Path, token: str) -> Iterator[Secret]:
    """The URL of the PostgreSQL server that a proof writes to; empty if it needs none."""
    target = pipeline.target
    if not isinstance(target, Postgres):
        yield NOTHING
    elif config.prove_postgres:
        with Project(config) as project:
            scratch = project.adapters.server(config.prove_postgres)
            production = project.adapters.server(target.connection)
        with scratch_database(scratch, production, token) as url:
            yield url
    else:
        with throw_away_server(folder) as own:
            yield Secret(own, whole=False)


def _settings(
    config: Config, pipeline: Pipeline, window: Window, given: Sequence[str]
) -> dict[str, str]:
    with Project(config) as looking:
        return small_settings(config, pipeline, looking.adapters, window, given)


def _landing(config: Config) -> str:
    return located(config.landing, config.root)


def _reference(pipeline: Pipeline) -> str:
    """The pipeline as `file.py:name`; empty for one that only this process knows."""
    inside = "<locals>" in getattr(pipeline.function, "__qualname__", "<locals>")
    return "" if inside or not pipeline.file else f"{pipeline.file}:{pipeline.name}"


def _texts(pipeline: Pipeline, given: Mapping[str, Any]) -> dict[str, str]:
    """The parameters that are not their defaults, as the command line would be given them."""
    defaults = pipeline.parameters
    return {name: str(value) for name, value in given.items() if value != defaults.get(name)}
