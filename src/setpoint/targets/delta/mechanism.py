"""Which mechanism a Delta table needs, chosen by looking at the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from setpoint.errors import RefusedError
from setpoint.model.write import DeleteInsert, InsertNew, Merge, Overwrite, WritePattern
from setpoint.targets.delta.log import Snapshot
from setpoint.targets.delta.storage import Storage

# Features that a commit of whole files satisfies by itself, or that ask nothing of a writer
# while their setting is off. Everything else goes through the connector, which enforces it.
_HARMLESS = frozenset(
    {"appendOnly", "invariants", "checkConstraints", "timestampNtz", "generatedColumns"}
)
_DEMANDING_SETTINGS = {
    "delta.enableChangeDataFeed": "change data feed",
    "delta.columnMapping.mode": "column mapping",
    "delta.enableDeletionVectors": "deletion vectors",
    "delta.enableRowTracking": "row tracking",
    "delta.enableInCommitTimestamps": "in-commit timestamps",
}
_DEMANDING_FIELDS = {
    "delta.invariants": "column invariants",
    "delta.generationExpression": "generated columns",
    "delta.identity.start": "identity columns",
    "__CHAR_VARCHAR_TYPE_STRING": "CHAR or VARCHAR",
}


@dataclass(frozen=True)
class Mechanism:
    """`files`: a metadata-only commit of staged files. `connector`: a rewrite in Spark."""

    kind: Literal["files", "connector"]
    words: str


def choose(snapshot: Snapshot | None, write: WritePattern, column: str | None) -> Mechanism:
    """The mechanism by which a pattern is written to this table; `column` is the window's."""
    if snapshot is None:
        return Mechanism("files", "one metadata-only commit (new table)")
    if isinstance(write, Merge):
        return Mechanism(
            "connector", "MERGE through the Delta connector, or new files in one commit"
        )
    if isinstance(write, InsertNew):
        return Mechanism("connector", "MERGE of absent keys through the Delta connector")
    if isinstance(write, DeleteInsert):
        return Mechanism("connector", "replaceWhere through the Delta connector")
    demand = demand_of(snapshot)
    if demand is None and column is not None and column not in snapshot.partition_columns:
        demand = f"is not partitioned by {column}"
    if demand is not None:
        through = "replaceWhere" if isinstance(write, Overwrite) else "overwrite"
        return Mechanism("connector", f"{through} through the Delta connector (the table {demand})")
    reason = "whole table" if column is None else f"partitioned by {column}"
    return Mechanism("files", f"one metadata-only commit ({reason})")


def refuse_append_only(snapshot: Snapshot) -> None:
    """A table that forbids removing rows cannot have a window replaced."""
    if snapshot.configuration.get("delta.appendOnly", "false").lower() == "true":
        raise append_only(snapshot.storage)


def append_only(storage: Storage) -> RefusedError:
    """The table forbids what a re-run has to do."""
    return RefusedError(
        "SP-T03",
        f"The table at {storage.uri} has delta.appendOnly=true.",
        why="A re-run has to replace the window's rows, and the table forbids removing any.",
        next="Write to another table, or unset the property: "
        f"ALTER TABLE delta.`{storage.spark_path()}` UNSET TBLPROPERTIES ('delta.appendOnly')",
    )


def demand_of(snapshot: Snapshot) -> str | None:
    """The first feature that needs the connector, in words."""
    protocol = snapshot.table.protocol()
    features = set(protocol.writer_features or ()) | set(protocol.reader_features or ())
    unusual = sorted(features - _HARMLESS)
    if unusual:
        return f"uses {', '.join(unusual)}"
    for setting, name in _DEMANDING_SETTINGS.items():
        if snapshot.configuration.get(setting, "false").lower() not in ("false", "none"):
            return f"uses {name}"
    if any(setting.startswith("delta.constraints.") for setting in snapshot.configuration):
        return "uses check constraints"
    if snapshot.spells_paths_otherwise:
        return "has files of another writer with names outside ASCII"
    for field in snapshot.fields:
        for setting, name in _DEMANDING_FIELDS.items():
            if setting in field.metadata:
                return f"uses {name} ({field.name})"
        if _demands_inside(field.kind):
            return f"uses NOT NULL, CHAR or VARCHAR inside {field.name}"
    return None


def _demands_inside(kind: Any) -> bool:
    """Whether a nested type has parts that the connector has to look at."""
    if not isinstance(kind, dict):
        return False
    fields = kind.get("fields", ())
    for item in fields:
        if not item["nullable"] or not _DEMANDING_FIELDS.keys().isdisjoint(item["metadata"]):
            return True
    inner = [kind.get(name) for name in ("elementType", "keyType", "valueType")]
    return any(map(_demands_inside, [*inner, *(item["type"] for item in fields)]))
