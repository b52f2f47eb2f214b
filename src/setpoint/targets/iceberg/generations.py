"""The generations of a pipeline's windows, in one table property that outlives snapshots.

Receipts lie in snapshot summaries, which vanish when snapshots expire. The property says, for
every window, how often it was published and by which commit last.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

# Some catalogs keep a property in a column of 4,000 characters.
_LONGEST_PLAIN = 3000
_PACKED = "z:"
_UNDONE = -1


@dataclass(frozen=True)
class LastPublish:
    """The last publish of a window: its number, and the sequence number of its commit.

    The sequence number is -1 once a later commit has seen that the publish was rolled back, and 0
    in tables of format version 1, whose commits have none. `earlier` is then the commit of the
    publish of the window that was not rolled back, if there is one.
    """

    generation: int
    sequence: int
    earlier: int = _UNDONE

    @property
    def was_undone(self) -> bool:
        return self.sequence == _UNDONE

    def undone(self, earlier: int | None = None) -> LastPublish:
        """The publish once it was rolled back to one before it, or to none."""
        return LastPublish(self.generation, _UNDONE, _UNDONE if earlier is None else earlier)

    @property
    def stands(self) -> bool:
        """Whether a publish of the window is left."""
        return not self.was_undone or self.earlier != _UNDONE


def property_of(pipeline: str) -> str:
    """The name of the table property."""
    return f"setpoint.generations.{pipeline}"


def tombstones_of(pipeline: str) -> str:
    """The name of the table property that remembers where removed keys are kept."""
    return f"setpoint.tombstones.{pipeline}"


def encode(publishes: Mapping[str, LastPublish]) -> str:
    """The last publishes as a property's value; packed when there are many windows."""
    body = {
        window: [last.generation, last.sequence, *([last.earlier] if last.earlier > 0 else [])]
        for window, last in publishes.items()
    }
    return packed(json.dumps(body, sort_keys=True, separators=(",", ":")))


def decode(text: str | None) -> dict[str, LastPublish]:
    """The last publishes in a property's value; none when it is not there."""
    if not text:
        return {}
    try:
        return {window: LastPublish(*last) for window, last in json.loads(unpacked(text)).items()}
    except (ValueError, TypeError, AttributeError, zlib.error):
        return {}  # somebody has edited it: what the snapshots say counts


def packed(text: str) -> str:
    """A text as the metadata of a table keeps it: a long one is compressed.

    Every commit writes the metadata anew, with all that its snapshots say.
    """
    if len(text) <= _LONGEST_PLAIN:
        return text
    return _PACKED + base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(text: str) -> str:
    """The text that was packed, or one that was not."""
    if not text.startswith(_PACKED):
        return text
    return zlib.decompress(base64.b64decode(text.removeprefix(_PACKED))).decode()
