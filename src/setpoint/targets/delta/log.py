"""The Delta log as we read it: files, transactions and receipts, without a JVM."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from setpoint.errors import UNTOUCHED, PermanentError, TransientError, counted
from setpoint.model import tombstones
from setpoint.model.columns import Columns
from setpoint.model.ports import Published
from setpoint.model.receipt import Receipt, unseal
from setpoint.model.window import Window
from setpoint.targets.claim import Past
from setpoint.targets.delta import transactions
from setpoint.targets.delta.history import commit_file, commit_info, read_commits
from setpoint.targets.delta.storage import Storage
from setpoint.targets.delta.transactions import application_id

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Operations that change no row: the slice is what it was, though its files may differ.
NEUTRAL = frozenset(
    {
        "OPTIMIZE",
        "VACUUM START",
        "VACUUM END",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "CHANGE COLUMN",
        "ADD COLUMNS",
    }
)
# A table with this setting may forget the numbers of windows.
_FORGETS = "delta.setTransactionRetentionDuration"
Fence = tuple[str, int]
# Up to so many files are read one by one out of those of the whole table.
_FEW_FILES = 100
Owner = TypeVar("Owner")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m|↳")
_BACKTRACE = re.compile(r"\s+0: ")
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")


@dataclass(frozen=True)
class DataFile:
    """A live data file: where it is, what it holds, and to which partition it belongs."""

    path: str
    size: int
    rows: int | None
    partition: dict[str, Any]
    least: dict[str, Any]
    most: dict[str, Any]
    nulls: dict[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Commit:
    """One version of the table: what was done, on which version, with which receipts."""

    version: int
    operation: str
    read_version: int | None
    receipts: tuple[Receipt, ...]

    @property
    def base(self) -> int:
        """The version on which the commit was decided, as its writer says."""
        return self.version - 1 if self.read_version is None else self.read_version

    @classmethod
    def read(cls, version: int, info: Mapping[str, Any]) -> Commit:
        """A commit by what it says about itself."""
        return cls(
            version=version,
            operation=str(info.get("operation", "")),
            read_version=info.get("readVersion"),
            receipts=unseal(info.get("userMetadata")),
        )


@dataclass(frozen=True)
class LastPublish:
    """How often a window was published, and the last receipt with its commit, if it is there."""

    generation: int
    receipt: Receipt | None = None
    version: int | None = None


@dataclass(frozen=True)
class Field:
    """A column of the table, as the log describes it."""

    name: str
    kind: Any
    nullable: bool
    metadata: dict[str, Any]


class Snapshot:
    """One version of a Delta table."""

    def __init__(self, storage: Storage, table: DeltaTable) -> None:
        self.storage = storage
        self.table = table
        self.version: int = table.version()

    @cached_property
    def table_id(self) -> str:
        return str(self.table.metadata().id)

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.table.metadata().partition_columns)

    @cached_property
    def configuration(self) -> dict[str, str]:
        return dict(self.table.metadata().configuration)

    @property
    def maps_columns(self) -> bool:
        """Whether column names are free, because files hold names of their own."""
        return self.configuration.get("delta.columnMapping.mode", "none") != "none"

    @cached_property
    def has_deletion_vectors(self) -> bool:
        """Rows may vanish from a file while its name stays the same."""
        return "deletionVectors" in (self.table.protocol().reader_features or ())

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        body = json.loads(self.table.schema().to_json())
        return tuple(
            Field(item["name"], item["type"], item["nullable"], item.get("metadata") or {})
            for item in body["fields"]
        )

    @cached_property
    def columns(self) -> Columns:
        """The columns by their numbers, where files hold names of their own."""
        if not self.maps_columns:
            return Columns()
        numbers: dict[str, int] = {}
        own_names = True
        body = json.loads(self.table.schema().to_json())
        for path, name, metadata in _fields_inside("", body):
            numbers[path] = int(metadata.get("delta.columnMapping.id", 0))
            own_names &= metadata.get("delta.columnMapping.physicalName", name) == name
        return Columns(numbers, renamed=not own_names)

    def stored_name(self, column: str) -> str:
        """The name of a column in files and statistics; empty when it is not known."""
        field = self.field(column)
        if not self.maps_columns or field is None:
            return column
        return str(field.metadata.get("delta.columnMapping.physicalName", ""))

    def field(self, name: str) -> Field | None:
        return next((item for item in self.fields if item.name == name), None)

    @cached_property
    def _actions(self) -> Any:
        found = self.table.get_add_actions(flatten=True)
        _refuse_clone(self.storage, list(map(str, found["path"].to_pylist())))
        return found

    @cached_property
    def spells_paths_otherwise(self) -> bool:
        """Whether deltalake would spell a path otherwise than the log does.

        It escapes what is not ASCII, and Spark does not. A removal of a file under another name
        removes nothing: its rows would be there beside the new ones.
        """
        return not all(path.isascii() for path in self._actions["path"].to_pylist())

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        """Every live file, with the statistics that the log holds."""
        actions = self._actions
        columns = {name: actions[name].to_pylist() for name in actions.column_names}
        return tuple(_file(columns, number) for number in range(len(columns["path"])))

    def files_in(
        self, column: str, owner: Callable[[Any], Owner | None]
    ) -> list[tuple[Owner, DataFile]]:
        """The files whose value of a partition column has an owner; the others cost nothing."""
        actions, name = self._actions, f"partition.{column}"
        if name not in actions.column_names:
            return []
        owners = list(map(owner, actions[name].to_pylist()))
        numbers = [number for number, own in enumerate(owners) if own is not None]
        if len(numbers) > _FEW_FILES:
            return [(own, file) for own, file in zip(owners, self.files, strict=True) if own]
        columns = {
            name: {number: actions[name][number].as_py() for number in numbers}
            for name in actions.column_names
        }
        return [(own, _file(columns, n)) for n in numbers if (own := owners[n]) is not None]

    @cached_property
    def commits(self) -> dict[int, Commit]:
        """The commits that the log still holds, by version."""
        from deltalake.exceptions import DeltaError

        try:
            found = read_commits(self.table, self.storage)
        except (DeltaError, ValueError, OSError) as error:
            raise _unreadable(self.storage, error, PermanentError) from error
        return {
            version: Commit.read(version, entry)
            for version, entry in found.items()
            if version <= self.version
        }

    @cached_property
    def receipts(self) -> dict[tuple[str, str], tuple[Receipt, int]]:
        """The newest receipt per pipeline and window that the log still holds, with its commit."""
        return {
            (receipt.pipeline, receipt.window): (receipt, version)
            for version, commit in sorted(self.commits.items())
            for receipt in commit.receipts
        }

    def read_all(self) -> None:
        """Read all commits at once: for many windows that takes less than one by one."""
        _ = self.commits

    def past(self) -> Iterator[Past]:
        """The commits that the log still holds, newest first; read one by one."""
        for version in range(self.version, -1, -1):
            commit = self.commit(version)
            if commit is None:
                return
            yield Past(
                number=version,
                receipts=commit.receipts,
                changes_rows=commit.operation not in NEUTRAL,
                looked_at=min([commit.base, *(item.base(version) for item in commit.receipts)]),
                before=version - 1,
            )

    def commit(self, version: int) -> Commit | None:
        """One commit; None when the log does not hold it any more."""
        if "commits" in self.__dict__:
            return self.commits.get(version)
        body = self.storage.read(commit_file(version))
        return Commit.read(version, commit_info(body)) if body is not None else None

    def landed(self, window: str, attempt: str) -> Published | None:
        """An attempt's newest publish: there are two when a removal slips in beside the first."""
        for item in self.past():
            for receipt in item.receipts:
                if receipt.attempt == attempt and receipt.window == window:
                    return Published(receipt, item.number, self.table_id)
        return None

    def newest_start(self, pipeline: str) -> datetime | None:
        """When the newest window began that a pipeline of whole states has published.

        It survives the clean-up of the log.
        """
        return transactions.start_of(self.shared_number(pipeline))

    def tombstones(self, pipeline: str, landed: Iterable[str] = ()) -> tuple[str, ...]:
        """The places where a pipeline's removed keys are remembered.

        `landed` are places that are known to count although the log may have forgotten why.
        """
        if not self._has_tombstones:
            return ()
        receipts = (receipt for commit in self.commits.values() for receipt in commit.receipts)
        return tombstones.named(receipts, pipeline, landed)

    def unapplied(self, pipeline: str) -> frozenset[str]:
        """Removed keys that a merge did not know of, because both were committed at once.

        A removal of a key that is not there changes no file, so the connector sees no conflict
        with a merge that brings an older row of the key. A later merge applies the removal.
        """
        if not self._has_tombstones:
            return frozenset()
        known: set[str] = set()
        pending: set[str] = set()
        for _, commit in sorted(self.commits.items()):
            for receipt in commit.receipts:
                if receipt.pipeline == pipeline:
                    named = set(receipt.tombstones)
                    pending = (pending | known) - named
                    known |= named
        return frozenset(pending & set(self.tombstones(pipeline)))

    @cached_property
    def _has_tombstones(self) -> bool:
        """Whether any key was ever removed; if none was, no commit has to be read for that."""
        return bool(self.storage.entries(tombstones.FOLDER))

    def paths_in_use(self) -> Iterator[str]:
        """Live files, and the folders that receipts in the log name as staged or as replaced."""
        yield from (file.path for file in self.files)
        for commit in self.commits.values():
            for receipt in commit.receipts:
                yield from (receipt.stage, receipt.replaced)

    def last_publish(self, pipeline: str, window: str) -> LastPublish:
        """The last publish of a window: its receipt is looked for where its number says.

        Its count survives the clean-up of the log. All commits are read only if no hint leads to
        the receipt, or when windows were published that state the same rows.
        """
        shared = self.shared_number(pipeline)
        generation = self._transaction(application_id(pipeline, window))
        if shared or "commits" in self.__dict__ or _FORGETS in self.configuration:
            return self._looked_up(pipeline, window, generation, shared)
        if not generation:
            return LastPublish(0)
        version = self._transaction(transactions.hint_id(pipeline, window)) - 1
        commit = self.commit(version) if 0 <= version <= self.version else None
        for item in commit.receipts if commit else ():
            if (item.pipeline, item.window, item.generation) == (pipeline, window, generation):
                return LastPublish(generation, item, version)
        return self._looked_up(pipeline, window, generation, shared)

    def _looked_up(self, pipeline: str, window: str, generation: int, shared: int) -> LastPublish:
        """The last publish of a window, by all commits that the log holds."""
        receipt, version = self.receipts.get((pipeline, window), (None, None))
        known = receipt.generation if receipt else 0
        if len(self.commits) == self.version + 1:
            return LastPublish(known, receipt, version)
        counted = max(generation, transactions.count_of(shared))
        if counted > known:
            return LastPublish(counted)
        return LastPublish(known, receipt, version)

    def shared_number(self, pipeline: str) -> int:
        """The last number of the transaction that windows share which state the same rows."""
        return self._transaction(application_id(pipeline, transactions.SHARED))

    def _transaction(self, name: str) -> int:
        from deltalake.exceptions import DeltaError

        try:
            return self.table.transaction_version(name) or 0
        except (DeltaError, OSError) as error:
            raise _unreadable(self.storage, error, TransientError) from error


