"""Publishing to Iceberg: look, compute the change, commit on what was seen, read it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from setpoint.errors import PermanentError, SetpointError
from setpoint.model import tombstones
from setpoint.model.ports import Fenced, Published, Staged
from setpoint.model.receipt import Receipt, SliceState, files_digest
from setpoint.model.run import Run
from setpoint.model.write import Merge, Overwrite, Replace
from setpoint.spark.failures import explain, root_cause
from setpoint.targets.iceberg import commit
from setpoint.targets.iceberg.catalog import TableName
from setpoint.targets.iceberg.changes import Change, Changes
from setpoint.targets.iceberg.draft import Draft
from setpoint.targets.iceberg.fence import refuse_if_fenced, refuse_other_ids
from setpoint.targets.iceberg.log import Version
from setpoint.targets.iceberg.slices import Slices
from setpoint.targets.iceberg.stage import IcebergStage
from setpoint.targets.refusals import after_commit, lost_races, not_in_table

if TYPE_CHECKING:
    from pyiceberg.table import Transaction
    from pyspark.sql import SparkSession

_TURNS = 100


class Publisher:
    """One publish of one run; `look` gives the table as it is when it is called."""

    def __init__(
        self,
        run: Run,
        name: TableName,
        *,
        look: Callable[[], Version | None],
        open_session: Callable[[], SparkSession],
        draft: Callable[..., Draft],
        numbers: Iterator[int],
    ) -> None:
        """`open_session` gives one that knows the catalog, `draft` begins a table that is not there
        yet, `numbers` name what is rewritten.
        """
        self._run, self._name, self._look = run, name, look
        self._open_session, self._draft, self._numbers = open_session, draft, numbers

    def publish(self, receipt: Receipt, staged: Staged | None, expected: SliceState) -> Published:
        """Commit on what was looked at; look again when another writer was faster."""
        run, moved = self._run, ""
        for _ in range(_TURNS):
            version = self._look()
            refuse_if_fenced(run.pipeline, version, run.window, expected, staged)
            try:
                change = self._change(version, staged)
                with commit.preparing(run):
                    transaction, receipt = self._prepared(version, receipt, staged, change)
                commit.send(run, transaction)
            except commit.TableMoved as error:
                moved = root_cause(error)
                continue
            with after_commit(run):
                return replace(self._confirmed(receipt, staged), notes=change.notes)
        raise lost_races(run, _TURNS, moved)

    def _change(self, version: Version | None, staged: Staged | None) -> Change:
        """What the publish removes and adds; computed in Spark where a file holds other rows."""
        if staged is None:
            return Change()
        if version is None:
            return Change(add=staged.handle.files)
        run, removed = self._run, list[str]()
        if isinstance(run.pipeline.write, Merge):
            places = tombstones.against(version.tombstones(run.pipeline.name), run.window)
            removed = [version.storage.spark_path(place) for place in places]
        folder = f"{staged.location}/kept-{next(self._numbers)}"
        try:
            return Changes(self._open_session, version, run, staged, folder).compute(removed)
        except (SetpointError, commit.TableMoved):
            raise
        except Exception as error:
            raise explain(error, f"rewriting files for {run.label}") from error

    def _prepared(
        self, version: Version | None, receipt: Receipt, staged: Staged | None, change: Change
    ) -> tuple[Transaction, Receipt]:
        """The transaction, ready to be sent, and the receipt in it."""
        stage: IcebergStage | None = staged.handle if staged else None
        if version is not None:
            transaction = commit.begin(version, stage.fit if stage else None)
            storage = version.storage
        else:
            assert stage is not None
            new = self._draft(stage.fields, stage.fit.columns, stage.storage.location)
            transaction, storage = new.transaction, new.storage
        if stage is not None:
            refuse_other_ids(self._name, transaction, stage)
        add = commit.data_files(change, storage, transaction)
        receipt = replace(receipt, **self._details(version, staged, change, add))
        commit.fill(
            transaction,
            receipt,
            change.remove,
            add,
            commit.properties_after(version, transaction, receipt),
            by_name=version is None or any(file.ids == {} for file in change.add),
        )
        return transaction, receipt

    def _details(
        self, version: Version | None, staged: Staged | None, change: Change, add: Sequence[Any]
    ) -> dict[str, Any]:
        """What a receipt says beyond what the protocol knows: its files, its tombstones."""
        pipeline, window = self._run.pipeline, self._run.window
        found: dict[str, Any] = {}
        if isinstance(pipeline.write, Merge):
            known = version.tombstones(pipeline.name) if version else ()
            new = staged.handle.tombstones if staged else None
            found["tombstones"] = tombstones.after(known, window, new)
        if staged is None:
            return found
        if version is None:
            return {**found, "files": files_digest(file.file_path for file in add)}
        gone = {file.file_path for file in change.remove}
        left = [file for file in version.files if file.file_path not in gone]
        after = Slices(pipeline, version).files([window], [*left, *add])[window]
        return {**found, "files": version.digest_of(after.all)}

    def _confirmed(self, receipt: Receipt, staged: Staged | None) -> Published:
        """Read the target's own word, and count the slice: nobody has to remember to check."""
        run, version, state = self._run, self._look(), SliceState(0, None, None)
        if version is not None:
            state = Slices(run.pipeline, version).states([run.window], {})[run.window]
        published = version.landed(run.window.id, receipt.attempt) if version else None
        if published is None:
            if state.generation >= receipt.generation:
                raise Fenced(state)
            raise not_in_table(run)
        if staged is not None and isinstance(run.pipeline.write, (Overwrite, Replace)):
            ours = state.receipt is not None and state.receipt.attempt == receipt.attempt
            if ours and state.untouched and state.rows not in (None, receipt.rows):
                raise PermanentError(
                    "SP-P04",
                    f"{run.label} was published with {receipt.rows:,} rows, but its slice holds "
                    f"{state.rows}.",
                    why="This must not happen; somebody may have written metadata by hand.",
                    state=f"The window holds {state.rows} rows; its old ones are in the snapshot "
                    "before.",
                    next="Please report this with the table's metadata. To go back: "
                    f"CALL {self._name.catalog}.system.rollback_to_snapshot"
                    f"('{'.'.join(self._name.identifier)}', <the snapshot before>)",
                )
        return published
