"""What must not be seen of a project, besides its configuration."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from setpoint.model.http import Http
from setpoint.model.origin import Files, Jdbc
from setpoint.model.pipeline import Pipeline
from setpoint.model.secret import Secret, settings_of
from setpoint.model.table import Delta

_CONNECTION = "SETPOINT_CONNECTION_"
_SPARK = "SPARK_REMOTE"
# The bridge to the JVM logs, for whoever asks for its debug messages, all that it is told.
_LOGGERS = ("py4j.clientserver", "py4j.java_gateway")


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


@contextmanager
def hushed(scrubbed: Callable[[str], str]) -> Iterator[None]:
    """Keep secrets out of what Spark's own libraries log."""

    def hush(record: logging.LogRecord) -> bool:
        record.msg, record.args = scrubbed(record.getMessage()), ()
        return True

    for name in _LOGGERS:
        logging.getLogger(name).addFilter(hush)
    try:
        yield
    finally:
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(hush)
