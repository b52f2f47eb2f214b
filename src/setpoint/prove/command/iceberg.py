"""An Iceberg table that a command writes.

Its files never change once they are written, so its state is where the catalog points to: the
newest metadata file. Between trials only the pointer goes back, and so the state after the clean
run can still be read. At the end the files go back as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from setpoint.errors import NOTHING_STARTED, PermanentError, UsageError
from setpoint.model.proof import Difference
from setpoint.prove.command import trees
from setpoint.prove.command.entries import names_of, remove
from setpoint.prove.command.files import listing
from setpoint.prove.command.links import why_not_restorable
from setpoint.prove.command.places import Place, Question, Sight, Watching
from setpoint.targets.iceberg.catalog import CatalogSettings, TableName

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import DataFrame

    from setpoint.model.window import Window
    from setpoint.spark.session import Sessions

_STATE, _FILES, _OWN = "table.json", "files", "setpoint_kept"


@dataclass(frozen=True)
class IcebergTable:
    """A table by its catalog and name."""

    name: str
    table: TableName
    settings: CatalogSettings

    @property
    def label(self) -> str:
        return f"iceberg:{self.table}"

    @property
    def address(self) -> str:
        return str(self.table)

    @property
    def identity(self) -> str:
        return self.label

    def refusal(self, beside: Sequence[Place]) -> str:
        location = _location(self.settings.open(), self.table)
        place = _local(location)
        if location and place is None:
            return "its files lie in an object store"
        if place is None:
            return ""
        return why_not_restorable(place, [Path(other.identity) for other in beside])

    def keep(self, folder: Path) -> None:
        """The pointer and the files: a command may remove what the pointer leads to."""
        self.remember(folder)
        if (place := _local(_kept(folder)["location"])) is not None:
            trees.keep(place, folder / _FILES)

    def remember(self, folder: Path) -> None:
        """The pointer alone: between trials the files stay."""
        folder.mkdir(parents=True)
        catalog = self.settings.open()
        pointer, location = _pointer(catalog, self.table), _location(catalog, self.table)
        state = {"pointer": pointer, "location": location}
        (folder / _STATE).write_text(json.dumps(state), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        """The pointer first: what it points to is there, whatever becomes of us."""
        state = _kept(folder)
        left = _local(_location(self.settings.open(), self.table))
        self.reset(folder)
        if state["pointer"] and _local(state["location"]) is not None:
            trees.restore(folder / _FILES, exact=True)
        elif not state["pointer"] and left is not None:
            _remove_new(left, (folder / _STATE).stat().st_ctime_ns, self.label)
        if (found := _pointer(self.settings.open(), self.table)) != state["pointer"]:
            raise _not_restored(self.label, f"the catalog points to {found or 'no table'}")

    def reset(self, folder: Path) -> None:
        wanted, catalog = _kept(folder)["pointer"], self.settings.open()
        if _pointer(catalog, self.table) == wanted:
            return
        if catalog.table_exists(self.table.identifier):
            catalog.drop_table(self.table.identifier)
        if wanted:
            catalog.register_table(self.table.identifier, wanted)

    def elsewhere(self, folder: Path) -> str:
        return ""

    def copy_in(self, folder: Path) -> Place:
        raise UsageError(
            "SP-V22",
            f"{self.label} cannot be copied for a proof.",
            why="A copy would have to lie in a catalog that the command knows.",
            state=NOTHING_STARTED,
            next=f"Leave {{{self.name}}} out of the command: it is proven on the table itself, "
            "which is restored afterwards. Or make a copy and prove the command on that.",
        )

    def fill(self, original: Place) -> None:
        """There are no copies."""

    def left_out(self) -> str:
        return ""

    def discard(self) -> None:
        """There are no copies."""

    @contextmanager
    def watching(self, *, held: bool = True) -> Iterator[Watching]:
        catalog = self.settings.open()
        place = _local(_location(catalog, self.table))

        def look() -> Sight:
            return Sight(_pointer(catalog, self.table), listing(place) if place else "")

        yield Watching(look)

    def exists(self, folder: Path) -> bool:
        return bool(_kept(folder)["pointer"])

    def rows(self, folder: Path, sessions: Sessions) -> int:
        return _count(_kept(folder)["pointer"])

    def rows_now(self, sessions: Sessions) -> int:
        return _count(_pointer(self.settings.open(), self.table))

    def difference(self, folder: Path, question: Question, sessions: Sessions) -> Difference | None:
        from setpoint.prove.command.frames import difference_of

        wanted = _kept(folder)["pointer"]
        found = _pointer(self.settings.open(), self.table)
        if wanted == found:
            return None
        if not wanted or not found:
            before, after = _count(wanted), _count(found)
            words = f"{self.table} is {'there, after one run it is not' if found else 'missing'}"
            return Difference(before, after, before, after, schema=(words,))
        expected, now = self._frame(folder, sessions, wanted), self._frame(folder, sessions, found)
        return difference_of(expected, now, question)

    def time_column(
        self, before: Path, after: Path, named: str, window: Window, sessions: Sessions
    ) -> str:
        from setpoint.prove.command.frames import time_column

        was, pointer = _kept(before)["pointer"], _kept(after)["pointer"]
        if not pointer:
            return ""
        known = self._frame(before, sessions, was) if was else None
        return time_column(known, self._frame(after, sessions, pointer), named, window)

    def _frame(self, folder: Path, sessions: Sessions, pointer: str) -> DataFrame:
        """The rows of one metadata file, through a catalog of the proof's own."""
        from setpoint.model.fingerprint import digest
        from setpoint.targets.iceberg.reader import reader

        section = {
            "type": "jdbc",
            "uri": f"sqlite:///{folder / 'catalog.sqlite'}",
            "warehouse": str(folder / "warehouse"),
        }
        own = CatalogSettings.of(f"{_OWN}_{digest(str(folder))[:8]}", section, folder)
        name = TableName(own.name, ("kept",), f"t{digest(pointer)[:12]}")
        catalog = own.open()
        catalog.create_namespace_if_not_exists(name.namespace)
        if not catalog.table_exists(name.identifier):
            catalog.register_table(name.identifier, pointer)
        session = sessions.get(frozenset({"iceberg"}))
        return reader(session, own, name).read.table(name.sql)


