"""Which mechanism a Delta table needs, chosen by looking at the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from setpoint.errors import RefusedError
from setpoint.targets.delta.log import Snapshot

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
}


@dataclass(frozen=True)
class Mechanism:
    """`files`: a metadata-only commit of staged files. `connector`: replaceWhere in Spark."""

    kind: Literal["files", "connector"]
    reason: str


def choose(snapshot: Snapshot | None, column: str, partition_by: tuple[str, ...]) -> Mechanism:
    """The mechanism for a window overwrite of this table."""
    if snapshot is None:
        if partition_by:
            return Mechanism("files", "new table, partitioned by the window's column")
        return Mechanism("connector", f"new table that is not partitioned by {column}")
    demand = _demand(snapshot)
    if demand:
        return Mechanism("connector", f"the table uses {demand}")
    if column not in snapshot.partition_columns:
        return Mechanism("connector", f"the table is not partitioned by {column}")
    return Mechanism("files", f"partitioned by {column}")


def refuse_append_only(snapshot: Snapshot) -> None:
    """A table that forbids removing rows cannot have a window replaced."""
    if snapshot.configuration.get("delta.appendOnly", "false").lower() == "true":
        raise RefusedError(
            "SP-T03",
            f"The table at {snapshot.storage.uri} has delta.appendOnly=true.",
            why="A re-run has to replace the window's rows, and the table forbids removing any.",
            next="Unset the table property, or write to another table.",
        )


def _demand(snapshot: Snapshot) -> str | None:
    """The first feature that needs the connector, in words."""
    protocol = snapshot.table.protocol()
    features = set(protocol.writer_features or ()) | set(protocol.reader_features or ())
    unusual = sorted(features - _HARMLESS)
    if unusual:
        return ", ".join(unusual)
    for setting, name in _DEMANDING_SETTINGS.items():
        if snapshot.configuration.get(setting, "false").lower() not in ("false", "none"):
            return name
    if any(setting.startswith("delta.constraints.") for setting in snapshot.configuration):
        return "check constraints"
    for field in snapshot.fields:
        for setting, name in _DEMANDING_FIELDS.items():
            if setting in field.metadata:
                return f"{name} ({field.name})"
    return None