def fence_of(
    snapshot: Snapshot | None, receipt: Receipt, window: Window, *, newest_counts: bool
) -> Fence:
    """The transaction that only one of two commits can have: its name and its number.

    Where all windows state the same rows, they share it: a commit that another window precedes
    is refused, or skipped, by the connector.
    """
    if not newest_counts:
        return application_id(receipt.pipeline, receipt.window), receipt.generation
    last = snapshot.shared_number(receipt.pipeline) if snapshot else 0
    name = application_id(receipt.pipeline, transactions.SHARED)
    return name, transactions.shared_number(last, window.start)


def hints_of(receipts: Iterable[Receipt], version: int) -> list[Fence]:
    """Transactions that say in which commit the receipts are; they refuse nothing."""
    return [(transactions.hint_id(item.pipeline, item.window), version + 1) for item in receipts]


def open_snapshot(storage: Storage, version: int | None = None) -> Snapshot | None:
    """The table's newest (or a given) version; None when there is no Delta table."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        # Where a log is on a local disk, deltalake need not list all of it to say so.
        on_disk = storage.is_local and os.path.isdir(os.path.join(storage.uri, "_delta_log"))
        if not on_disk and not DeltaTable.is_deltatable(storage.url, dict(storage.options)):
            return None
        return Snapshot(storage, DeltaTable(storage.url, version, dict(storage.options)))
    except TableNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(storage, error, TransientError) from error
    except (DeltaError, ValueError) as error:
        raise _unreadable(storage, error, PermanentError) from error
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # deltalake's, and not an Exception
            raise _unreadable(storage, error, PermanentError) from error
        raise


def _refuse_clone(storage: Storage, paths: Sequence[str]) -> None:
    """Refuse a table whose files lie in another one: a shallow clone."""
    elsewhere = [path for path in paths if _ABSOLUTE.match(path)]
    if elsewhere:
        raise PermanentError(
            "SP-T02",
            f"The Delta table at {storage.uri} is a shallow clone: {len(elsewhere):,} of its "
            f"{counted(len(paths), 'file')} lie in another table, for example {elsewhere[0]}.",
            why="They are not below its folder, and a VACUUM of the other table removes them.",
            state=UNTOUCHED,
            next="Make it a table of its own files, for example with CREATE TABLE ... AS SELECT, "
            "then run again.",
        )


def _unreadable(
    storage: Storage, error: BaseException, kind: type[TransientError] | type[PermanentError]
) -> TransientError | PermanentError:
    text = _BACKTRACE.split(_COLOUR.sub("", str(error)), maxsplit=1)[0]
    said = " ".join(text.split())[:300]
    next_step = "Check the path, the credentials and the network, then run again."
    if "Permission denied" in said:
        next_step = f"Give this user read access: ls -ld {storage.uri}/_delta_log"
    elif "Not a directory" in said:
        next_step = f"{storage.uri} is a file or lies below one; correct the path of the table."
    elif kind is PermanentError:
        next_step = f"The log may be damaged; look at it: ls -l {storage.uri}/_delta_log"
    return kind(
        "SP-T01",
        f"The Delta table at {storage.uri} could not be read: {said}",
        why="What the table holds cannot be told without its log.",
        state=UNTOUCHED,
        next=next_step,
    )


def _fields_inside(path: str, kind: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every field of a type, however deep: its path, its name and what the log says about it."""
    if not isinstance(kind, dict):
        return
    for item in kind.get("fields", ()):
        own = f"{path}.{item['name']}"
        yield own, item["name"], item.get("metadata") or {}
        yield from _fields_inside(own, item["type"])
    for part in ("elementType", "keyType", "valueType"):
        yield from _fields_inside(f"{path}.<{part}>", kind.get(part))


def _file(columns: Mapping[str, Any], number: int) -> DataFile:
    def below(prefix: str) -> dict[str, Any]:
        names = (name for name in columns if name.startswith(prefix))
        return {name[len(prefix) :]: columns[name][number] for name in names}

    return DataFile(
        path=unquote(columns["path"][number]),
        size=columns["size_bytes"][number],
        rows=columns["num_records"][number] if "num_records" in columns else None,
        partition=below("partition."),
        least=below("min."),
        most=below("max."),
        nulls=below("null_count."),
    )
