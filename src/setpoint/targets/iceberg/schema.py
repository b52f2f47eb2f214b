"""Does the pipeline's result fit the table? Decided on the schemas, before anything is staged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setpoint.model.table import Evolve
from setpoint.targets.columns import (
    misfit,
    refuse_added,
    refuse_lacking,
    refuse_missing,
    refuse_twice,
)
from setpoint.targets.iceberg.types import (
    Unstorable,
    iceberg_type,
    is_nested,
    same_type,
    spark_type,
)

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


@dataclass(frozen=True)
class Fit:
    """The columns to stage, in the table's order, and the ids that the files give them.

    `ids` is empty when the files cannot hold ids: Spark writes none inside lists and maps, and
    a reader takes a file either by its ids or by its names. `added` are new columns.
    """

    columns: tuple[str, ...]
    ids: dict[str, int]
    added: tuple[tuple[str, Any], ...]
    required: tuple[str, ...]

    @property
    def added_names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.added)


def fit(
    returned: Sequence[dict[str, Any]],
    schema: Schema | None,
    last_id: int,
    *,
    needed: Mapping[str, str],
    evolve: Evolve,
    label: str,
) -> Fit:
    """Match the returned columns (Spark's JSON form) with the table, or refuse with the reason."""
    names = [item["name"] for item in returned]
    refuse_twice(label, names)
    _refuse_unstorable(returned, label)
    refuse_lacking(label, names, needed)
    here = {item["name"]: item for item in returned}
    there = {field.name: field for field in schema.fields} if schema is not None else {}
    _refuse_other(here, there, label)
    added = [name for name in here if name not in there] if schema is not None else []
    refuse_added(label, added, evolve, "iceberg")
    columns = (*there, *added) if schema is not None else tuple(names)
    ids = {name: field.field_id for name, field in there.items()}
    fresh = [name for name in columns if name not in ids]
    ids |= {name: last_id + place for place, name in enumerate(fresh, start=1)}
    nested = any(is_nested(here[name]["type"]) for name in columns)
    return Fit(
        columns=columns,
        ids={} if nested else ids,
        added=tuple((name, here[name]["type"]) for name in added),
        required=tuple(name for name, field in there.items() if field.required),
    )


def new_schema(fields: Sequence[dict[str, Any]]) -> Schema:
    """The schema of a table that does not exist yet: every column may be null."""
    from itertools import count

    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    ids = count(len(fields) + 1)
    return Schema(
        *(
            NestedField(place, item["name"], iceberg_type(item["type"], ids), required=False)
            for place, item in enumerate(fields, start=1)
        )
    )


def _refuse_other(here: dict[str, Any], there: dict[str, Any], label: str) -> None:
    refuse_missing(label, here, list(there))
    retyped = [
        f"{name} is {_text(here[name]['type'])} but {_text(spark_type(field.field_type))} in the "
        "target"
        for name, field in there.items()
        if not same_type(here[name]["type"], spark_type(field.field_type))
    ]
    if retyped:
        raise misfit(label, "; ".join(retyped))


def _refuse_unstorable(returned: Sequence[dict[str, Any]], label: str) -> None:
    for item in returned:
        name = item["name"]
        try:
            iceberg_type(item["type"])
        except Unstorable as error:
            raise misfit(
                label,
                f"{name} is of type {error}, which the table cannot store",
                f'Cast it, for example F.col("{name}").cast("string").',
                code="SP-O05",
            ) from error


def _text(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind.get("type", kind))
