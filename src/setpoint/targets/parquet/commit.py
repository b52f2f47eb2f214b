"""The commit: manifests into the new folders, then one call of the metastore that points there.

A metastore compares nothing before it sets a location, so everything here runs under the lock
of the table; the caller has looked at the table under the same lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.errors import PermanentError, RefusedError, SetpointError, TransientError
from setpoint.model.receipt import Receipt, files_digest
from setpoint.model.run import Statement
from setpoint.model.slice import SliceRule
from setpoint.model.window import Window
from setpoint.spark.failures import root_cause
from setpoint.targets.parquet.manifest import Entry, Manifest, carried, latest, newest_name
from setpoint.targets.parquet.metastore import Metastore, Partition
from setpoint.targets.parquet.storage import Files
from setpoint.targets.parquet.view import RECEIPTS, RUNS, Unit, View, typed_value, units_digest
from setpoint.targets.refusals import after_commit, unseen

if TYPE_CHECKING:
    from setpoint.targets.parquet.content import Content
    from setpoint.targets.parquet.stage import ParquetStage


class Commit:
    """One publish of one window, or of several at once, about to land."""

    def __init__(
        self,
        metastore: Metastore,
        files: Files,
        view: View | None,
        run: Statement,
        receipts: Mapping[Window, Receipt],
    ) -> None:
        self._metastore, self._files, self._view = metastore, files, view
        self._run, self.receipts = run, dict(receipts)
        self._so_far = "The window holds its old rows."
        self._owned: Mapping[Window, Sequence[Unit]] = view.owned(list(receipts)) if view else {}
        self._looked_at = [unit for units in self._owned.values() for unit in units]
        self.empty: list[Window] = []
        held = view.hold(self._looked_at) if view else {}
        aside = view.aside if view else None
        # Windows that share partitions have to know when somebody else dropped or moved some.
        self._moved = view is not None and not view.by_partition and view.units_moved
        self._number = 1 + max(
            [item.commit for item in held.values()] + [aside.commit if aside else 0]
        )

    def create(self, stage: ParquetStage) -> None:
        """Create a partitioned table that has no rows yet."""
        self._swap([], [], stage)

    def receipts_alone(self) -> None:
        """Renew the receipts beside rows that stay."""
        view = self._view
        assert view is not None
        aside = []
        for window, units in self._owned.items():
            self.receipts[window] = replace(self.receipts[window], files=view.digest(units))
            last = latest(view.entries(units), self._run.pipeline.name).get(window.id)
            entry = Entry(self._number, last.changed if last else 0, self.receipts[window])
            if not units:
                aside.append(entry)
                continue
            home = min(units, key=lambda unit: unit.name)
            self._absorb(entry, [unit for unit in units if unit != home], view.all_units())
            self._take_over(home, entry, view.all_units())
        if aside:
            entries = carried([*(view.aside.entries if view.aside else ()), *aside])
            place = f"{view.info.root}/{RECEIPTS}"
            self._land(place, Manifest(self._number, entries, {}, 0, view.identity))

    def _absorb(self, entry: Entry, units: Sequence[Unit], all_units: str) -> None:
        """Take note of rows that somebody else put into units which the window shares."""
        view = self._view
        assert view is not None
        if view.by_partition:
            return  # no other window's receipt is about these units
        held = view.hold(units)
        for unit in units:
            if held[unit.location].files and not held[unit.location].as_left:
                self._take_over(unit, entry, all_units)

    def _take_over(self, unit: Unit, entry: Entry, all_units: str) -> None:
        """Write a manifest for the rows that a unit holds now."""
        view = self._view
        assert view is not None
        held = view.hold([unit])[unit.location]
        old = held.manifest
        self._land(
            unit.location,
            Manifest(
                commit=self._number,
                entries=carried([*held.entries, entry]),
                files=held.files,
                rows=old.rows if old and held.as_left else None,
                table=view.identity,
                absorbed=max(old.absorbed, view.disturbed(held.entries))
                if old and held.as_left and not self._moved
                else self._number,
                superseded=old.superseded if old else (),
                units=all_units,
            ),
        )

    def rows(self, contents: Sequence[Content], stage: ParquetStage) -> list[str]:
        """Publish new contents of units; gives back the folders that nobody needs any more.

        Afterwards `empty` has the windows that no unit holds: their receipts lie beside the rows.
        """
        view, root = self._view, stage.root
        old = {frozenset(u.spec.items()): u for u in (view.units if view else ())}
        replaced = [old[k] for c in contents if (k := frozenset(c.spec.items())) in old]
        after = {**old, **{frozenset(c.spec.items()): Unit(c.spec, c.folder) for c in contents}}
        if len(contents) > 1 and not self._metastore.swaps_several():
            raise RefusedError(
                "SP-T03",
                f"{self._run.label} changes {len(contents)} partitions, and this metastore moves "
                "one at a time.",
                why="Readers would see a half-made table, and a crash would leave one.",
                next="Make the window one partition, or use delta(...) or iceberg(...).",
            )
        units = units_digest(after.values())
        by_window = self._by_window(contents, stage.scope.rule)
        self.empty = [window for window, own in by_window.items() if not own]
        done: list[str] = []
        for window, own in by_window.items():
            paths = (f"{c.folder.removeprefix(f'{root}/')}/{n}" for c in own for n in c.files)
            self.receipts[window] = replace(self.receipts[window], files=files_digest(paths))
            entry = Entry(self._number, self._number, self.receipts[window])
            aside = self._beside(window)
            for content in own:
                before = old.get(frozenset(content.spec.items()))
                done += self._describe(content, before, [*aside, entry], units)
        self._swap(contents, replaced, stage)
        if view is not None and not view.by_partition:
            stays = [unit for unit in self._looked_at if unit not in replaced]
            (receipt,) = self.receipts.values()
            with after_commit(self._run):
                self._absorb(Entry(self._number, self._number, receipt), stays, units)
        return [*done, self._empty_place(root)]

    def _by_window(
        self, contents: Sequence[Content], rule: SliceRule | None
    ) -> dict[Window, list[Content]]:
        """The contents of each window: all of them where there is but one."""
        windows = list(self.receipts)
        if len(windows) == 1 or rule is None:
            return {windows[0]: list(contents)}
        owner = rule.index(windows)
        found: dict[Window, list[Content]] = {window: [] for window in windows}
        for content in contents:
            window = owner(typed_value(rule, content.spec))
            if window is None:
                raise AssertionError("a partition outside of the windows is to be moved")
            found[window].append(content)
        return found

    def _beside(self, window: Window) -> list[Entry]:
        """The entries beside the rows; of many windows each needs only its own."""
        aside = self._view.aside if self._view else None
        entries = list(aside.entries) if aside else []
        if len(self.receipts) == 1:
            return entries
        return [entry for entry in entries if entry.receipt.window == window.id]

    def _describe(
        self, content: Content, before: Unit | None, entries: Sequence[Entry], units: str
    ) -> list[str]:
        """Write the manifest of a new folder; gives back what was superseded long enough ago."""
        view = self._view
        held = view.hold([before])[before.location] if view and before else None
        old = held.manifest if held else None
        kept = before.location if before and f"/{RUNS}/" in before.location else ""
        done = [place for place in (old.superseded if old else ()) if place != kept]
        foreign = held is not None and bool(held.files) and not held.as_left
        # Of each window only the latest entries are carried on: what earlier ones did must be kept.
        disturbed = view.disturbed(held.entries) if view and held else 0
        foreign = foreign or self._moved
        self._put(
            content.folder,
            Manifest(
                commit=self._number,
                entries=carried([*(held.entries if held else ()), *entries]),
                files=content.files,
                rows=content.rows,
                table=view.identity if view else "",
                absorbed=self._number if foreign else max(old.absorbed if old else 0, disturbed),
                superseded=(*([kept] if kept else []), *done),
                units=units,
            ),
        )
        return done

    def _swap(
        self, contents: Sequence[Content], replaced: Sequence[Unit], stage: ParquetStage
    ) -> None:
        """The one call by which readers see the new rows."""
        metastore, view = self._metastore, self._view
        if view is None:
            whole = contents[0].folder if not stage.partition_by else stage.root
            self._guarded(
                lambda: metastore.create(
                    stage.fit.schema.json(), stage.partition_by, whole, stage.root
                )
            )
            self._so_far = "The table exists now, and the window has no rows in it."
        elif stage.fit.added.fields:
            # Readers see an empty column until the rows follow.
            self._guarded(lambda: metastore.add_columns(stage.fit.added.json()))
            names = ", ".join(stage.fit.added.fieldNames())
            self._so_far += f" Its new columns ({names}) are in the table already, and are empty."
        if not stage.partition_by:
            if view is not None:
                place = contents[0].folder
                self._guarded(lambda: metastore.move_table(place, stage.root))
            return
        wanted = [Partition(content.spec, content.folder) for content in contents]
        known = [unit.spec for unit in replaced]
        new = [item for item in wanted if item.spec not in known]
        if new and known:
            # Empty first, so that one call moves old and new partitions together.
            empty = [
                Partition(item.spec, f"{self._empty_place(stage.root)}/{n}")
                for n, item in enumerate(new)
            ]
            self._guarded(lambda: metastore.add(empty))
        if known:
            self._guarded(lambda: metastore.move(wanted))
        elif new:
            self._guarded(lambda: metastore.add(new))

    def _empty_place(self, root: str) -> str:
        return f"{root}/{RUNS}/.empty/{next(iter(self.receipts.values())).attempt}"

    def _guarded(self, call: Callable[[], None]) -> None:
        try:
            call()
        except SetpointError:
            raise
        except Exception as error:
            if self._metastore.unanswered(error):
                raise unseen(self._run, root_cause(error)) from error
            raise PermanentError(
                "SP-P01",
                f"The metastore refused the publish of {self._run.label}: {root_cause(error)}",
                why="Its calls are carried out as a whole or not at all.",
                state=self._so_far,
                next="Correct the cause, then run again; it is always safe.",
            ) from error

    def _put(self, folder: str, manifest: Manifest) -> None:
        self._files.write(f"{folder}/{manifest.file_name}", manifest.as_text())

    def _land(self, folder: str, manifest: Manifest) -> None:
        """Write a manifest that readers of receipts see at once."""
        try:
            self._put(folder, manifest)
        except TransientError as error:
            raise unseen(self._run, error.what) from error

    def forget_old_manifests(self) -> None:
        """Remove manifests that a later one has replaced, but for the last."""
        view = self._view
        places = [unit.location for unit in self._looked_at]
        places += [f"{view.info.root}/{RECEIPTS}"] if view else []
        for place in places:
            # They do no harm: the next publish tries again.
            with suppress(SetpointError):
                names = [file.path for file in self._files.listed(place)]
                for name in newest_name(names)[2:]:
                    self._files.drop(f"{place}/{name}")
