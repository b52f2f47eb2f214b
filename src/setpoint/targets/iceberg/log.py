"""An Iceberg table as we read it: its history, receipts and live files, without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING

from setpoint.model import tombstones
from setpoint.model.columns import Columns
from setpoint.model.ports import Published
from setpoint.model.receipt import ENVELOPE, Receipt, files_digest, unseal
from setpoint.targets.claim import Past
from setpoint.targets.iceberg import generations
from setpoint.targets.iceberg.catalog import TableName, unreachable
from setpoint.targets.iceberg.expired import Ancestors, ancestors
from setpoint.targets.iceberg.generations import LastPublish
from setpoint.targets.iceberg.manifests import KNOWN
from setpoint.targets.iceberg.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile, ManifestFile
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
        self._read: dict[int, tuple[Receipt, ...]] = {}

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

    def receipts_in(self, snapshot: Snapshot) -> tuple[Receipt, ...]:
        """The receipts that a snapshot carries; read when somebody asks for them."""
        if snapshot.snapshot_id not in self._read:
            self._read[snapshot.snapshot_id] = receipts_of(snapshot)
        return self._read[snapshot.snapshot_id]

    def receipt(self, pipeline: str, window: str, last: LastPublish) -> tuple[Receipt, int] | None:
        """The newest receipt of a window on the way to what main holds, with its commit.

        Its last publish says where it is, unless that was rolled back.
        """
        own = [item for item in self.chain if number(item) == last.sequence]
        for item in own or self.chain:
            for receipt in self.receipts_in(item):
                if (receipt.pipeline, receipt.window) == (pipeline, window):
                    return receipt, number(item)
        return None

    def landed(self, window: str, attempt: str) -> Published | None:
        """An attempt's publish, if it led to what main holds."""
        for item in self.chain:
            for receipt in self.receipts_in(item):
                if receipt.attempt == attempt and receipt.window == window:
                    return Published(receipt, number(item), self.table_id)
        return None

    @property
    def all_receipts(self) -> tuple[Receipt, ...]:
        """The receipts of every snapshot that is kept, rolled back or on a branch included."""
        return tuple(r for item in self.table.snapshots() for r in self.receipts_in(item))

    def last_publishes(self, pipeline: str) -> dict[str, LastPublish]:
        """The last publish of every window; survives expiry and rollback."""
        found = generations.decode(self.properties.get(generations.property_of(pipeline)))
        if found and self._is_newest(pipeline, found):
            return found
        # Somebody may have unset the property, or set it back: what the snapshots say counts too.
        for item in self.table.snapshots():
            for receipt in self.receipts_in(item):
                known = found.get(receipt.window)
                if receipt.pipeline == pipeline and (
                    known is None or known.generation < receipt.generation
                ):
                    found[receipt.window] = LastPublish(receipt.generation, number(item))
        return found

    def _is_newest(self, pipeline: str, known: Mapping[str, LastPublish]) -> bool:
        """Whether the newest publish on the way to what main holds is among the known ones."""
        last = {window: item.generation for window, item in known.items()}
        for snapshot in self.chain:
            own = [item for item in self.receipts_in(snapshot) if item.pipeline == pipeline]
            if own:
                return all(last.get(item.window, 0) >= item.generation for item in own)
        return True

    def tombstone_places(self, pipeline: str) -> dict[str, LastPublish]:
        """Where removed keys are remembered, with the commit that named each place first."""
        name = generations.tombstones_of(pipeline)
        return generations.decode(self.properties.get(name))

    def tombstones(self, pipeline: str) -> tuple[str, ...]:
        """The places that count: named by receipts in the chain, or by one that expired."""
        receipts = (r for item in self.chain for r in self.receipts_in(item))
        places = self.tombstone_places(pipeline)
        kept = {place for place, last in places.items() if not self.was_rolled_back(pipeline, last)}
        return tombstones.named(receipts, pipeline, kept)

    def was_rolled_back(self, pipeline: str, publish: LastPublish) -> bool:
        """Whether a publish is known not to have led to what main holds.

        Every commit of a pipeline writes down what it knows of the publishes before it, so that
        this is known after the snapshots have expired too. Where none of its commits is left,
        earlier metadata files are asked.
        """
        return publish.was_undone or self._led_nowhere(pipeline, publish.sequence)

    def standing(self, pipeline: str) -> dict[str, LastPublish]:
        """The last publish of every window; one that was rolled back says what is left of it."""
        last = self.last_publishes(pipeline)
        return {window: self._standing(pipeline, window, item) for window, item in last.items()}

    def _standing(self, pipeline: str, window: str, last: LastPublish) -> LastPublish:
        if not self.was_rolled_back(pipeline, last):
            return last
        if last.was_undone:
            gone = last.stands and self._led_nowhere(pipeline, last.earlier)
            return last.undone() if gone else last
        left = (
            number(item)
            for item in (*self.chain, *(self._expired.snapshots if self.chain else ()))
            for receipt in self.receipts_in(item)
            if (receipt.pipeline, receipt.window) == (pipeline, window)
        )
        return last.undone(next(left, None))

    def _led_nowhere(self, pipeline: str, commit: int) -> bool:
        if not self.chain:
            return True
        if commit in self._numbers:
            return False
        if not self.has_order or not self.is_number(commit):
            return commit in map(number, self.table.snapshots())
        if commit > min(self._numbers):
            return True
        return not self._is_vouched_for(pipeline) and self._expired.lack(commit)

    @cached_property
    def _numbers(self) -> frozenset[int]:
        return frozenset(number(item) for item in self.chain)

    @cached_property
    def _expired(self) -> Ancestors:
        return ancestors(self.table, self.chain[-1])

    @cache  # noqa: B019 - a version lives for one look
    def _is_vouched_for(self, pipeline: str) -> bool:
        """Whether a commit of a pipeline is kept: it has marked what was rolled back before it."""
        return any(r.pipeline == pipeline for item in self.chain for r in self.receipts_in(item))

    @cached_property
    def has_order(self) -> bool:
        """Whether commits have growing numbers; those of format version 1 have none.

        A table that was upgraded has both: ids of its early snapshots, and numbers.
        """
        return all(item.sequence_number for item in self.chain)

    def is_number(self, commit: int) -> bool:
        """Whether the number of a commit is one that grows, and no snapshot's id."""
        return commit <= int(getattr(self.table.metadata, "last_sequence_number", 0))

    def past(self) -> Iterator[Past]:
        """The commits that led to what main holds, newest first, as far as they are kept."""
        for item in self.chain:
            own = number(item)
            # Some tools take its parent out of a snapshot, so only the first one is the first.
            expired = own - 1 if own == 1 else own
            yield Past(
                number=own,
                receipts=self.receipts_in(item),
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
        return self._files_of(self._manifests[0])

    @cached_property
    def delete_files(self) -> tuple[DataFile, ...]:
        """Files that take rows away from data files."""
        return self._files_of(self._manifests[1])

    def files_near(self, condition: BooleanExpression) -> tuple[DataFile, ...]:
        """The live data files of the manifests that may name rows for which a condition holds."""
        from pyiceberg.expressions.visitors import inclusive_projection, manifest_evaluator

        schema, specs = self.table.schema(), self.table.specs()

        @cache
        def may_hold(spec: int) -> Callable[[ManifestFile], bool]:
            try:
                projected = inclusive_projection(schema, specs[spec])(condition)
                return manifest_evaluator(specs[spec], schema, projected)
            except ValueError:  # partitioned by a column that is not there any more
                return lambda item: True

        return self._files_of(
            item for item in self._manifests[0] if may_hold(item.partition_spec_id)(item)
        )

    @cached_property
    def _manifests(self) -> tuple[list[ManifestFile], list[ManifestFile]]:
        """The manifests of data files, and those of files that take rows away."""
        from pyiceberg.manifest import ManifestContent

        found: list[ManifestFile] = []
        if self.head is not None:
            try:
                found = list(self.head.manifests(self.table.io))
            except Exception as error:
                raise unreachable(f"The table {self.name}", error) from error
        data = [item for item in found if item.content == ManifestContent.DATA]
        return data, [item for item in found if item.content != ManifestContent.DATA]

    def _files_of(self, manifests: Iterable[ManifestFile]) -> tuple[DataFile, ...]:
        try:
            return tuple(f for item in manifests for f in KNOWN.files_of(item, self.table.io))
        except Exception as error:
            raise unreachable(f"The table {self.name}", error) from error

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
    text = summary.additional_properties.get(ENVELOPE) if summary else None
    return unseal(generations.unpacked(text)) if text else ()


def operation(snapshot: Snapshot) -> str:
    return str(snapshot.summary.operation.value) if snapshot.summary else ""


def number(snapshot: Snapshot) -> int:
    """The commit's number; tables of format version 1 have none but the snapshot's id."""
    return snapshot.sequence_number or snapshot.snapshot_id
