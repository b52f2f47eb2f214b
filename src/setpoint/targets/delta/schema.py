"""Does the pipeline's result fit the table? Decided on the schemas, before anything is staged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from setpoint.model.table import Evolve
from setpoint.targets.columns import (
    misfit,
    refuse_added,
    refuse_lacking,
    refuse_missing,
    refuse_twice,
)
from setpoint.targets.delta.log import Field, Snapshot

_FORBIDDEN_IN_NAMES = re.compile(r"[ ,;{}()\n\t=]")
# What any reader of Delta knows; other types need a table feature that a new table does not have.
_STORABLE = re.compile(
    r"boolean|byte|short|integer|long|float|double|decimal\(\d+, ?\d+\)|string|binary|date"
    r"|timestamp|timestamp_ntz"
)


@dataclass(frozen=True)
class Fit:
    """The columns to stage, in the table's order, and the table's schema after the publish."""

    columns: tuple[str, ...]
    schema_json: str
    added: tuple[str, ...]
    required: tuple[str, ...]


def fit(
    returned: Sequence[dict[str, Any]],
    snapshot: Snapshot | None,
    *,
    partition_by: tuple[str, ...],
    needed: Mapping[str, str],
    evolve: Evolve,
    label: str,
) -> Fit:
    """Match the returned columns (Spark's JSON form) with the table, or refuse with the reason."""
    names = [item["name"] for item in returned]
    refuse_twice(label, names)
    _refuse_names(names, label, any_name=snapshot is not None and snapshot.maps_columns)
    refuse_lacking(label, names, needed, partition_by)
    if snapshot is None:
        _refuse_unstorable(returned, label)
        fields = [_stored(item) for item in returned]
        return Fit(tuple(names), _schema(fields), (), ())
    return _fit_existing(returned, snapshot, evolve, label)


def _fit_existing(
    returned: Sequence[dict[str, Any]], snapshot: Snapshot, evolve: Evolve, label: str
) -> Fit:
    here = {item["name"]: item for item in returned}
    there = {field.name: field for field in snapshot.fields}
    refuse_missing(label, here, list(there))
    retyped = [
        f"{name} is {_type_text(here[name]['type'])} but {_type_text(field.kind)} in the target"
        for name, field in there.items()
        if not same_type(here[name]["type"], field.kind)
    ]
    if retyped:
        raise misfit(label, "; ".join(retyped))
    added = [name for name in here if name not in there]
    refuse_added(label, added, evolve, "delta")
    _refuse_unstorable([here[name] for name in added], label)
    fields = [_as_json(field) for field in snapshot.fields]
    fields += [_stored(here[name]) for name in added]
    return Fit(
        columns=(*there, *added),
        schema_json=_schema(fields),
        added=tuple(added),
        required=tuple(name for name, field in there.items() if not field.nullable),
    )


def _refuse_names(names: Sequence[str], label: str, *, any_name: bool) -> None:
    for name in names:
        if not name or (_FORBIDDEN_IN_NAMES.search(name) and not any_name):
            raise misfit(
                label,
                f"the name {name!r} holds a character that the table cannot store",
                "Rename it (no blank, no newline, none of ,;{}()=), or create the table with "
                "delta.columnMapping.mode = 'name'.",
                code="SP-O05",
            )


def _refuse_unstorable(new: Sequence[dict[str, Any]], label: str) -> None:
    """Refuse columns that the table would get, if a part of them is of a type it cannot have."""
    for item in new:
        for kind in _parts(item["type"]):
            if not _STORABLE.fullmatch(kind):
                inside = "holds values" if isinstance(item["type"], dict) else "is"
                raise misfit(
                    label,
                    f"{item['name']} {inside} of type {kind}, which the table cannot store",
                    f'Cast it, for example F.col("{item["name"]}").cast("string").',
                    code="SP-O05",
                )


def _parts(kind: Any) -> Iterator[str]:
    """The plain types of which a type is made."""
    if not isinstance(kind, dict):
        yield str(kind)
        return
    match kind.get("type"):
        case "struct":
            inner = [item["type"] for item in kind["fields"]]
        case "array":
            inner = [kind["elementType"]]
        case "map":
            inner = [kind["keyType"], kind["valueType"]]
        case other:
            inner = [str(other)]
    for part in inner:
        yield from _parts(part)


def _stored(item: dict[str, Any]) -> dict[str, Any]:
    return {"name": item["name"], "type": _nullable(item["type"]), "nullable": True, "metadata": {}}


def _as_json(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "type": field.kind,
        "nullable": field.nullable,
        "metadata": field.metadata,
    }


def _schema(fields: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "struct", "fields": fields})


def _nullable(kind: Any) -> Any:
    """A type with every inner part nullable: what a table should promise about new columns."""
    if not isinstance(kind, dict):
        return kind
    match kind.get("type"):
        case "struct":
            return {"type": "struct", "fields": [_stored(item) for item in kind["fields"]]}
        case "array":
            inner = _nullable(kind["elementType"])
            return {"type": "array", "elementType": inner, "containsNull": True}
        case "map":
            return {
                "type": "map",
                "keyType": _nullable(kind["keyType"]),
                "valueType": _nullable(kind["valueType"]),
                "valueContainsNull": True,
            }
        case _:
            return kind


def same_type(one: Any, other: Any) -> bool:
    """Whether two types are the same but for what may be null inside."""
    return _plain_type(one) == _plain_type(other)


def _plain_type(kind: Any) -> str:
    return json.dumps(_nullable(kind), sort_keys=True)


def _type_text(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind.get("type", kind))
