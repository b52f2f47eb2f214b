"""Publishing: look under the lock, compare, swap, and read the target's own word."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from setpoint.errors import SetpointError
from setpoint.model.columns import Columns
from setpoint.model.pipeline import newest_of
from setpoint.model.ports import Fenced, Published, Staged
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Run, Statement
from setpoint.model.span import windows_of
from setpoint.model.tombstones import after, against
from setpoint.model.window import Window
from setpoint.spark.failures import explain
from setpoint.targets.claim import Claim, Quiet
from setpoint.targets.parquet import content
from setpoint.targets.parquet.commit import Commit
from setpoint.targets.parquet.content import Change
from setpoint.targets.parquet.manifest import latest
from setpoint.targets.parquet.metastore import Metastore
from setpoint.targets.parquet.schema import loose
from setpoint.targets.parquet.stage import ParquetStage
from setpoint.targets.parquet.storage import Files
from setpoint.targets.parquet.view import FOLDER, View
from setpoint.targets.refusals import (
    after_commit,
    changed_meanwhile,
    not_in_table,
    refuse_incomplete,
)
from setpoint.targets.storage import StoredFile
from setpoint.targets.turns import Turns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TURNS = 20
_OPEN_TURNS = 3


class Publisher:
    """One publish of one run, or of several at once; `look` gives the table as it is now."""

    def __init__(
        self,
        session: SparkSession,
        run: Statement,
        *,
        root: str,
        files: Files,
        metastore: Metastore,
        look: Callable[[], View | None],
        numbers: Iterator[int],
    ) -> None:
        """`numbers` name what is computed: an attempt may be published more than once."""
        self._numbers = numbers
        self._session, self._run = session, run
        self._root, self._files = root, files
        self._metastore, self._look = metastore, look

    def publish(
        self,
        receipts: Sequence[Receipt],
        staged: Staged | None,
        expected: Mapping[Window, SliceState],
    ) -> list[Published]:
        """Publish under the lock; what is computed is computed before, and again if need be."""
        for turn in Turns(self._run, _TURNS):
            before, change = None, None
            if staged is not None and not staged.handle.direct and turn < _OPEN_TURNS:
                # Computed without the lock, and used if nothing has changed once it is held.
                before = self._look()
                self._refuse_if_fenced(before, expected, staged)
                change = self._change(before, staged)
            with self._files.locked(f"{self._root}/{FOLDER}/lock", receipts[0].attempt):
                view = self._look()
                self._refuse_if_fenced(view, expected, staged)
                if staged is not None:
                    if change is None:
                        change = self._change(view, staged)
                    elif _seen(before) != _seen(view):
                        continue  # somebody published meanwhile: compute it on what is there now
                return self._commit(view, receipts, staged, change)
        raise AssertionError("the turns ended without an outcome")

    def _change(self, view: View | None, staged: Staged) -> Change:
        if staged.handle.direct:
            self._refuse_incomplete(staged)
            return content.staged_as_read(view, self._run, staged, self._files)
        run, stored, dead = self._run, None, list[str]()
        assert isinstance(run, Run)  # rows of several windows are published as they were staged
        try:
            if view is not None:
                self._session.catalog.refreshTable(self._metastore.name)
                stored = self._session.table(self._metastore.name)
                dead = against(view.tombstones(), run.window)
            places = [f"{self._root}/{place}" for place in dead]
            return content.computed(
                self._session,
                view,
                stored,
                run,
                staged,
                self._files,
                next(self._numbers),
                places,
            )
        except SetpointError:
            raise
        except Exception as error:
            raise explain(error, f"computing the new rows of {run.label}") from error

    def _commit(
        self,
        view: View | None,
        receipts: Sequence[Receipt],
        staged: Staged | None,
        change: Change | None,
    ) -> list[Published]:
        named = view.tombstones() if view else ()
        new = staged.handle.tombstones if staged else None
        metastore, files, run = self._metastore, self._files, self._run
        claim = view.claim if view else None
        if claim is None:
            assert staged is not None
            claim = Claim(run.pipeline, staged.handle.scope.name, Columns())
        stated = {
            window: claim.stated(replace(receipt, tombstones=after(named, window, new)), Quiet())
            for window, receipt in zip(windows_of(run.window), receipts, strict=True)
        }
        commit = Commit(metastore, files, view, run, stated)
        if staged is not None and not staged.handle.direct:
            self._refuse_incomplete(staged, change)
        done: list[str] = []
        if staged is not None and change is not None and change.contents:
            done = commit.rows(change.contents, staged.handle)
            if commit.empty:
                with after_commit(run):
                    alone = {window: stated[window] for window in commit.empty}
                    Commit(metastore, files, self._look(), run, alone).receipts_alone()
        else:
            if view is None and staged is not None:
                commit.create(staged.handle)
                commit = Commit(metastore, files, self._look(), run, stated)
            commit.receipts_alone()
        with after_commit(run):
            metastore.refresh(self._session)
            now = self._look()
            published = self._confirmed(stated, now)
        live = [f"{unit.location}/" for unit in now.units] if now else []
        for place in done:
            if not any(location.startswith(f"{place}/") for location in live):
                with suppress(SetpointError):
                    files.drop(place)
        commit.forget_old_manifests()
        notes = change.notes if change else ()
        return [replace(item, notes=notes) for item in published]

    def _refuse_incomplete(self, staged: Staged, change: Change | None = None) -> None:
        """What was staged, and what was computed from it, is there with its removed keys."""
        stage: ParquetStage = staged.handle

        def listed(folder: str) -> list[StoredFile]:
            found = self._files.listed(folder)
            return [replace(file, path=f"{folder}/{file.path}") for file in found]

        wanted = {f"{stage.folder}/{path}": size for path, size in stage.written.items()}
        for unit in change.contents if change else ():
            wanted |= {f"{unit.folder}/{name}": size for name, size in unit.files.items()}
        keys = f"{stage.root}/{stage.tombstones}" if stage.tombstones else ""
        refuse_incomplete(self._run, listed, f"{stage.root}/{staged.location}", wanted, keys)

    def _confirmed(self, receipts: Mapping[Window, Receipt], view: View | None) -> list[Published]:
        """Read the target's own word that the receipts landed."""
        owned, found = view.owned(list(receipts)) if view else {}, []
        for window, receipt in receipts.items():
            entries = view.entries(owned[window]) if view else []
            entry = latest(entries, self._run.pipeline.name).get(window.id)
            if view is None or entry is None or entry.receipt.attempt != receipt.attempt:
                raise not_in_table(self._run, "the table's location")
            found.append(Published(entry.receipt, entry.commit, view.identity))
        return found

    def _refuse_if_fenced(
        self, view: View | None, expected: Mapping[Window, SliceState], staged: Staged | None
    ) -> None:
        if view is None:
            if staged is None or any(state.generation for state in expected.values()):
                raise Fenced(SliceState(0, None, None))
            return
        pipeline = self._run.pipeline
        for window, state in view.states(list(expected)).items():
            then = expected[window]
            newer = state.newest != then.newest and (
                newest_of([state.newest, then.newest], pipeline) == state.newest
            )
            if (
                state.generation != then.generation
                or (pipeline.newest_counts and newer)
                or not (staged or state.untouched)
            ):
                raise Fenced(state)
        if staged is not None:
            self._refuse_if_moved_away(view, staged)

    def _refuse_if_moved_away(self, view: View, staged: Staged) -> None:
        """The table may be another one than the stage was fitted to."""
        stage = staged.handle
        there = T.StructType.fromJson(json.loads(view.info.schema))
        kinds = {field.name: field.dataType for field in stage.fit.schema.fields}
        fitted = set(kinds) - set(stage.fit.added.fieldNames())
        if (
            set(there.fieldNames()) != fitted
            or any(loose(f.dataType) != loose(kinds[f.name]) for f in there.fields)
            or view.info.root != stage.root
            or view.info.partition_columns != stage.partition_by
        ):
            raise changed_meanwhile(self._metastore.name, "columns or place")


def _seen(view: View | None) -> object:
    """What a new content was computed from; it counts only while this stays the same."""
    if view is None:
        return None
    held = view.hold(view.units)
    return view.info.schema, [
        (unit.name, unit.location, held[unit.location].commit, dict(held[unit.location].modified))
        for unit in view.units
    ]
