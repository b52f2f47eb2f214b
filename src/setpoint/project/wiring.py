"""Wiring: a project's adapters, sessions and ledger, put together for one command."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from setpoint import edge
from setpoint.errors import NOTHING_STARTED, SetpointError, UsageError
from setpoint.flow.faults import Faults
from setpoint.flow.gaps import Upstream
from setpoint.flow.plan import Bound
from setpoint.flow.quarantine import quarantine_of
from setpoint.flow.retry import RetryPolicy
from setpoint.flow.world import World
from setpoint.ledger import Ledger, LedgerError
from setpoint.model.pipeline import Pipeline
from setpoint.model.pipeline import pipeline as define
from setpoint.model.ports import TargetPort
from setpoint.model.secret import scrubbed
from setpoint.model.table import TABLES, Table, delta, iceberg, parquet, postgres
from setpoint.model.write import Replace
from setpoint.project.adapters import Adapters, place_of
from setpoint.project.config import Config
from setpoint.project.discover import loaded
from setpoint.project.secrets import environment_secrets, hushed, pipeline_secrets

if TYPE_CHECKING:
    from setpoint.spark.session import Sessions


T = TypeVar("T")


def _silent(message: str) -> None:
    return None


class Project:
    """Everything a command needs, made when it is first used and closed at the end."""

    def __init__(
        self,
        config: Config,
        *,
        tell: Callable[[str], None] = _silent,
        warn: Callable[[str], None] = _silent,
        trigger: str = "python",
    ) -> None:
        self.config = config
        self._tell, self._warn, self._trigger = tell, warn, trigger
        self._stack = ExitStack()
        self._sessions: Sessions | None = None
        self._secrets = set(config.secrets) | set(environment_secrets(os.environ))

    def __enter__(self) -> Project:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, SetpointError):
            error.scrub(self.scrubbed)
        self._stack.close()

    def scrubbed(self, text: str) -> str:
        """A text without the secrets of the configuration and of the pipelines in use."""
        return scrubbed(text, self._secrets)

    @property
    def jars(self) -> tuple[str, ...]:
        """The jars that the configuration names, with their full paths."""
        root, jars = self.config.root, self.config.jars
        return tuple(jar if "://" in jar else str(root / jar) for jar in jars)

    @property
    def sessions(self) -> Sessions:
        """The Spark sessions of this command; nothing starts until one is asked for."""
        if self._sessions is None:
            from setpoint.spark.session import Sessions, SparkSettings

            settings = SparkSettings(
                master=self.config.master,
                remote=self.config.remote,
                conf=self.config.conf,
                jars=self.jars,
                root=str(self.config.root),
            )
            self._stack.enter_context(hushed(self.scrubbed))
            self._sessions = self._stack.enter_context(Sessions(settings))
        return self._sessions

    def ledger(self) -> Ledger | None:
        """The ledger, or None: without a project, or with a warning when it cannot be used.

        History must not stand in the way of a run.
        """
        if self.config.file is None and not self.config.ledger:
            return None
        try:
            return self._stack.enter_context(Ledger.open(self.config.ledger_url))
        except LedgerError as error:
            error.state += " This command goes on without its history."
            self._warn(str(error))
            return None

    def world(self, *, resolved_default: bool = False, with_ledger: bool = True) -> World:
        """The dependencies of a run."""
        from setpoint.spark.engine import SparkEngine

        return World(
            engine=SparkEngine(self.sessions),
            ledger=self.ledger() if with_ledger else None,
            now=edge.utc_now,
            new_attempt_id=edge.new_attempt_id,
            identity=edge.process_identity(),
            is_alive=edge.is_alive,
            faults=Faults.from_environment(os.environ),
            retry=RetryPolicy(self.config.tries, self.config.first_wait, self.config.longest_wait),
            tell=self._tell,
            warn=self._warn,
            trigger=self._trigger,
            resolved_default=resolved_default,
            scrubbed=self.scrubbed,
        )

    @property
    def adapters(self) -> Adapters:
        """What turns the tables of a definition into targets and sources."""
        return Adapters(self.config, self.sessions)

    def bind(self, pipeline: Pipeline) -> Bound:
        """A pipeline with its adapters, its definition checked against the existing table."""
        self._secrets |= set(pipeline_secrets(pipeline, os.environ))
        adapters = self.adapters
        target = adapters.target(pipeline)
        target.check_definition()
        sources = {
            name: adapters.source(name, item, pipeline) for name, item in pipeline.sources.items()
        }
        aside = quarantine_of(pipeline)
        return Bound(
            pipeline,
            target,
            sources,
            Bound(aside, adapters.target(aside), {}) if aside is not None else None,
            dict(self._upstream(pipeline, target)),
            again=lambda: self.bind(pipeline),
        )

    def _upstream(self, pipeline: Pipeline, target: TargetPort) -> Iterator[tuple[str, Upstream]]:
        """The pipelines whose windows are read, whether a source names them or their table."""
        by_table = [item for item in pipeline.sources.values() if isinstance(item.origin, TABLES)]
        known = loaded(self.config) if by_table else []
        tables = {place_of(item.target, self.config): item for item in known}
        for name, item in pipeline.sources.items():
            other = item.pipeline
            if other is None and isinstance(item.origin, TABLES):
                other = tables.get(place_of(item.origin, self.config))
            if item.before:
                yield name, Upstream(pipeline, target, before=True)
            elif other is not None and other.name != pipeline.name and item.time:
                yield name, Upstream(other, self.adapters.target(other))

    def bind_history(self, name: str, uri: str) -> Bound:
        """The target of a `publish()` call, known from the ledger alone; enough to recover."""
        stand_in = define(every="day", target=_table_at(uri), write=Replace(), name=name)
        pipeline = stand_in(lambda window: None)
        return Bound(pipeline, self.adapters.target(pipeline), {})


def _table_at(uri: str) -> Table:
    """The table that a target calls by this name."""
    kind, _, rest = uri.partition(":")
    match kind:
        case "iceberg":
            return iceberg(rest)
        case "parquet":
            return parquet(table=rest)
        case "postgres":
            connection, _, name = rest.partition("/")
            return postgres(name, connection=connection)
        case _:
            return delta(uri)


def parameters_of(pipeline: Pipeline, given: Mapping[str, str]) -> dict[str, Any]:
    """The pipeline's parameters: its defaults, replaced by texts from the command line."""
    values = dict(pipeline.parameters)
    for name, text in known_parameters(pipeline, given).items():
        values[name] = _converted(name, text, values[name])
    return values


def known_parameters(pipeline: Pipeline, given: Mapping[str, T]) -> Mapping[str, T]:
    """The given parameters, refused if the pipeline does not have one of them."""
    for name in given:
        if name not in pipeline.parameters:
            known = ", ".join(pipeline.parameters) or "none"
            raise _bad_parameter(f"{pipeline.name} has no parameter {name!r:.80} (it has: {known})")
    return given


def _converted(name: str, text: str, default: Any) -> Any:
    from datetime import date
    from decimal import Decimal

    try:
        match default:
            case bool():
                return {"true": True, "false": False}[text.lower()]
            case int() | float() | Decimal():
                return type(default)(text)
            case date():
                return type(default).fromisoformat(text)
            case _:
                return text
    except (ValueError, KeyError, ArithmeticError) as error:
        kind = type(default).__name__
        raise _bad_parameter(
            f"{name}={text!r:.80} does not fit its default {default!r} of type {kind}"
        ) from error


def _bad_parameter(what: str) -> SetpointError:
    return UsageError(
        "SP-C06",
        f"{what}.",
        state=NOTHING_STARTED,
        next="A parameter's name and type are those of the default in the pipeline's function.",
    )
