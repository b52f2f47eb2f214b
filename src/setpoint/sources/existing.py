"""Any existing table: its columns, live files and partitions.

Delta and Parquet files are looked at here, without a JVM; tables that go by a name are in
named.py. Reads only. A table that setpoint did not write is as good as one that it did.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from setpoint.errors import SetpointError, UsageError, words_of
from setpoint.model.receipt import unseal
from setpoint.model.slice import NULL_PARTITION, typed
from setpoint.model.source import Source
from setpoint.model.table import Delta
from setpoint.targets.delta.history import commit_files
from setpoint.targets.delta.log import Snapshot, open_snapshot
from setpoint.targets.delta.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Kind = Literal["delta", "parquet", "iceberg", "postgres", "table"]

READ_ONLY = "Nothing was written; the table is unchanged."
# Thirty days of an hourly writer are 720; more history does not change the verdict.
_MOST_COMMITS = 2_000
# Beyond this, a Spark job counts rows sooner than one footer after the other is read.
_MOST_FOOTERS = 2_000
# Operations that keep the rows they are not about; their rewriting of files is not a loss.
_ROW_LEVEL = ("MERGE", "UPDATE", "DELETE", "OPTIMIZE", "COMPACT", "REORG", "RESTORE", "FSCK")


@dataclass(frozen=True)
class TableFile:
    """A live data file and the partition it belongs to."""

    path: str
    partition: Mapping[str, Any]
    rows: int | None = None
    modified_ms: int = 0


@dataclass(frozen=True)
class Write:
    """What one commit did to one partition: added files, and replaced what was there or not."""

    version: int
    timestamp_ms: int
    partition: Mapping[str, Any]
    overwrites: bool
    removed: int


@dataclass(frozen=True)
class ExistingTable:
    """A table as its files and its log describe it.

    `units` says what `files` holds: a table that goes by a name may tell its partitions only,
    or nothing. `read` gives the rows of such a table.
    """

    label: str
    kind: Kind
    storage: Storage | None
    columns: Mapping[str, str]
    partition_columns: tuple[str, ...]
    files: tuple[TableFile, ...]
    single_file: str | None = None
    version: int | None = None
    connectors: frozenset[str] = frozenset()
    units: Literal["file", "partition", ""] = "file"
    read: Callable[[SparkSession], DataFrame] | None = field(
        default=None, repr=False, compare=False
    )
    snapshot: Snapshot | None = field(default=None, repr=False, compare=False)

    @property
    def rows(self) -> int | None:
        """The number of rows, where the files' statistics tell it."""
        known = [file.rows for file in self.files]
        # Where the connector is needed, files may hold rows that are deleted.
        deleted = self.kind == "delta" and self.connectors
        told = self.units == "file" and None not in known and not deleted
        return sum(rows or 0 for rows in known) if told else None


def open_table(label: str, kind: Kind | None, storage: Storage) -> ExistingTable:
    """Open a table for reading; the kind is looked up when it is not given."""
    snapshot = None if kind == "parquet" else _snapshot(label, storage)
    if snapshot is not None:
        return _delta(label, snapshot)
    if kind == "delta":
        raise no_table(label, f"{storage.uri} is not a Delta table: it has no _delta_log")
    return _parquet(label, storage)


def with_rows(table: ExistingTable) -> ExistingTable:
    """The table with the rows of its files counted, from their footers where need be."""
    from pyarrow import ArrowException, parquet

    storage = table.storage
    if table.rows is not None or table.connectors or len(table.files) > _MOST_FOOTERS:
        return table
    if storage is None:
        return table
    counted = []
    for file in table.files:
        try:
            with storage.open(file.path) as stream:
                counted.append(replace(file, rows=parquet.read_metadata(stream).num_rows))
        except (OSError, ArrowException) as error:
            raise no_table(table.label, f"{file.path} cannot be read") from error
    return replace(table, files=tuple(counted))


def history(table: ExistingTable) -> tuple[list[Write], bool]:
    """The writes per partition that the log still tells, and whether older ones are missing."""
    storage = table.storage
    if table.snapshot is None or storage is None:
        return [], False
    chosen = sorted(commit_files(storage).items())[-_MOST_COMMITS:]
    partition_of: dict[str, tuple[str | None, ...]] = {}
    writes: list[Write] = []
    for version, name in chosen:
        with storage.open(name) as stream:
            body = stream.read().decode("utf-8")
        actions = [json.loads(line) for line in body.splitlines() if line.strip()]
        writes += _writes(table, version, actions, partition_of)
    return writes, not chosen or chosen[0][0] > 0


def no_table(label: str, why: str) -> UsageError:
    return UsageError(
        "SP-R01",
        f"There is no table {label!r:.200} to check: {why}.",
        state=READ_ONLY,
        next="Give a folder of Delta or Parquet files, delta:PATH, parquet:PATH, iceberg:NAME, "
        "table:NAME, postgres:CONNECTION/NAME, or a pipeline's name.",
    )


def _snapshot(label: str, storage: Storage) -> Snapshot | None:
    if storage.is_local and not Path(storage.uri, "_delta_log").is_dir():
        return None
    try:
        return open_snapshot(storage)
    except BaseException as error:
        # deltalake panics, beyond Exception, over some folder names (one that holds a %).
        if type(error).__name__ != "PanicException":
            raise
        raise no_table(label, f"deltalake cannot open {storage.uri}: {error}") from error


