"""What the target of production is like, given to every table of a proof.

A table that exists refuses rows that a new one would take: columns, types, constraints. Where
production has such a table, a trial begins with an empty one of the same shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint.errors import SetpointError
from setpoint.model.pipeline import Pipeline
from setpoint.model.table import Delta, Iceberg, Postgres
from setpoint.prove.redirection import CONNECTION, Redirection

if TYPE_CHECKING:
    from setpoint.project.wiring import Project


class Likeness:
    """Makes empty tables that are like the target of production."""

    def __init__(self, pipeline: Pipeline, redirection: Redirection) -> None:
        self._pipeline, self._redirection = pipeline, redirection
        self._notes: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._notes))

    def copy_to(self, trial: str, project: Project) -> None:
        """Make the table of a trial, if production has one to be like."""
        target = self._pipeline.target
        try:
            match target:
                case Delta():
                    self._delta(target, trial, project)
                case Iceberg():
                    self._iceberg(target, trial, project)
                case Postgres():
                    self._postgres(target, trial, project)
                case _:
                    self._notes.append(
                        "the table is made anew from the pipeline's rows: that of production may "
                        "have other column types"
                    )
        except SetpointError as error:
            self._notes.append(f"production's table could not be looked at: {error.what}")

    def _delta(self, target: Delta, trial: str, project: Project) -> None:
        from setpoint.targets.delta.storage import Storage
        from setpoint.targets.delta.twin import make_twin

        there = project.adapters.storage(target)
        twin = self._redirection.target(target, trial)
        assert isinstance(twin, Delta)
        assert twin.path is not None
        self._notes += make_twin(there, Storage.at(twin.path))

    def _iceberg(self, target: Iceberg, trial: str, project: Project) -> None:
        from setpoint.targets.iceberg.twin import make_twin

        twin = self._redirection.target(target, trial)
        assert isinstance(twin, Iceberg)
        adapters = project.adapters
        self._notes += make_twin(adapters.catalogued(target.table), adapters.catalogued(twin.table))

    def _postgres(self, target: Postgres, trial: str, project: Project) -> None:
        from setpoint.targets.postgres.names import TableName, parse_name
        from setpoint.targets.postgres.twin import make_schema, make_twin

        adapters = project.adapters
        name = parse_name(target.table)
        mine, schema = adapters.server(CONNECTION), self._redirection.schema(trial)
        make_schema(mine, schema)
        theirs = adapters.server(target.connection)
        self._notes += make_twin(theirs, name, mine, TableName(schema, name.table))
