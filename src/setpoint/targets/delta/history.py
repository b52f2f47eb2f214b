"""What the commits of a Delta log say about themselves, each under its own version.

deltalake tells of all commits that are there, and counts their versions down from the one that was
opened. A commit that came since, or one that says nothing about itself, would move the versions of
all others.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from setpoint.targets.delta.storage import COMMIT, Storage

if TYPE_CHECKING:
    from deltalake import DeltaTable


def read_commits(table: DeltaTable, storage: Storage) -> dict[int, dict[str, Any]]:
    """The commits that the log still holds, by version; also those after the opened one."""
    names = commit_files(storage)
    told = table.history()
    if len(told) == len(names) and commit_files(storage) == names:
        return dict(zip(sorted(names, reverse=True), told, strict=True))
    bodies = {version: storage.read(name) for version, name in commit_files(storage).items()}
    return {version: commit_info(body) for version, body in bodies.items() if body is not None}


def commit_files(storage: Storage) -> dict[int, str]:
    """The files of the log that are commits, by version."""
    found = (COMMIT.fullmatch(file.path) for file in storage.files("_delta_log"))
    return {int(match[1]): match[0] for match in found if match}


def commit_file(version: int) -> str:
    """The file of a commit, below the table's root."""
    return f"_delta_log/{version:020d}.json"


def commit_info(body: bytes) -> dict[str, Any]:
    """What a commit says about itself; it need not say anything."""
    for line in body.splitlines():
        if b'"commitInfo"' in line and isinstance(info := json.loads(line).get("commitInfo"), dict):
            return info
    return {}
