"""Where landed copies lie: one small Delta table per generation, made in one commit.

    landing/<name>/<window>/g1/_delta_log/00000000000000000000.json
    landing/<name>/<window>/g1/<attempt>/…parquet

Files are written first, in a folder of the attempt, where nothing leads to them. The table's
first commit names them and carries the record. It is created only if it is absent, so of two
processes that land the same generation one wins, and the other takes the winner's. A table of
landed items is never written again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from setpoint.errors import PermanentError, SetpointError
from setpoint.model.fingerprint import digest
from setpoint.model.landing import Landing, unseal
from setpoint.model.ports import Leftover
from setpoint.model.window import Window
from setpoint.spark.failures import root_cause
from setpoint.targets.delta.storage import Storage
from setpoint.targets.storage import StoredFile, footer_of, out_of_reach

_LOG = "_delta_log/00000000000000000000.json"
_GENERATION = re.compile(r"g([1-9][0-9]{0,8})")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class LandedFile:
    """A file of a landed copy, by its path below the place of all landed copies."""

    path: str
    rows: int
    partition: dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """A generation as it lies in the store: its record, its files and their columns."""

    landing: Landing
    files: tuple[LandedFile, ...]
    schema: str


@dataclass(frozen=True)
class Shelf:
    """The landed copies under one name."""

    storage: Storage
    name: str

    @classmethod
    def named(cls, storage: Storage, name: str) -> Shelf:
        """A shelf whose name is safe as a folder's, whatever letters it is written in."""
        if _PLAIN.fullmatch(name):
            return cls(storage, name)
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".-")
        return cls(storage, f"{plain}-{digest(name)[:8]}")

    @property
    def uri(self) -> str:
        return f"{self.storage.uri}/{self.name}"

    def windows(self) -> frozenset[str]:
        """The slugs of the windows for which something may be landed."""
        return frozenset(self.storage.entries(self.name))

    def generations(self, window: Window) -> list[Kept]:
        """All landed generations of a window, oldest first."""
        kept = (self.generation(window, number) for number in self._numbers(window))
        return [item for item in kept if item is not None]

    def newest(self, window: Window) -> Kept | None:
        """The newest generation of a window; None before the first."""
        for number in reversed(self._numbers(window)):
            kept = self.generation(window, number)
            if kept is not None:
                return kept
        return None

    def generation(self, window: Window, number: int) -> Kept | None:
        """One generation; None when nothing has been committed there."""
        place = self._place(window.slug, number)
        text = self._log(place)
        return None if text is None else _kept(place, text, f"{self.storage.uri}/{place}")

    def folder(self, window: Window, number: int, attempt: str) -> str:
        """Where an attempt writes the files of a generation."""
        return f"{self._place(window.slug, number)}/{attempt}"

    def commit(self, window: Window, landing: Landing, folder: str, schema: str) -> Kept:
        """Make the files of a folder a generation; the one that is there already, if there is one.

        The caller sees by the record's attempt whose it is.
        """
        place = self._place(window.slug, landing.generation)
        files = self._written(folder)
        rows = sum(rows for _, rows in files)
        if rows != landing.items:
            raise PermanentError(
                "SP-H07",
                f"{self.name}[{window.id}]: {landing.items:,} items were to be landed, and the "
                f"files hold {rows:,}.",
                why="A landed copy must hold what its record says.",
                state="Nothing was landed; the target is unchanged.",
                next="Run again.",
            )
        try:
            self._create(place, landing, schema, files)
        except Exception as error:
            # Whoever has committed, the log tells; without an answer from it, nothing is known.
            kept = self.generation(window, landing.generation)
            if kept is None:
                raise _unlanded(f"{self.storage.uri}/{place}", error) from error
            return kept
        kept = self.generation(window, landing.generation)
        assert kept is not None
        return kept

    def drop(self, folder: str) -> None:
        """Remove what an attempt wrote and did not land."""
        self.storage.drop(folder)

    def leftovers(self, pipeline: str) -> list[Leftover]:
        """Folders of attempts that no generation names."""
        folders: dict[tuple[str, str, str, str], list[StoredFile]] = {}
        for file in self.storage.files(self.name):
            # The name itself holds no slash: name/window/generation/attempt/file.
            parts = file.path.split("/")
            if len(parts) > 4 and _GENERATION.fullmatch(parts[2]) and parts[3] != "_delta_log":
                folders.setdefault((parts[0], parts[1], parts[2], parts[3]), []).append(file)
        found = []
        for (_, window, number, attempt), held in sorted(folders.items()):
            place = f"{self.name}/{window}/{number}"
            text = self._log(place)
            kept = _kept(place, text, place) if text else None
            if kept is not None and any(
                file.path.startswith(f"{place}/{attempt}/") for file in kept.files
            ):
                continue
            size, modified = sum(f.size for f in held), max(f.modified_ms for f in held)
            location = f"{place}/{attempt}"
            found.append(Leftover(location, attempt, pipeline, window, len(held), size, modified))
        return found

    def _place(self, slug: str, number: int) -> str:
        return f"{self.name}/{slug}/g{number}"

    def _numbers(self, window: Window) -> list[int]:
        names = self.storage.entries(f"{self.name}/{window.slug}")
        return sorted(int(found[1]) for found in map(_GENERATION.fullmatch, names) if found)

    def _log(self, place: str) -> bytes | None:
        return self.storage.read(f"{place}/{_LOG}")

    def _written(self, folder: str) -> list[tuple[StoredFile, int]]:
        found = []
        for file in self.storage.files(folder):
            if file.path.rsplit("/", 1)[-1].startswith(("_", ".")):
                continue
            with self.storage.open(file.path) as handle:
                rows = int(footer_of(handle, file.path).num_rows)
            if rows:
                found.append((file, rows))
        return found

    def _create(
        self, place: str, landing: Landing, schema: str, files: Sequence[tuple[StoredFile, int]]
    ) -> None:
        from deltalake import CommitProperties, Schema
        from deltalake.transaction import AddAction, create_table_with_add_actions

        table = Storage.at(f"{self.storage.uri}/{place}", self.storage.options)
        adds = [
            AddAction(
                path=file.path[len(place) + 1 :],
                size=file.size,
                partition_values={},
                modification_time=file.modified_ms,
                data_change=True,
                stats=json.dumps({"numRecords": rows}),
            )
            for file, rows in files
        ]
        create_table_with_add_actions(
            table.url,
            Schema.from_json(schema),
            adds,
            mode="error",
            storage_options=dict(table.options),
            commit_properties=CommitProperties(
                custom_metadata={"userMetadata": landing.seal()}, max_commit_retries=0
            ),
        )


def _kept(place: str, text: bytes, shown: str) -> Kept:
    """A generation from the text of its first commit."""
    landing, schema, files = None, "", []
    try:
        for line in text.decode().splitlines():
            action = json.loads(line)
            if "commitInfo" in action:
                landing = unseal(action["commitInfo"].get("userMetadata"))
            elif "metaData" in action:
                schema = str(action["metaData"]["schemaString"])
            elif "add" in action:
                rows = json.loads(action["add"].get("stats") or "{}").get("numRecords", 0)
                path = f"{place}/{unquote(action['add']['path'])}"
                files.append(LandedFile(path, int(rows), {}))
    except (ValueError, KeyError, TypeError, AttributeError):
        landing = None
    if landing is None or not schema:
        raise PermanentError(
            "SP-H07",
            f"{shown} is not a landed copy.",
            why="Its log holds no record of what was landed.",
            next="Move it away, then run again: the origin is asked anew.",
        )
    return Kept(landing, tuple(files), schema)


def _unlanded(place: str, error: Exception) -> SetpointError:
    said = out_of_reach(place, error)
    said.what = f"Nothing could be landed at {place}: {root_cause(error)}"
    said.why = "What an origin returns is kept there before it is used."
    return said
