"""One look at a table: its units, the manifests in them, and what they say about windows.

A unit is what has a location of its own: a partition, or the table if it is not partitioned.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from setpoint.model import tombstones
from setpoint.model.columns import Columns
from setpoint.model.fingerprint import digest
from setpoint.model.pipeline import Pipeline, newest_of
from setpoint.model.ports import Recalled, forgotten
from setpoint.model.receipt import SliceState, files_digest
from setpoint.model.scope import Scope
from setpoint.model.slice import NULL_PARTITION, SliceRule, typed
from setpoint.model.window import Window
from setpoint.model.write import Replace
from setpoint.targets.claim import Claim
from setpoint.targets.parquet.manifest import Entry, Manifest, latest, newest_name
from setpoint.targets.parquet.metastore import Spec, TableInfo
from setpoint.targets.parquet.storage import Files, Gone
from setpoint.targets.refusals import no_slice_column

FOLDER = "_setpoint"
RUNS = f"{FOLDER}/runs"
RECEIPTS = f"{FOLDER}/receipts"
_READERS = 16
_PLACED = "at:"


@dataclass(frozen=True)
class Unit:
    """A partition, or the whole table (no values)."""

    spec: Spec
    location: str

    @property
    def name(self) -> str:
        return json.dumps(dict(self.spec), sort_keys=True)


@dataclass(frozen=True)
class Held:
    """What a unit's folder holds: its data files, and its manifest if we put it there."""

    manifest: Manifest | None
    files: Mapping[str, int]
    modified: Mapping[str, int]

    @property
    def as_left(self) -> bool:
        """Whether the folder holds exactly what its manifest says."""
        return self.manifest is not None and dict(self.manifest.files) == dict(self.files)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.manifest.entries if self.manifest else ()

    @property
    def commit(self) -> int:
        return self.manifest.commit if self.manifest else 0


def table_id(database: str, table: str, info: TableInfo) -> str:
    """A name for the table that another table of the same name does not have."""
    return f"{database}.{table}@{info.created}".lower()


def hold(files: Files, folder: str) -> Held:
    """Look into a folder of rows."""
    listed = files.listed(folder)
    found = None
    for name in newest_name([file.path for file in listed]):
        found = Manifest.from_text(files.read(f"{folder}/{name}"))
        if found is not None:
            break
    data = [file for file in listed if not _hidden(file.path)]
    return Held(
        found,
        {file.path: file.size for file in data},
        {file.path: file.modified_ms for file in data},
    )


def _hidden(name: str) -> bool:
    return any(part.startswith(("_", ".")) and "=" not in part for part in name.split("/"))


