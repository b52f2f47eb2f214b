"""Which pipelines changed since a git revision: those that a pull request has to prove.

The revision's files are written to a folder of their own, by an index of their own: the user's
checkout, index and branches are not touched. The pipelines of both states are loaded by processes
of their own, and the fingerprints of their code and definition are compared. In doubt a pipeline
counts as changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.project.config import Config
from setpoint.project.discover import project_pipelines
from setpoint.prove.certificate import code_of
from setpoint.prove.fingerprints import ANSWER

_LONGEST = 300.0
_FETCH = "Fetch it (git fetch origin main; in CI check out with the whole history)"


@dataclass(frozen=True)
class Changes:
    """The pipelines of now by whether they changed, those that are gone, and what to know."""

    revision: str
    """The commit that was compared with: where this branch left the revision that was named."""
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def changed_since(config: Config, revision: str) -> Changes:
    """Compare the pipelines of the working folder with those of a revision."""
    top = Path(_git(config.root, revision, "rev-parse", "--show-toplevel").strip()).resolve()
    commit = _fork(config.root, revision)
    now = _codes_now(config)
    with tempfile.TemporaryDirectory(prefix="setpoint-since-") as folder:
        then = Path(folder).resolve() / "tree"
        _export(top, commit, then, revision)
        codes, note = _codes_then(config, top, then, Path(folder).resolve())
    changed = tuple(name for name, code in now.items() if codes.get(name) != code)
    return Changes(
        commit,
        changed,
        tuple(name for name in now if name not in changed),
        tuple(name for name in codes if name not in now),
        (f"{note}: all pipelines count as changed.",) if note else (),
    )


def _codes_now(config: Config) -> Mapping[str, str]:
    """The pipelines of now; what cannot be loaded is told as it always is."""
    with tempfile.TemporaryDirectory(prefix="setpoint-now-") as folder:
        file = str(config.file) if config.file else None
        answer = _asked(Path(folder), {"root": str(config.root), "config": file})
    if "codes" in answer:
        codes: Mapping[str, str] = answer["codes"]
        return codes
    return {name: code_of(item) for name, item in project_pipelines(config).items()}


def _codes_then(
    config: Config, top: Path, then: Path, folder: Path
) -> tuple[Mapping[str, str], str]:
    """The fingerprints of the older state, or none and why they cannot be had."""
    try:
        root = then / config.root.resolve().relative_to(top)
        file = then / config.file.resolve().relative_to(top) if config.file else None
    except ValueError:
        return {}, f"The project is not below {top}"
    if not root.is_dir() or (file is not None and not file.is_file()):
        return {}, "The revision does not have this project"
    asked = {
        "root": str(root),
        "config": str(file) if file else None,
        "now": str(top),
        "then": str(then),
    }
    answer = _asked(folder, asked)
    if strangers := answer.get("strangers"):
        some = ", ".join(strangers[:3])
        return {}, f"The revision's pipelines take modules from the present folder ({some})"
    if "codes" not in answer:
        return {}, f"The revision's pipelines could not be loaded ({answer['problem']})"
    return answer["codes"], ""


def _asked(folder: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Have a process of its own answer; what pipelines print while they load goes nowhere."""
    request = folder / "request.json"
    request.write_text(json.dumps(asked), encoding="utf-8")
    command = [sys.executable, "-m", "setpoint.prove.fingerprints", str(request)]
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            timeout=_LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"they were not loaded within {_LONGEST:.0f} seconds"}
    try:
        answer: dict[str, Any] = json.loads((folder / ANSWER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"problem": f"the process that loads them ended with {ended.returncode}"}
    return answer


def _fork(root: Path, revision: str) -> str:
    """Where this branch left the revision: what changed there since is not this branch's doing."""
    named = _git(
        root, revision, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}"
    )
    commit = named.strip()
    base = subprocess.run(
        ["git", "merge-base", commit, "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    return base.stdout.strip() or commit


def _export(top: Path, commit: str, place: Path, revision: str) -> None:
    place.mkdir()
    own = {"GIT_INDEX_FILE": str(place.parent / "index"), "GIT_LFS_SKIP_SMUDGE": "1"}
    _git(top, revision, "read-tree", commit, more=own)
    _git(top, revision, "checkout-index", "--all", f"--prefix={place}/", more=own)


def _git(folder: Path, revision: str, *words: str, more: Mapping[str, str] | None = None) -> str:
    try:
        ended = subprocess.run(
            ["git", *words],
            cwd=folder,
            env={**os.environ, **(more or {})},
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        why = f"git could not be started: {error.strerror}"
        raise _no_revision(revision, why, "Install git") from error
    if ended.returncode:
        lines = ended.stderr.strip().splitlines()
        last = lines[-1] if lines else f"git {words[0]} failed"
        if "not a git repository" in ended.stderr:
            raise _no_revision(revision, last, "Go to the folder of the repository")
        raise _no_revision(revision, last, _FETCH)
    return ended.stdout


def _no_revision(revision: str, why: str, next: str) -> UsageError:
    return UsageError(
        "SP-V31",
        f"The revision {revision!r:.80} could not be looked at: {why}.",
        why="Without it there is no telling which pipelines changed.",
        state=NOTHING_STARTED,
        next=f"{next}, or prove pipelines by name: setpoint prove NAME",
    )
