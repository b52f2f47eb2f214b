"""What a project wants of lint: which kinds, which files, and what it lives with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from setpoint.lint.kinds import BY_CODE, BY_NAME

# Not pipelines: nobody runs them for their data.
EXCLUDED = (
    ".git", ".venv", "venv", "node_modules", "__pycache__", "site-packages", ".tox", "build",
    "dist", "migrations", "tests", "test", "test_*.py", "*_test.py", "conftest.py",
)  # fmt: skip


@dataclass(frozen=True)
class PerFile:
    """Kinds that some files may have, and why."""

    files: str
    ignore: frozenset[str]
    reason: str

    def covers(self, path: str) -> bool:
        return fnmatch(path, self.files) or fnmatch(path, f"*/{self.files}")


@dataclass(frozen=True)
class Settings:
    """The `[lint]` table of a project."""

    select: frozenset[str] = frozenset(BY_CODE)
    ignore: frozenset[str] = frozenset()
    exclude: tuple[str, ...] = EXCLUDED
    per_file: tuple[PerFile, ...] = ()
    baseline: str = ""

    def wants(self, code: str, path: str) -> bool:
        """Is a finding of this code told for this file?"""
        if code not in BY_CODE:
            return True
        if code not in self.select or code in self.ignore:
            return False
        return not any(code in rule.ignore and rule.covers(path) for rule in self.per_file)


def codes(words: Iterable[str], refuse: Callable[[str], Exception]) -> frozenset[str]:
    """Codes by code or by name; `all` and a prefix such as SP1 stand for many."""
    found: set[str] = set()
    for word in words:
        if word in BY_NAME:
            found.add(BY_NAME[word].code)
            continue
        matching = {code for code in BY_CODE if word == "all" or code.startswith(word)}
        if not word or not matching:
            raise refuse(f"{word!r:.60} is neither a kind of findings nor a code")
        found |= matching
    return frozenset(found)


def read_settings(table: Mapping[str, Any], refuse: Callable[[str], Exception]) -> Settings:
    """The settings of a `[lint]` table; `refuse` makes the error for what does not fit."""
    default = Settings()
    return Settings(
        select=codes(_texts(table, "select", refuse), refuse) or default.select,
        ignore=codes(_texts(table, "ignore", refuse), refuse),
        exclude=(*default.exclude, *_texts(table, "exclude", refuse)),
        per_file=tuple(_per_file(item, refuse) for item in _items(table, refuse)),
        baseline=_text(table, "baseline", refuse),
    )


def _text(table: Mapping[str, Any], name: str, refuse: Callable[[str], Exception]) -> str:
    value = table.get(name, "")
    if not isinstance(value, str):
        raise refuse(f"lint.{name} must be a text")
    return value


def _texts(
    table: Mapping[str, Any], name: str, refuse: Callable[[str], Exception]
) -> tuple[str, ...]:
    value = table.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise refuse(f"lint.{name} must be a list of texts")
    return tuple(value)


def _items(table: Mapping[str, Any], refuse: Callable[[str], Exception]) -> list[Any]:
    items = table.get("per-file", [])
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise refuse("lint.per-file must be tables: [[lint.per-file]]")
    return items


def _per_file(item: Mapping[str, Any], refuse: Callable[[str], Exception]) -> PerFile:
    unknown = sorted(set(item) - {"files", "ignore", "reason"})
    if unknown:
        raise refuse(f"lint.per-file.{unknown[0]} is not a setting")
    files, reason = item.get("files"), item.get("reason")
    if not isinstance(files, str) or not files:
        raise refuse("lint.per-file needs files, a pattern such as legacy/*.py")
    if not isinstance(reason, str) or not reason.strip():
        raise refuse(f"lint.per-file for {files} needs a reason")
    return PerFile(files, codes(_texts(item, "ignore", refuse), refuse), reason)