class View:
    """The table as it is now; folders are looked into when they are asked for."""

    def __init__(
        self,
        pipeline: Pipeline,
        info: TableInfo,
        identity: str,
        units: Sequence[Unit],
        files: Files,
    ) -> None:
        self.info, self.identity, self.units = info, identity, units
        self._pipeline, self._files = pipeline, files
        self._held: dict[str, Held] = {}

    def hold(self, units: Sequence[Unit]) -> dict[str, Held]:
        """What the units hold, by location."""
        missing = [unit.location for unit in units if unit.location not in self._held]
        if missing:
            with ThreadPoolExecutor(min(_READERS, len(missing))) as readers:
                found = readers.map(self._look, missing)
                self._held.update(zip(missing, found, strict=True))
        return {unit.location: self._held[unit.location] for unit in units}

    def _look(self, folder: str) -> Held:
        try:
            return hold(self._files, folder)
        except Gone:
            return hold(self._files, folder)  # replaced while we looked: its successor is there

    @cached_property
    def rule(self) -> SliceRule | None:
        """How windows are found in the table, for patterns that go by windows."""
        return self._pipeline.slice_rule(self._kind)

    def _kind(self, column: str) -> str:
        kinds = {f["name"]: f["type"] for f in json.loads(self.info.schema)["fields"]}
        if column not in kinds:
            raise no_slice_column(self._pipeline.target.label, column)
        return str(kinds[column])

    @property
    def by_partition(self) -> bool:
        """Whether a window owns partitions of its own."""
        rule = self.rule
        return rule is not None and rule.column in self.info.partition_columns

    @property
    def scope(self) -> Scope:
        return Scope(self._pipeline.write, self.rule)

    def owned(self, windows: Sequence[Window]) -> dict[Window, list[Unit]]:
        """The units whose rows belong to each window; all of them when windows share them."""
        rule = self.rule
        if not self.by_partition or rule is None:
            return {window: list(self.units) for window in windows}
        found: dict[Window, list[Unit]] = {window: [] for window in windows}
        owner = rule.index(windows)
        for unit in self.units:
            window = owner(typed_value(rule, unit.spec))
            if window is not None:
                found[window].append(unit)
        return found

    @cached_property
    def aside(self) -> Manifest | None:
        """Receipts of commits that changed no rows of a table without units of their own."""
        found = self._look(f"{self.info.root}/{RECEIPTS}").manifest
        return found if found is not None and found.table == self.identity else None

    def entries(self, units: Iterable[Unit]) -> list[Entry]:
        """All receipts that the units hold, and those that lie beside them."""
        held = self.hold(list(units))
        found = [entry for item in held.values() for entry in item.entries]
        return found + list(self.aside.entries if self.aside else ())

    def states(
        self, windows: Sequence[Window], remembered: Recalled = forgotten
    ) -> dict[Window, SliceState]:
        owned = self.owned(windows)
        self.hold([unit for units in owned.values() for unit in units])
        newest = ""
        if self._pipeline.newest_counts:
            known = latest(self.entries(self.units), self._pipeline.name)
            newest = newest_of([*known, *(window for window, _ in remembered())], self._pipeline)
        shared = None if self.by_partition else latest(self.entries(self.units), self._name)
        return {window: self._state(window, owned[window], newest, shared) for window in windows}

    @property
    def _name(self) -> str:
        return self._pipeline.name

    def _state(
        self,
        window: Window,
        units: Sequence[Unit],
        newest: str,
        shared: Mapping[str, Entry] | None,
    ) -> SliceState:
        found = shared if shared is not None else latest(self.entries(units), self._name)
        entry, rows = found.get(window.id), self.rows(units)
        if entry is None:
            return SliceState(0, None, None, rows, newest=newest)
        receipt = entry.receipt
        untouched = self._untouched(entry, units)
        return SliceState(receipt.generation, receipt, untouched, rows, entry.commit, newest)

    def rows(self, units: Sequence[Unit]) -> int | None:
        """The rows of some units; None when a manifest does not tell."""
        counts = []
        for item in self.hold(units).values():
            if item.manifest is None or not item.as_left or item.manifest.rows is None:
                return None
            counts.append(item.manifest.rows)
        return sum(counts)

    @cached_property
    def claim(self) -> Claim:
        return Claim.of(self._pipeline, self.rule, Columns())

    def _untouched(self, entry: Entry, units: Sequence[Unit]) -> bool:
        """Whether the units still hold what the receipt says, by the definition of now."""
        if not self.claim.made(entry.receipt):
            return False
        looked = self.hold(units).values()
        # An attempt that died may leave a partition that has nothing yet.
        held = [item for item in looked if item.files or item.manifest]
        if not all(item.as_left for item in held):
            return False
        if self.by_partition or isinstance(self._pipeline.write, Replace):
            return entry.receipt.files == self.digest(units)
        if self.units_moved:
            return False
        return all(
            item.manifest is not None
            and item.manifest.absorbed <= entry.commit
            and all(self._is_harmless(entry, other) for other in item.entries)
            for item in held
        )

    @cached_property
    def units_moved(self) -> bool:
        """Whether partitions are others, or elsewhere, than the newest commit has left them."""
        held = [item for item in self.hold(self.units).values() if item.manifest]
        newest = max(held, key=lambda item: item.commit, default=None)
        left = newest.manifest.units if newest and newest.manifest else ""
        if not left.startswith(_PLACED):
            return left not in ("", _names_digest(self.units))
        return left != self.all_units()

    def _is_harmless(self, entry: Entry, other: Entry) -> bool:
        """Whether another publish cannot have changed what an entry says."""
        if other.changed <= entry.commit or self.claim.leaves_others_alone(other.receipt):
            return True
        own = (self._name, entry.receipt.window)
        return (other.receipt.pipeline, other.receipt.window) == own and self.claim.made(
            other.receipt
        )

    def disturbed(self, entries: Iterable[Entry]) -> int:
        """The last commit among some that may have changed rows of other windows than its own."""
        alone = self.claim.leaves_others_alone
        return max((item.changed for item in entries if not alone(item.receipt)), default=0)

    def digest(self, units: Sequence[Unit]) -> str:
        """The digest of the data files of some units, as a receipt holds it."""
        root = f"{self.info.root}/"
        held = self.hold(units)
        return files_digest(
            f"{place.removeprefix(root)}/{name}"
            for place, item in held.items()
            for name in item.files
        )

    def all_units(self) -> str:
        """The digest of all partitions of the table."""
        return units_digest(self.units)

    def tombstones(self) -> tuple[str, ...]:
        """The places where this pipeline's removed keys are remembered."""
        return tombstones.named((e.receipt for e in self.entries(self.units)), self._name)


def typed_value(rule: SliceRule, spec: Spec) -> Any:
    """The value of a partition in the column that tells windows apart."""
    text = spec.get(rule.column)
    return typed(rule.kind, None if text == NULL_PARTITION else text)


def units_digest(units: Iterable[Unit]) -> str:
    """The digest of partitions and the places where they are."""
    return _PLACED + digest(*sorted(f"{unit.name} {unit.location}" for unit in units))


def _names_digest(units: Iterable[Unit]) -> str:
    """The digest of partitions alone, as earlier manifests have it."""
    return digest(*sorted(unit.name for unit in units))
