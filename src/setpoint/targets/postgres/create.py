"""The table of a publish: as the stage was fitted to it, made or given new columns if need be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setpoint.model.pipeline import Pipeline
from setpoint.model.write import KEYED
from setpoint.targets.postgres.catalog import StoredTable, describe, server_version
from setpoint.targets.postgres.commit import Again
from setpoint.targets.postgres.names import TableName, quote
from setpoint.targets.refusals import changed_meanwhile

if TYPE_CHECKING:
    import psycopg

    from setpoint.targets.postgres.schema import Fit


def fitted(
    connection: psycopg.Connection[Any],
    name: TableName,
    pipeline: Pipeline,
    table: StoredTable | None,
    fit: Fit,
) -> StoredTable:
    """The table as the stage was fitted to it, made or given new columns if need be."""
    import psycopg

    if table is None and fit.table is not None:
        raise changed_meanwhile(name, "columns")
    if table is None:
        try:
            connection.execute(_create_sql(connection, name, pipeline, fit))
        except (psycopg.errors.DuplicateTable, psycopg.errors.UniqueViolation) as error:
            raise Again from error
    else:
        before = {column.name: column for column in fit.table.columns} if fit.table else {}
        created = {item.name: item.mapped.create for item in fit.fields}
        now = {column.name: column for column in table.columns}
        same = all(now.get(name) == column for name, column in before.items())
        new = {name: column.declared for name, column in now.items() if name not in before}
        if not same or any(created.get(name) != kind for name, kind in new.items()):
            raise changed_meanwhile(name, "columns")
        missing = [item for item in fit.fields if item.name not in now]
        if missing and fit.table is None:
            raise changed_meanwhile(name, "columns")
        for item in missing:
            connection.execute(
                f"ALTER TABLE {name.sql} ADD COLUMN {item.quoted} {item.mapped.create}"
            )
        if not missing:
            return table
    made = describe(connection, name)
    if made is None:
        raise changed_meanwhile(name, "columns")
    return made


def _create_sql(
    connection: psycopg.Connection[Any], name: TableName, pipeline: Pipeline, fit: Fit
) -> str:
    columns = [f"{item.quoted} {item.mapped.create}" for item in fit.fields]
    write, more = pipeline.write, ""
    if isinstance(write, KEYED):
        keys = ", ".join(quote(name) for name in write.keys)
        if write.null_keys != "allow":
            columns.append(f"PRIMARY KEY ({keys})")
        elif server_version(connection) >= 15:
            columns.append(f"UNIQUE NULLS NOT DISTINCT ({keys})")
    column = pipeline.slice_column
    if column is not None:
        more = f"; CREATE INDEX ON {name.sql} ({quote(column)})"
    return f"CREATE TABLE {name.sql} ({', '.join(columns)}){more}"
