"""What must not be seen of a project, besides its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from setpoint.model.http import Http
from setpoint.model.origin import Files, Jdbc
from setpoint.model.pipeline import Pipeline
from setpoint.model.secret import Secret, settings_of
from setpoint.model.table import Delta

_CONNECTION = "SETPOINT_CONNECTION_"
_SPARK = "SPARK_REMOTE"


def environment_secrets(environment: Mapping[str, str]) -> Iterator[Secret]:
    """The URLs that the environment holds under names of ours."""
    for name in environment:
        if name.startswith(_CONNECTION) or name == _SPARK:
            yield Secret(f"env:{name}", whole=False, environment=environment)


def pipeline_secrets(pipeline: Pipeline, environment: Mapping[str, str]) -> Iterator[Secret]:
    """The secrets in the definition of a pipeline: of its target, and of what it reads."""
    for place in (pipeline.target, *(source.inner for source in pipeline.sources.values())):
        match place:
            case Http():
                yield from place.secrets(environment)
            case Jdbc() | Files():
                yield from settings_of(place.options).values()
            case Delta():
                yield from settings_of(place.storage_options).values()
