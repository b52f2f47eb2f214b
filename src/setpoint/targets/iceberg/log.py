"""An Iceberg table as we read it: its history, receipts and live files, without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from setpoint.model import tombstones
from setpoint.model.columns import Columns
from setpoint.model.ports import Published
from setpoint.model.receipt import ENVELOPE, Receipt, files_digest, unseal
from setpoint.targets.claim import Past
from setpoint.targets.iceberg import generations
from setpoint.targets.iceberg.catalog import TableName, unreachable
from setpoint.targets.iceberg.generations import LastPublish
from setpoint.targets.iceberg.manifests import KNOWN
from setpoint.targets.iceberg.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

# A commit of this operation changes files, never rows: compaction.
_NEUTRAL = "replace"


class Version:
    """One version of the table's metadata, and of its main branch."""

    def __init__(self, name: TableName, table: Table, head: Snapshot | None = None) -> None:
        self.name = name
        self.table = table
        self._head = head
        self.storage = Storage(table.location(), table.io)

    @cached_property
    def table_id(self) -> str:
        return str(self.table.metadata.table_uuid)

    @property
    def schema(self) -> Schema:
        """The columns: those of now, or of an earlier snapshot its own."""
        return self.table.schema() if self._head is None else self.head_schema

    @property
    def head_schema(self) -> Schema:
        """The columns as they were when the head was written; renames since make none."""
        now = self.table.schema()
        number = self.head.schema_id if self.head else None
        return now if number is None else self.table.schemas().get(number, now)

    @property
    def properties(self) -> dict[str, str]:
        return self.table.properties

    @cached_property
    def head(self) -> Snapshot | None:
        """What main points to: readers see this and nothing else."""
        return self._head or self.table.current_snapshot()

    def at(self, snapshot_id: int) -> Version | None:
        """The table as an earlier snapshot has it; None when that is not kept any more."""
        snapshot = self.table.snapshot_by_id(snapshot_id)
        return Version(self.name, self.table, snapshot) if snapshot else None

    @cached_property
    def chain(self) -> tuple[Snapshot, ...]:
        """The snapshots that led to what main holds, newest first, as far as they are kept.

        A publish that was rolled back is not among them: its rows are not what readers see.
        """
        from pyiceberg.table.snapshots import ancestors_of

        return tuple(ancestors_of(self.head, self.table.metadata)) if self.head else ()

    @cached_property
    def published(self) -> dict[int, tuple[Receipt, ...]]:
        """The receipts of every snapshot that is kept, by snapshot id."""
        return {item.snapshot_id: receipts_of(item) for item in self.table.snapshots()}

    @cached_property
    def receipts(self) -> dict[tuple[str, str], tuple[Receipt, int]]:
        """The newest receipt per pipeline and window in the chain, with its commit."""
        found: dict[tuple[str, str], tuple[Receipt, int]] = {}
        for item in self.chain:
            for receipt in self.published[item.snapshot_id]:
                found.setdefault((receipt.pipeline, receipt.window), (receipt, number(item)))
        return found

    def landed(self, window: str, attempt: str) -> Published | None:
        """An attempt's publish, if it led to what main holds."""
        for item in self.chain:
            for receipt in self.published[item.snapshot_id]:
                if receipt.attempt == attempt and receipt.window == window:
                    return Published(receipt, number(item), self.table_id)
        return None

    @property
    def all_receipts(self) -> tuple[Receipt, ...]:
        """The receipts of every snapshot that is kept, rolled back or on a branch included."""
        return tuple(receipt for found in self.published.values() for receipt in found)

    def last_publishes(self, pipeline: str) -> dict[str, LastPublish]:
        """The last publish of every window; survives expiry and rollback."""
        found = generations.decode(self.properties.get(generations.property_of(pipeline)))
        # Somebody may have unset the property: what the snapshots still say counts too.
        for item in self.table.snapshots():
            for receipt in self.published[item.snapshot_id]:
                known = found.get(receipt.window)
                if receipt.pipeline == pipeline and (
                    known is None or known.generation < receipt.generation
                ):
                    found[receipt.window] = LastPublish(receipt.generation, number(item))
        return found

    def tombstone_places(self, pipeline: str) -> dict[str, LastPublish]:
        """Where removed keys are remembered, with the commit that named each place first."""
        name = generations.tombstones_of(pipeline)
        return generations.decode(self.properties.get(name))

    def tombstones(self, pipeline: str) -> tuple[str, ...]:
        """The places that count: named by receipts in the chain, or by one that expired."""
        receipts = (r for item in self.chain for r in self.published[item.snapshot_id])
        places = self.tombstone_places(pipeline)
        kept = {place for place, last in places.items() if not self.was_rolled_back(last)}
        return tombstones.named(receipts, pipeline, kept)

    def was_rolled_back(self, publish: LastPublish) -> bool:
        """Whether a publish is known not to have led to what main holds.

        Every commit of ours writes down what it knows of the publishes before it, so that this
        is known after the snapshots have expired too.
        """
        if publish.was_undone or not self.chain:
            return True
        numbers = {number(item) for item in self.chain}
        if publish.sequence in numbers:
            return False
        if not self.has_order:
            return publish.sequence in map(number, self.table.snapshots())
        return publish.sequence > min(numbers)

    @property
    def has_order(self) -> bool:
        """Whether commits have growing numbers; those of format version 1 have none."""
        return int(self.table.metadata.format_version) > 1

    def past(self) -> Iterator[Past]:
        """The commits that led to what main holds, newest first, as far as they are kept."""
        for item in self.chain:
            own = number(item)
            expired = own if item.parent_snapshot_id is not None else own - 1
            yield Past(
                number=own,
                receipts=self.published[item.snapshot_id],
                changes_rows=operation(item) != _NEUTRAL,
                looked_at=own - 1,  # the catalog takes a commit on its parent, or not at all
                before=expired if self.has_order else None,
            )

    @property
    def columns(self) -> Columns:
        """The columns of now by their ids, and all fields inside them."""
        return columns_of(self.table.schema())

    def paths_in_use(self) -> Iterator[str]:
        """Live files, and the folders that receipts of any snapshot name as staged or replaced."""
        yield from (self.storage.relative(file.file_path) or "" for file in self.files)
        for receipt in self.all_receipts:
            yield from (receipt.stage, receipt.replaced)

    @property
    def has_files(self) -> bool:
        """Whether there is a live data file, as far as the summary of the head tells."""
        summary = self.head.summary if self.head else None
        return self.head is not None and (
            summary is None or summary.additional_properties.get("total-data-files") != "0"
        )

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        """Every live data file."""
        return self._live[0]

    @cached_property
    def delete_files(self) -> tuple[DataFile, ...]:
        """Files that take rows away from data files."""
        return self._live[1]

    @cached_property
    def _live(self) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
        from pyiceberg.manifest import DataFileContent

        if self.head is None:
            return (), ()
        data: list[DataFile] = []
        deletes: list[DataFile] = []
        try:
            for manifest in self.head.manifests(self.table.io):
                for file in KNOWN.files_of(manifest, self.table.io):
                    is_data = file.content == DataFileContent.DATA
                    (data if is_data else deletes).append(file)
        except Exception as error:
            raise unreachable(f"The table {self.name}", error) from error
        return tuple(data), tuple(deletes)

    def digest_of(self, files: Iterable[DataFile]) -> str:
        """The digest of some of the table's files, as a receipt holds it."""
        return files_digest([*(f.file_path for f in files), *self._takers])

    @cached_property
    def _takers(self) -> list[str]:
        return [f"- {file.file_path}" for file in self.delete_files]


def open_version(catalog: Catalog, name: TableName) -> Version | None:
    """The table's newest version; None when there is no such table."""
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        return Version(name, catalog.load_table(name.identifier))
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    except Exception as error:
        raise unreachable(f"The table {name}", error) from error


def columns_of(schema: Schema) -> Columns:
    """The columns of a schema by their ids, and all fields inside them."""
    return Columns({str(schema.find_column_name(number)): number for number in schema.field_ids})


def receipts_of(snapshot: Snapshot) -> tuple[Receipt, ...]:
    """The receipts that a snapshot's summary carries."""
    summary = snapshot.summary
    return unseal(summary.additional_properties.get(ENVELOPE)) if summary else ()


def operation(snapshot: Snapshot) -> str:
    return str(snapshot.summary.operation.value) if snapshot.summary else ""


def number(snapshot: Snapshot) -> int:
    """The commit's number; tables of format version 1 have none but the snapshot's id."""
    return snapshot.sequence_number or snapshot.snapshot_id
