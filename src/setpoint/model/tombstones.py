"""Where the keys that a merge removed are remembered, and which of those places count."""

from __future__ import annotations

from collections.abc import Iterable

from setpoint.model.receipt import Receipt
from setpoint.model.window import Window

# The name starts with '_': the formats' own clean-up leaves such folders alone.
FOLDER = "_setpoint/tombstones"


def folder_of(location: str) -> str:
    """Where an attempt keeps the keys that it removes, below the table's root.

    The place of its stage ends in the window and the attempt, and so does this.
    """
    return f"{FOLDER}/{'/'.join(location.split('/')[-2:])}"


def against(places: Iterable[str], window: Window) -> list[str]:
    """The places that count against a batch of a window: not those that it corrects now.

    A window that is published again says anew which keys are removed. An incremental pipeline
    goes on instead, so what it removed stays removed.
    """
    if window.grain.is_incremental:
        return list(places)
    return [place for place in places if place.split("/")[-2] != window.slug]


def after(known: Iterable[str], window: Window, new: str | None) -> tuple[str, ...]:
    """The places that count once a window is published; `new` is its own place, or empty.

    None stands for a receipt that is renewed alone: it says nothing about removed keys.
    """
    if new is None:
        return tuple(known)
    return (*against(known, window), *([new] if new else []))


def landed_file(pipeline: str) -> str:
    """The name of the file that says that a folder's keys were removed by a commit.

    Receipts say so too, but a log is cleaned up some day.
    """
    return f"_landed.{pipeline}"


def named(
    receipts: Iterable[Receipt], pipeline: str, further: Iterable[str] = ()
) -> tuple[str, ...]:
    """The places that count: those that any receipt of the pipeline names, and `further` ones.

    The latest receipt of a window has the last word on what that window removed.
    """
    places, latest = set(further), dict[str, Receipt]()
    for receipt in receipts:
        if receipt.pipeline == pipeline:
            places |= set(receipt.tombstones)
            slug = receipt.window.replace(":", "")
            if slug not in latest or latest[slug].generation < receipt.generation:
                latest[slug] = receipt

    def counts(place: str) -> bool:
        word = latest.get(place.split("/")[-2])
        return word is None or place in word.tombstones

    return tuple(sorted(filter(counts, places)))
