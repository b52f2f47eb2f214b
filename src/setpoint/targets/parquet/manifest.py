"""The manifest: what lies in a folder of rows, and the receipts that put it there.

It lies in the folder itself, so it becomes the truth in the moment in which the metastore
points to the folder. A manifest is never changed: a later one has a higher number in its name,
and one that was not written to its end does not count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from setpoint.model.receipt import Receipt

FORMAT = "setpoint.manifest"
NAME = re.compile(r"_setpoint-([0-9]{12})\.json")
_KEPT = 3  # receipts of one window: the latest, and those that a crashed attempt may ask for


@dataclass(frozen=True)
class Entry:
    """A receipt with the number of its commit, and of the commit that last changed rows."""

    commit: int
    changed: int
    receipt: Receipt


@dataclass(frozen=True)
class Manifest:
    """The content of one folder.

    `files` are the names and sizes of the data files. `absorbed` is the last commit that took
    over rows which somebody else had put there, or changed rows by another definition.
    `superseded` are the folders that this one replaced and that may still be there. `units` is
    the digest of all partitions of the table after the commit, for patterns that go over the
    whole table.
    """

    commit: int
    entries: tuple[Entry, ...]
    files: Mapping[str, int]
    rows: int | None
    table: str
    absorbed: int = 0
    superseded: tuple[str, ...] = ()
    units: str = ""

    @property
    def file_name(self) -> str:
        return f"_setpoint-{self.commit:012d}.json"

    def as_text(self) -> str:
        body = {
            "format": FORMAT,
            "version": 1,
            "commit": self.commit,
            "table": self.table,
            "rows": self.rows,
            "files": dict(self.files),
            "absorbed": self.absorbed,
            "superseded": list(self.superseded),
            "units": self.units,
            "entries": [
                {"commit": e.commit, "changed": e.changed, "receipt": e.receipt.as_dict()}
                for e in self.entries
            ],
        }
        return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_text(cls, text: str) -> Manifest | None:
        """Read a manifest; None when it was not written to its end or is not ours."""
        try:
            body: dict[str, Any] = json.loads(text)
            if body.get("format") != FORMAT:
                return None
            return cls(
                commit=int(body["commit"]),
                entries=tuple(
                    Entry(e["commit"], e["changed"], Receipt.from_dict(e["receipt"]))
                    for e in body["entries"]
                ),
                files=body["files"],
                rows=body["rows"],
                table=body["table"],
                absorbed=int(body["absorbed"]),
                superseded=tuple(body["superseded"]),
                units=body["units"],
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def carried(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries that a new manifest takes over: the latest few of every window."""
    found: dict[tuple[str, str], dict[int, Entry]] = {}
    for entry in entries:
        window = (entry.receipt.pipeline, entry.receipt.window)
        known = found.setdefault(window, {})
        if entry.commit not in known or known[entry.commit].changed < entry.changed:
            known[entry.commit] = entry
    return tuple(known[commit] for known in found.values() for commit in sorted(known)[-_KEPT:])


def latest(entries: Iterable[Entry], pipeline: str) -> dict[str, Entry]:
    """The latest entry of each window of a pipeline."""
    found: dict[str, Entry] = {}
    for entry in entries:
        receipt = entry.receipt
        if receipt.pipeline != pipeline:
            continue
        known = found.get(receipt.window)
        if known is None or (receipt.generation, entry.commit) > (
            known.receipt.generation,
            known.commit,
        ):
            found[receipt.window] = entry
    return found


def newest_name(names: Sequence[str]) -> list[str]:
    """The manifests among some file names, the newest first."""
    return sorted((name for name in names if NAME.fullmatch(name)), reverse=True)
