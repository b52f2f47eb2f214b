"""The receipt: what was published for a window, written in the same commit as the rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from setpoint.model.fingerprint import digest

ENVELOPE = "setpoint.receipts"
VERSION = 1


@dataclass(frozen=True)
class Receipt:
    """One publish of one window.

    `contents` is the fingerprint of the rows, whatever their order or files; `files` is the
    digest of the data files that held them right after the publish (None where the target
    names the files itself). `stage` is the folder of those files, `replaced` the one whose
    files the publish removed. `pattern` names the write pattern with its settings (empty for
    receipts of a time when there was only one), `tombstones` the places where removed keys are
    remembered, `looked_at` the version of the table on which the publish was decided. `scope` names
    the rule by which the publish found the rows to replace, `columns` the columns that the table
    had. Since the commit `quiet_since`, nobody has changed rows but publishes of this pipeline with
    this scope, each those of its own window (None: not known). `effects` is the outbox: what is
    still to be sent for this run.
    """

    pipeline: str
    window: str
    timezone: str
    every: str
    run_key: str
    generation: int
    attempt: str
    rows: int
    contents: str | None
    files: str | None
    published_at: str
    stage: str = ""
    replaced: str = ""
    code: str = ""
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    high_water_mark: str | None = None
    pattern: str = ""
    tombstones: Sequence[str] = ()
    looked_at: int | None = None
    scope: str = ""
    columns: str = ""
    quiet_since: int | None = None
    backfill: str = ""
    """The id of the backfill that the publish belongs to, if it does to one."""
    effects: Sequence[Mapping[str, Any]] = ()
    version: int = VERSION

    def base(self, commit: int) -> int:
        """The commit after which nothing was seen by the publish that made a commit."""
        return commit - 1 if self.looked_at is None else min(self.looked_at, commit - 1)

    def as_dict(self) -> dict[str, Any]:
        """The receipt as plain JSON values."""
        body = {name: getattr(self, name) for name in self.__dataclass_fields__}
        body["inputs"] = {name: dict(value) for name, value in self.inputs.items()}
        body["parameters"] = dict(self.parameters)
        body["tombstones"] = list(self.tombstones)
        body["effects"] = [dict(effect) for effect in self.effects]
        return body

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Receipt:
        """Read a receipt; members written by a newer setpoint are ignored."""
        known = {name: body[name] for name in cls.__dataclass_fields__ if name in body}
        return cls(**known)


def read_receipt(text: str) -> Receipt | None:
    """One receipt from its JSON text; None when another version wrote what we cannot read."""
    try:
        return Receipt.from_dict(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        return None


def seal(receipts: Sequence[Receipt]) -> str:
    """The text that a commit carries."""
    body = {"format": ENVELOPE, "receipts": [receipt.as_dict() for receipt in receipts]}
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def unseal(text: object) -> tuple[Receipt, ...]:
    """The receipts in a commit's text; none when somebody else wrote the commit."""
    if not isinstance(text, str) or ENVELOPE not in text:
        return ()
    try:
        body = json.loads(text)
        if body.get("format") != ENVELOPE:
            return ()
        return tuple(Receipt.from_dict(item) for item in body["receipts"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()


def files_digest(paths: Iterable[str]) -> str:
    """The digest of a set of data files, as a receipt holds it."""
    return digest(*sorted(paths))


@dataclass(frozen=True)
class SliceState:
    """What the target itself says about one window.

    `generation` counts the publishes (0: never published). `receipt` is the latest one, or
    None when the target's log no longer holds it. `untouched` tells whether the slice still
    holds what that receipt says; None when that cannot be told. `newest` is the newest window
    that was published, for patterns by which all windows state the same rows.
    """

    generation: int
    receipt: Receipt | None
    untouched: bool | None
    rows: int | None = None
    commit_version: int | None = None
    newest: str = ""

    @property
    def published(self) -> bool:
        return self.generation > 0
