"""The Delta log as we read it: files, transactions and receipts, without a JVM."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from setpoint.errors import UNTOUCHED, PermanentError, TransientError, counted
from setpoint.model import tombstones
from setpoint.model.ports import Published
from setpoint.model.receipt import Receipt, unseal
from setpoint.targets.delta.history import read_commits
from setpoint.targets.delta.storage import Storage

if TYPE_CHECKING:
    from deltalake import DeltaTable

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

    def field(self, name: str) -> Field | None:
        return next((item for item in self.fields if item.name == name), None)

    @cached_property
    def _actions(self) -> Any:
        return self.table.get_add_actions(flatten=True)

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
        columns: dict[str, list[Any]] = {
            name: list(actions[name].to_pylist()) for name in actions.column_names
        }
        paths = columns["path"]
        _refuse_clone(self.storage, paths)
        partition = _prefixed(columns, "partition.")
        least, most = _prefixed(columns, "min."), _prefixed(columns, "max.")
        nulls = _prefixed(columns, "null_count.")
        rows = columns.get("num_records") or [None] * len(paths)
        return tuple(
            DataFile(
                path=unquote(paths[i]),
                size=columns["size_bytes"][i],
                rows=rows[i],
                partition={name: values[i] for name, values in partition.items()},
                least={name: values[i] for name, values in least.items()},
                most={name: values[i] for name, values in most.items()},
                nulls={name: values[i] for name, values in nulls.items()},
            )
            for i in range(len(paths))
        )

    @cached_property
    def commits(self) -> dict[int, Commit]:
        """The commits that the log still holds, by version."""
        from deltalake.exceptions import DeltaError

        try:
            found = read_commits(self.table, self.storage)
        except (DeltaError, ValueError, OSError) as error:
            raise _unreadable(self.storage, error, PermanentError) from error
        return {
            version: Commit(
                version=version,
                operation=str(entry.get("operation", "")),
                read_version=entry.get("readVersion"),
                receipts=unseal(entry.get("userMetadata")),
            )
            for version, entry in found.items()
            if version <= self.version
        }

    @cached_property
    def receipts(self) -> dict[tuple[str, str], tuple[Receipt, int]]:
        """The newest receipt per pipeline and window that the log still holds, with its commit."""
        found: dict[tuple[str, str], tuple[Receipt, int]] = {}
        for commit in self.commits.values():
            for receipt in commit.receipts:
                key = (receipt.pipeline, receipt.window)
                if key not in found or found[key][0].generation < receipt.generation:
                    found[key] = (receipt, commit.version)
        return found

    def landed(self, window: str, attempt: str) -> Published | None:
        """An attempt's newest publish: there are two when a removal slips in beside the first."""
        for version, commit in sorted(self.commits.items(), reverse=True):
            for receipt in commit.receipts:
                if receipt.attempt == attempt and receipt.window == window:
                    return Published(receipt, version, self.table_id)
        return None

    def fence(self, receipt: Receipt, newest_counts: bool) -> tuple[str, int]:
        """The transaction that only one of two commits can have: its name and its number.

        Where all windows state the same rows, they share it: a commit that another window
        precedes is refused, or skipped, by the connector.
        """
        if not newest_counts:
            return application_id(receipt.pipeline, receipt.window), receipt.generation
        name = application_id(receipt.pipeline, "*")
        return name, self._transaction(name) + 1

    def tombstones(self, pipeline: str, landed: Iterable[str] = ()) -> tuple[str, ...]:
        """The places where a pipeline's removed keys are remembered.

        `landed` are places that are known to count although the log may have forgotten why.
        """
        receipts = (receipt for commit in self.commits.values() for receipt in commit.receipts)
        return tombstones.named(receipts, pipeline, landed)

    def unapplied(self, pipeline: str) -> frozenset[str]:
        """Removed keys that a merge did not know of, because both were committed at once.

        A removal of a key that is not there changes no file, so the connector sees no conflict
        with a merge that brings an older row of the key. A later merge applies the removal.
        """
        known: set[str] = set()
        pending: set[str] = set()
        for _, commit in sorted(self.commits.items()):
            for receipt in commit.receipts:
                if receipt.pipeline == pipeline:
                    named = set(receipt.tombstones)
                    pending = (pending | known) - named
                    known |= named
        return frozenset(pending & set(self.tombstones(pipeline)))

    def paths_in_use(self) -> Iterator[str]:
        """Live files, and the folders that receipts in the log name as staged or as replaced."""
        yield from (file.path for file in self.files)
        for commit in self.commits.values():
            for receipt in commit.receipts:
                yield from (receipt.stage, receipt.replaced)

    def generation(self, pipeline: str, window: str) -> int:
        """How often the window was published; survives the clean-up of the log."""
        if len(self.commits) == self.version + 1:
            # Nothing was cleaned up: the receipts tell, without a look-up for each window.
            newest = self.receipts.get((pipeline, window))
            return newest[0].generation if newest else 0
        # Windows that state the same rows share a number.
        names = (application_id(pipeline, window), application_id(pipeline, "*"))
        return max(map(self._transaction, names))

    def _transaction(self, name: str) -> int:
        from deltalake.exceptions import DeltaError

        try:
            return self.table.transaction_version(name) or 0
        except (DeltaError, OSError) as error:
            raise _unreadable(self.storage, error, TransientError) from error


def application_id(pipeline: str, window: str) -> str:
    """The name under which a window's generation is kept in the log."""
    return f"setpoint:{pipeline}:{window}"


def open_snapshot(storage: Storage, version: int | None = None) -> Snapshot | None:
    """The table's newest (or a given) version; None when there is no Delta table."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        if not DeltaTable.is_deltatable(storage.url, dict(storage.options)):
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


def _prefixed(columns: dict[str, list[Any]], prefix: str) -> dict[str, list[Any]]:
    return {
        name[len(prefix) :]: values for name, values in columns.items() if name.startswith(prefix)
    }
