"""Lint over many files: find them, look at what changed, apply what the project wants."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path

from setpoint.lint import suppressions
from setpoint.lint.baseline import split
from setpoint.lint.cache import Cache
from setpoint.lint.document import SUFFIXES
from setpoint.lint.findings import Finding
from setpoint.lint.settings import Settings

# Below this, starting processes costs more than they gain.
_WORTH_A_POOL = 48
_LARGEST = 2_000_000


@dataclass(frozen=True)
class Report:
    """What was looked at and what was found."""

    files: int
    findings: list[Finding]
    suppressed: list[Finding] = field(default_factory=list)
    known: list[Finding] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def infos(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "info"]


def find_files(paths: Sequence[Path], settings: Settings) -> Iterator[Path]:
    """The files to look at; one that is named is looked at whatever the settings leave out."""
    seen: set[Path] = set()
    for path in paths:
        for file in [path] if path.is_file() else _walk(path, path, settings):
            if file not in seen:
                seen.add(file)
                yield file


def _walk(folder: Path, root: Path, settings: Settings) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        path = Path(entry.path)
        if _excluded(path.relative_to(root).as_posix(), entry.name, settings):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(path, root, settings)
        elif entry.name.endswith(SUFFIXES) and entry.is_file():
            yield path


def _excluded(relative: str, name: str, settings: Settings) -> bool:
    return any(fnmatch(name, pattern) or fnmatch(relative, pattern) for pattern in settings.exclude)


def lint(
    paths: Sequence[Path],
    settings: Settings,
    *,
    cache_folder: Path | None = None,
    known: Counter[str] | None = None,
    jobs: int | None = None,
) -> Report:
    """The findings of some files and folders."""
    cache = Cache(cache_folder, _judges)
    found: dict[str, list[Finding]] = {}
    sources: dict[str, bytes] = {}
    skipped: list[str] = []
    waiting: list[tuple[str, str, bytes]] = []
    for file in find_files(paths, settings):
        path = _shown(file)
        try:
            content = file.read_bytes()
        except OSError as error:
            skipped.append(f"{path}: {error.strerror or error}")
            continue
        if len(content) > _LARGEST:
            skipped.append(f"{path}: larger than {_LARGEST:,} bytes")
            continue
        sources[path] = content
        key = cache.key(path, content)
        ready = cache.get(key, path)
        if ready is None:
            waiting.append((key, path, content))
        else:
            found[path] = ready
    for (key, path, _), findings in zip(waiting, _analysed(waiting, jobs), strict=True):
        cache.put(key, findings)
        found[path] = findings
    cache.save()
    return _judged(found, sources, settings, known or Counter(), skipped)


def _judged(
    found: dict[str, list[Finding]],
    sources: dict[str, bytes],
    settings: Settings,
    known: Counter[str],
    skipped: list[str],
) -> Report:
    kept: list[Finding] = []
    suppressed: list[Finding] = []
    for path in found:
        wanted = [finding for finding in found[path] if settings.wants(finding.code, path)]
        if b"setpoint:" in sources[path]:
            source = sources[path].decode("utf-8", errors="replace").splitlines()
            wanted, silenced = suppressions.apply(path, source, wanted)
            suppressed += silenced
        kept += wanted
    new, old = split(sorted(kept, key=Finding.order), known)
    return Report(len(found), new, suppressed, old, skipped)


def _analysed(waiting: list[tuple[str, str, bytes]], jobs: int | None) -> Iterable[list[Finding]]:
    workers = jobs or min(os.cpu_count() or 1, 8)
    work = [(path, content) for _, path, content in waiting]
    if workers < 2 or len(work) < _WORTH_A_POOL:
        return [_one(item) for item in work]
    size = max(1, min(32, len(work) // (workers * 4)))
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(_one, work, chunksize=size))


def _one(item: tuple[str, bytes]) -> list[Finding]:
    from setpoint.lint.analyse import analyse

    return analyse(*item)


@lru_cache(maxsize=1)
def _judges() -> str:
    """The version of everything that judges a file, without loading it."""
    import hashlib
    from importlib.metadata import PackageNotFoundError, version

    try:
        parser = version("sqlglot")
    except PackageNotFoundError:
        parser = "none"
    own = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        stat = file.stat()
        own.update(f"{file.name}:{stat.st_size}:{stat.st_mtime_ns};".encode())
    return f"{parser}/{own.hexdigest()[:16]}"


def _shown(file: Path) -> str:
    """A path as people write it: from here, if it is below here."""
    try:
        return file.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except ValueError:
        return file.as_posix()
