"""The graph of a project: which pipelines read the targets of which others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from setpoint.errors import NOTHING_STARTED, DefinitionError
from setpoint.model.pipeline import Pipeline
from setpoint.model.table import TABLES
from setpoint.project.adapters import place_of
from setpoint.project.config import Config


def upstream_of(pipelines: Iterable[Pipeline], config: Config) -> Mapping[str, tuple[str, ...]]:
    """For each pipeline, those whose targets it reads; itself, if it reads its own.

    A source counts whether it names the pipeline or the table that the pipeline writes.
    """
    known = list(pipelines)
    owners = {place_of(item.target, config): item.name for item in known}
    graph = {item.name: tuple(sorted(_upstream(item, owners, config))) for item in known}
    others = {name: [other for other in found if other != name] for name, found in graph.items()}
    try:
        TopologicalSorter(others).prepare()
    except CycleError as error:
        circle = " reads ".join(reversed(error.args[1]))
        raise DefinitionError(
            "SP-D01",
            f"The pipelines read each other in a circle: {circle}.",
            why="None of them could be the first to be right.",
            state=NOTHING_STARTED,
            next="Break the circle; a pipeline may read its own earlier windows.",
        ) from error
    return graph


def _upstream(item: Pipeline, owners: Mapping[str, str], config: Config) -> set[str]:
    found = set()
    for source in item.sources.values():
        if source.upstream:
            found.add(source.upstream)
        elif isinstance(source.inner, TABLES):
            owner = owners.get(place_of(source.inner, config))
            found |= {owner} if owner else set()
    return found
