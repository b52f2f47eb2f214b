"""Publishing to Iceberg: look, compute the change, commit on what was seen, read it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from setpoint.errors import PermanentError, SetpointError
from setpoint.model import tombstones
from setpoint.model.columns import Columns
from setpoint.model.ports import Fenced, Published, Staged
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Run, Statement
from setpoint.model.span import windows_of
from setpoint.model.window import Window
from setpoint.model.write import Merge, Overwrite, Replace
from setpoint.spark.failures import explain
from setpoint.targets.claim import Claim, Quiet
from setpoint.targets.iceberg import commit
from setpoint.targets.iceberg.catalog import TableName
from setpoint.targets.iceberg.changes import Change, Changes
from setpoint.targets.iceberg.draft import Draft
from setpoint.targets.iceberg.fence import refuse_if_fenced, refuse_other_ids
from setpoint.targets.iceberg.log import Version, columns_of
from setpoint.targets.iceberg.slices import Slices
from setpoint.targets.iceberg.stage import IcebergStage
from setpoint.targets.refusals import after_commit, not_in_table, refuse_incomplete
from setpoint.targets.turns import Turns

if TYPE_CHECKING:
    from pyiceberg.table import Transaction
    from pyspark.sql import SparkSession

_TURNS = 100


class Publisher:
    """One publish of one run, or of several at once; `look` gives the table as it is now."""

    def __init__(
        self,
        run: Statement,
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

    def publish(
        self,
        receipts: Sequence[Receipt],
        staged: Staged | None,
        expected: Mapping[Window, SliceState],
    ) -> list[Published]:
        """Commit on what was looked at; look again when another writer was faster."""
        run, turns = self._run, Turns(self._run, _TURNS)
        for _ in turns:
            with turns.looking():
                version = self._look()
            refuse_if_fenced(run.pipeline, version, expected, staged)
            try:
                change = self._change(version, staged)
                with commit.preparing(run):
                    transaction, receipts = self._prepared(version, receipts, staged, change)
                self._refuse_incomplete(staged, change)
                commit.send(run, transaction)
            except commit.TableMoved as error:
                turns.refused(error)
                continue
            with after_commit(run):
                found = self._confirmed(receipts, counted=staged is not None)
            return [replace(published, notes=change.notes) for published in found]
        raise AssertionError("the turns ended without an outcome")

    def _refuse_incomplete(self, staged: Staged | None, change: Change) -> None:
        """What was staged, and what was computed from it, is there with its removed keys."""
        if staged is None:
            return
        stage: IcebergStage = staged.handle
        wanted = {**stage.written, **{file.path: file.size for file in change.add}}
        listed, place = stage.storage.files, staged.location
        refuse_incomplete(self._run, listed, place, wanted, stage.tombstones)

    def _change(self, version: Version | None, staged: Staged | None) -> Change:
        """What the publish removes and adds; computed in Spark where a file holds other rows."""
        if staged is None:
            return Change()
        if version is None:
            return Change(add=staged.handle.files)
        run, removed = self._run, list[str]()
        if isinstance(run, Run) and isinstance(run.pipeline.write, Merge):
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
        self,
        version: Version | None,
        receipts: Sequence[Receipt],
        staged: Staged | None,
        change: Change,
    ) -> tuple[Transaction, list[Receipt]]:
        """The transaction, ready to be sent, and the receipts in it."""
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
        detailed = self._detailed(version, receipts, staged, change, add)
        claim, quiet = self._claim(version, staged)
        claim = replace(claim, columns=columns_of(transaction.table_metadata.schema()))
        detailed = [claim.stated(receipt, quiet) for receipt in detailed]
        commit.fill(
            transaction,
            detailed,
            change.remove,
            add,
            commit.properties_after(version, transaction, detailed),
            by_name=version is None or any(file.ids == {} for file in change.add),
        )
        return transaction, detailed

    def _claim(self, version: Version | None, staged: Staged | None) -> tuple[Claim, Quiet]:
        """By which definition the rows are published, and since when the table is quiet."""
        pipeline = self._run.pipeline
        if version is None:
            assert staged is not None
            return Claim(pipeline, staged.handle.scope.name, Columns()), Quiet(since=0)
        slices = Slices(pipeline, version)
        return slices.claim, slices.quiet

    def _detailed(
        self,
        version: Version | None,
        receipts: Sequence[Receipt],
        staged: Staged | None,
        change: Change,
        add: Sequence[Any],
    ) -> list[Receipt]:
        """The receipts with what the protocol does not know: their files, their tombstones."""
        run = self._run
        if isinstance(run, Run) and isinstance(run.pipeline.write, Merge):
            known = version.tombstones(run.pipeline.name) if version else ()
            new = staged.handle.tombstones if staged else None
            after = tombstones.after(known, run.window, new)
            receipts = [replace(receipt, tombstones=after) for receipt in receipts]
        if staged is None or version is None:
            return list(receipts)  # of a new table, the files are those that were staged
        gone = {file.file_path for file in change.remove}
        slices, windows = Slices(run.pipeline, version), windows_of(run.window)
        left = [file for file in slices.near(windows) if file.file_path not in gone]
        files = slices.files(windows, [*left, *add])
        return [
            replace(receipt, files=version.digest_of(files[window].all))
            for window, receipt in zip(windows, receipts, strict=True)
        ]

    def _confirmed(self, receipts: Sequence[Receipt], *, counted: bool) -> list[Published]:
        """Read the target's own word, and count the slices: nobody has to remember to check."""
        run, version, windows = self._run, self._look(), windows_of(self._run.window)
        states: Mapping[Window, SliceState] = {}
        if version is not None:
            states = Slices(run.pipeline, version).states(windows)
        found = []
        for window, receipt in zip(windows, receipts, strict=True):
            state = states.get(window, SliceState(0, None, None))
            published = version.landed(window.id, receipt.attempt) if version else None
            if published is None:
                if state.generation >= receipt.generation:
                    raise Fenced(state)
                raise not_in_table(run)
            if counted and isinstance(run.pipeline.write, (Overwrite, Replace)):
                self._refuse_other_rows(window, receipt, state)
            found.append(published)
        return found

    def _refuse_other_rows(self, window: Window, receipt: Receipt, state: SliceState) -> None:
        ours = state.receipt is not None and state.receipt.attempt == receipt.attempt
        if not ours or not state.untouched or state.rows in (None, receipt.rows):
            return
        raise PermanentError(
            "SP-P04",
            f"{self._run.pipeline.name}[{window.id}] was published with {receipt.rows:,} rows, but "
            f"its slice holds {state.rows}.",
            why="This must not happen; somebody may have written metadata by hand.",
            state=f"The window holds {state.rows} rows; its old ones are in the snapshot before.",
            next="Please report this with the table's metadata. To go back: "
            f"CALL {self._name.catalog}.system.rollback_to_snapshot"
            f"('{'.'.join(self._name.identifier)}', <the snapshot before>)",
        )
