"""The commit: one snapshot that swaps files and carries the receipts, or nothing at all.

It is refused by the catalog when main has moved since we looked, so what we saw is what we
replace. pyiceberg would rebase a refused commit on the newer state by itself; that is switched
off, because whether it still holds is for us to find out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from setpoint.errors import PermanentError, SetpointError
from setpoint.model.receipt import ENVELOPE, Receipt, seal
from setpoint.model.run import Statement
from setpoint.model.write import Merge
from setpoint.spark.failures import root_cause
from setpoint.targets.iceberg import generations
from setpoint.targets.iceberg.generations import LastPublish
from setpoint.targets.iceberg.log import Version
from setpoint.targets.iceberg.storage import Storage
from setpoint.targets.iceberg.types import iceberg_type
from setpoint.targets.refusals import unseen
from setpoint.targets.storage import out_of_reach

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Transaction

    from setpoint.targets.iceberg.changes import Change
    from setpoint.targets.iceberg.schema import Fit

_NAME_MAPPING = "schema.name-mapping.default"
_MERGE_MANIFESTS = "commit.manifest-merge.enabled"


class TableMoved(Exception):
    """The table is no longer what the commit was built on."""


def begin(version: Version, fit: Fit | None) -> Transaction:
    """A transaction on an existing table that is sent once, and refused if anything has moved."""
    from pyiceberg.table.update import AssertCurrentSchemaId, AssertDefaultSpecId

    metadata = version.table.metadata
    # Only this copy of the metadata is changed; what is sent are the updates.
    metadata.properties["commit.retry.num-retries"] = "0"
    metadata.properties.setdefault(_MERGE_MANIFESTS, "true")
    transaction = version.table.transaction()
    transaction._apply(
        (),
        (
            AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
            AssertDefaultSpecId.model_validate({"default-spec-id": metadata.default_spec_id}),
        ),
    )
    if fit is not None and fit.added:
        with transaction.update_schema() as update:
            for name, kind in fit.added:
                update.add_column((name,), iceberg_type(kind))
    return transaction


def fill(
    transaction: Transaction,
    receipts: Sequence[Receipt],
    remove: tuple[DataFile, ...],
    add: tuple[DataFile, ...],
    published: Mapping[str, str],
    *,
    by_name: bool,
) -> None:
    """Put files, receipts and generations into a transaction; nothing is sent yet."""
    metadata = transaction.table_metadata
    properties = dict(published)
    if by_name and _NAME_MAPPING not in metadata.properties:
        properties[_NAME_MAPPING] = metadata.schema().name_mapping.model_dump_json()
    transaction.set_properties(properties)
    update = transaction.update_snapshot(
        snapshot_properties={ENVELOPE: generations.packed(seal(receipts))}
    )
    with update.overwrite() if remove else update.merge_append() as snapshot:
        for file in remove:
            snapshot.delete_data_file(file)
        for file in add:
            snapshot.append_data_file(file)


def properties_after(
    version: Version | None, transaction: Transaction, receipts: Sequence[Receipt]
) -> dict[str, str]:
    """The table properties that say what was published, after these receipts of a pipeline."""
    sequence, pipeline = transaction.table_metadata.next_sequence_number(), receipts[0].pipeline
    last: dict[str, LastPublish] = {}
    if version is not None:
        # What was rolled back has to be known after the snapshots that tell of it have expired.
        last = version.standing(pipeline)
    last |= {item.window: LastPublish(item.generation, sequence) for item in receipts}
    found = {generations.property_of(pipeline): generations.encode(last)}
    before = version.tombstone_places(pipeline) if version else {}
    places = _places_after(version, before, receipts, sequence)
    if places != before:
        found[generations.tombstones_of(pipeline)] = generations.encode(places)
    return found


def _places_after(
    version: Version | None,
    before: Mapping[str, LastPublish],
    receipts: Sequence[Receipt],
    sequence: int,
) -> dict[str, LastPublish]:
    """Where removed keys are remembered once these receipts are published."""
    counting = {
        place: last
        for place, last in before.items()
        if version is not None and not version.was_rolled_back(receipts[0].pipeline, last)
    }
    if not receipts[0].pattern.startswith(Merge.name):
        return counting  # other patterns say nothing about removed keys
    named = [place for item in receipts for place in item.tombstones]
    return {place: counting.get(place, LastPublish(0, sequence)) for place in named}


def data_files(change: Change, storage: Storage, transaction: Transaction) -> tuple[DataFile, ...]:
    """The files that come, described for the table as the transaction leaves it."""
    metadata = transaction.table_metadata
    return tuple(file.as_data_file(storage, metadata) for file in change.add)


@contextmanager
def preparing(run: Statement) -> Iterator[None]:
    """Write what a commit refers to; a failure here has committed nothing."""
    from pyiceberg.exceptions import ValidationException

    try:
        yield
    except ValidationException as error:
        raise TableMoved(str(error)) from error
    except OSError as error:
        raise out_of_reach(f"the metadata of {run.label}", error) from error


def send(run: Statement, transaction: Transaction) -> None:
    """Send the commit; tell a lost race and an unseen outcome apart."""
    from pyiceberg.exceptions import (
        CommitFailedException,
        NoSuchTableError,
        TableAlreadyExistsError,
        ValidationException,
    )

    try:
        transaction.commit_transaction()
    except (
        CommitFailedException,
        NoSuchTableError,
        TableAlreadyExistsError,
        ValidationException,
    ) as error:
        raise TableMoved(str(error)) from error
    except Exception as error:
        if _was_refused(error):
            raise TableMoved(str(error)) from error
        raise _told(run, error) from error


def _told(run: Statement, error: Exception) -> SetpointError:
    """A refusal that is an answer, or an outcome that nobody saw."""
    from pyiceberg.exceptions import (
        AuthorizationExpiredError,
        BadRequestError,
        ForbiddenError,
        UnauthorizedError,
    )

    answers = (AuthorizationExpiredError, BadRequestError, ForbiddenError, UnauthorizedError)
    if isinstance(error, answers):
        return PermanentError(
            "SP-P01",
            f"The catalog refused the commit of {run.label}: {root_cause(error)} "
            f"({type(error).__name__}).",
            next="Give this user the right to change the table, or correct what the catalog says, "
            "then run again.",
        )
    if isinstance(error, OSError):
        # The new metadata is written before the catalog points to it.
        told = out_of_reach(f"the metadata of {run.label}", error)
        if isinstance(told, PermanentError):
            return told
    return unseen(run, root_cause(error))


def _was_refused(error: Exception) -> bool:
    """Refusals that come as other errors: a busy SQLite, another branch's commit in between."""
    text = str(error)
    return "database is locked" in text or (
        isinstance(error, ValueError) and "sequence number" in text
    )