def _kept(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / _STATE).read_text(encoding="utf-8"))
    return found


def _count(pointer: str) -> int:
    """The rows that a metadata file tells of, removed ones left out."""
    from pyiceberg.table import StaticTable

    return int(StaticTable.from_metadata(pointer).scan().count()) if pointer else 0


def _pointer(catalog: Catalog, name: TableName) -> str:
    """The metadata file that the catalog names; empty without a table."""
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        return str(catalog.load_table(name.identifier).metadata_location)
    except (NoSuchTableError, NoSuchNamespaceError):
        return ""


def _location(catalog: Catalog, name: TableName) -> str:
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        return str(catalog.load_table(name.identifier).location())
    except (NoSuchTableError, NoSuchNamespaceError):
        return ""


def _local(location: str) -> Path | None:
    """A location as a folder of this machine, if it is one."""
    parsed = urlparse(location)
    if not location or parsed.scheme not in ("", "file"):
        return None
    return Path(unquote(parsed.path))


def _remove_new(place: Path, since: int, label: str) -> None:
    """Remove the files of a table that the command has made, unless some were there before."""
    for name in names_of(place):
        if (place / name).lstat().st_ctime_ns < since:
            raise _not_restored(label, f"{place / name} was there before the table was made")
    remove(place)


def _not_restored(label: str, why: str) -> PermanentError:
    return PermanentError(
        "SP-V23",
        f"{label} could not be restored: {why}.",
        why="The command has changed more than rows.",
        state="What the table was is kept.",
        next="Make the table as it was.",
    )
