"""Which items were met already, in 32 to 64 bytes each."""

from __future__ import annotations

from array import array
from typing import Literal

_MASK = 0xFFFFFFFFFFFFFFFF


class Seen:
    """A table of hashes: of an item's id, and of the item.

    It holds 64 bits of each. Two different ids with one hash would have to have one content as
    well to be taken for the same item; otherwise they look like an item that has changed, and
    that ends in an error and never in a loss.
    """

    def __init__(self) -> None:
        self.count = 0
        self._slots = array("Q", bytes(2 * 8 * 1024))

    def add(self, id_hash: int, item_hash: int) -> Literal["new", "same", "other"]:
        """Note an item: it is new, was met before, or was met with another content."""
        if 4 * self.count >= len(self._slots):
            self._grow()
        # Zero marks an empty slot.
        key, value = (id_hash & _MASK) or 1, item_hash & _MASK
        place = self._place(key)
        if self._slots[place] == key:
            return "same" if self._slots[place + 1] == value else "other"
        self._slots[place], self._slots[place + 1] = key, value
        self.count += 1
        return "new"

    def _place(self, key: int) -> int:
        slots = self._slots
        place = 2 * (key % (len(slots) // 2))
        while slots[place] not in (0, key):
            place = (place + 2) % len(slots)
        return place

    def _grow(self) -> None:
        old = self._slots
        self._slots = array("Q", bytes(2 * 8 * len(old)))
        for position in range(0, len(old), 2):
            if old[position]:
                place = self._place(old[position])
                self._slots[place], self._slots[place + 1] = old[position], old[position + 1]
