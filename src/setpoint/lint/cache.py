"""Findings of files that have not changed, kept in one file.

The key is the content of the file, its path (which tells a notebook from a script, and a seed
from a job), and the version of everything that judges it.
Settings and suppressions are applied afterwards: changing them needs no second look.
The file lies in the project, and may have come with a clone: without this user's signature it is
not believed, since an empty list of findings would silence the linter.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from setpoint import __version__, edge
from setpoint.lint.findings import Finding, Place

_MOST = 20_000


class Cache:
    """Raw findings by content; a broken or foreign file counts as empty."""

    def __init__(self, folder: Path | None, judges: Callable[[], str]) -> None:
        self._file = folder / "findings.json" if folder is not None else None
        self._entries: dict[str, list[dict[str, Any]]] = {}
        self._fresh: dict[str, list[dict[str, Any]]] = {}
        self._changed = False
        self._version = f"{__version__}/{judges()}"
        if self._file is not None:
            with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
                signed, _, text = self._file.read_text(encoding="utf-8").partition("\n")
                body = json.loads(text) if edge.is_signed(self._signed(text), signed) else {}
                if body.get("version") == self._version:
                    self._entries = body["entries"]

    def key(self, path: str, content: bytes) -> str:
        return hashlib.sha256(path.encode(errors="replace") + b"\x00" + content).hexdigest()

    def get(self, key: str, path: str) -> list[Finding] | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._fresh[key] = entry
        try:
            return [_finding(item, path) for item in entry]
        except (KeyError, TypeError):
            return None

    def put(self, key: str, findings: list[Finding]) -> None:
        self._fresh[key] = [_stored(finding) for finding in findings]
        self._changed = True

    def save(self) -> None:
        """Writes what is new; a cache that cannot be written is only slower."""
        if self._file is None or not self._changed:
            return
        kept = {**self._entries, **self._fresh}
        if len(kept) > _MOST:
            kept = self._fresh
        body = json.dumps({"version": self._version, "entries": kept}, separators=(",", ":"))
        signed = edge.signature(self._signed(body))
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            ignore = self._file.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
            draft = self._file.with_suffix(f".{os.getpid()}.tmp")
            draft.write_text(f"{signed}\n{body}", encoding="utf-8")
            draft.replace(self._file)

    def _signed(self, body: str) -> str:
        """What the signature is for: these findings, in this place."""
        return f"lint {self._file.resolve() if self._file else ''}\n{body}"


def _stored(finding: Finding) -> dict[str, Any]:
    body = asdict(finding)
    for name in ("path", "fix"):
        body.pop(name)
    return body


def _finding(item: dict[str, Any], path: str) -> Finding:
    return Finding(**{**item, "place": Place(**item["place"]), "path": path})