def _delta(label: str, snapshot: Snapshot) -> ExistingTable:
    from setpoint.model.grain import Grain
    from setpoint.sources.delta import DeltaSource

    # A source with a time column needs the connector only where plain reading would be wrong.
    source = DeltaSource(
        label, Source(Delta(path=label), time=""), snapshot.storage, Grain("day"), "UTC"
    )
    return ExistingTable(
        label=label,
        kind="delta",
        storage=snapshot.storage,
        columns={item.name: _kind(item.kind) for item in snapshot.fields},
        partition_columns=snapshot.partition_columns,
        files=tuple(TableFile(file.path, file.partition, file.rows) for file in snapshot.files),
        version=snapshot.version,
        connectors=source.connectors(),
        snapshot=snapshot,
    )


def _kind(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind.get("type", "struct"))


def _writes(
    table: ExistingTable,
    version: int,
    actions: list[dict[str, Any]],
    partition_of: dict[str, tuple[str | None, ...]],
) -> Iterator[Write]:
    """The effect of one commit on each partition; keeps track of the live files."""
    names = table.partition_columns
    info: dict[str, Any] = next((a["commitInfo"] for a in actions if a.get("commitInfo")), {})
    added: dict[tuple[str | None, ...], int] = {}
    removed: dict[tuple[str | None, ...], int] = {}
    for action in actions:
        for verb, counts in (("add", added), ("remove", removed)):
            item = action.get(verb)
            if not item or not item.get("dataChange", True):
                continue
            values = item.get("partitionValues")
            known = partition_of.get(item["path"])
            key = tuple(values.get(name) or None for name in names) if values else known
            if key is not None:
                partition_of[item["path"]] = key
                counts[key] = counts.get(key, 0) + 1
    overwrites = _replaces_whole_partitions(table, info)
    if unseal(info.get("userMetadata")):
        return  # setpoint's own publish: its slice is the window, which it has checked
    for key in sorted({*added, *removed}, key=str):
        yield Write(
            version=version,
            timestamp_ms=int(info.get("timestamp") or 0),
            partition={
                name: _typed(table.columns.get(name, "string"), text)
                for name, text in zip(names, key, strict=True)
            },
            overwrites=overwrites or (not info and bool(removed.get(key))),
            removed=removed.get(key, 0),
        )


def _replaces_whole_partitions(table: ExistingTable, info: Mapping[str, Any]) -> bool:
    operation = str(info.get("operation", "")).upper()
    if operation.startswith(_ROW_LEVEL):
        return False
    parameters = info.get("operationParameters") or {}
    mode = str(parameters.get("mode", "")).lower().strip('"')
    if mode != "overwrite" and "REPLACE" not in operation:
        return False
    predicate = str(parameters.get("predicate") or "")
    others = [name for name in table.columns if name not in table.partition_columns]
    # A predicate on a column that is not a partition column keeps the partition's other rows.
    return not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", predicate) for name in others)


def _typed(kind: str, text: str | None) -> Any:
    try:
        return typed(kind, text)
    except ValueError:
        return text


def _parquet(label: str, storage: Storage) -> ExistingTable:
    single: str | None = None
    if storage.is_local:
        place = Path(storage.uri)
        if not place.exists():
            raise no_table(label, f"{storage.uri} does not exist")
        _refuse_inside_delta(label, place)
        if place.is_file():
            single, storage = place.name, Storage(str(place.parent), storage.options)
    found = [
        file
        for file in ([] if single else storage.files(""))
        if not any(part.startswith(("_", ".")) for part in file.path.split("/")[-1:])
        and not any(re.match(r"[_.][^=]*$", part) for part in file.path.split("/")[:-1])
    ]
    _refuse_other_formats(label, storage, [file.path for file in found])
    found = [file for file in found if file.path.endswith(".parquet")] or found
    if not found and single is None:
        raise no_table(label, f"{storage.uri} holds neither a Delta log nor a data file")
    files = tuple(
        TableFile(file.path, folders(file.path.rpartition("/")[0]), None, file.modified_ms)
        for file in found
    ) or (TableFile(single or "", {}),)
    partition_columns = tuple(files[0].partition)
    stored = _stored_columns(label, storage, files[0].path)
    columns = {**stored, **dict.fromkeys(partition_columns, "string")}
    return ExistingTable(label, "parquet", storage, columns, partition_columns, files, single)


def folders(path: str) -> dict[str, str | None]:
    """The partition that the folders of a path name."""
    pairs = (part.partition("=") for part in path.split("/") if "=" in part)
    return {
        unquote(name): None if value == NULL_PARTITION else unquote(value)
        for name, _, value in pairs
    }


def _stored_columns(label: str, storage: Storage, path: str) -> dict[str, str]:
    from pyarrow import ArrowException, parquet

    try:
        with storage.open(path) as stream:
            schema = parquet.read_schema(stream)
    except (OSError, ArrowException) as error:
        why = f"{path} is not a Parquet file ({words_of(error):.120})"
        raise no_table(label, why) from error
    return {column.name: str(column.type) for column in schema}


def _refuse_inside_delta(label: str, place: Path) -> None:
    for folder in place.absolute().parents:
        if (folder / "_delta_log").is_dir():
            raise no_table(
                label,
                f"it lies inside the Delta table {folder}, whose log says which of the files "
                "are live; check that table",
            )


def _refuse_other_formats(label: str, storage: Storage, paths: list[str]) -> None:
    if any(path.endswith(".metadata.json") for path in paths):
        raise no_table(label, f"{storage.uri} is an Iceberg table: give its name, iceberg:NAME")
    if storage.is_local and Path(storage.uri, ".hoodie").is_dir():
        raise no_table(label, f"{storage.uri} is a Hudi table, which check cannot read")


def unreadable(label: str, error: Exception) -> SetpointError:
    """A failure while the rows were read, in our words."""
    from setpoint.spark.failures import explain

    explained = explain(error, f"reading {label}", code="SP-R01")
    explained.state = READ_ONLY
    return explained
