"""The configuration: `setpoint.toml`, or `[tool.setpoint]` in `pyproject.toml`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from setpoint.errors import NOTHING_STARTED, UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "setpoint.toml"

SETTINGS: dict[str, str] = {
    "pipelines.paths": "files, folders or globs that hold pipelines, relative to this file",
    "spark.master": "the Spark master, for example local[4] or yarn",
    "spark.remote": "a Spark Connect address, for example sc://host:15002",
    "spark.conf": "a table of further Spark settings",
    "spark.jars": "paths of further jars",
    "ledger.url": "where the history is kept: sqlite:///path or postgresql://...",
    "retry.tries": "how often a run is tried when it fails for a passing reason",
    "retry.first_wait": "seconds before the first retry",
    "retry.longest_wait": "the longest pause between two tries, in seconds",
}


@dataclass(frozen=True)
class Config:
    """The settings of a project; `root` is the folder that relative paths start from."""

    root: Path
    file: Path | None = None
    pipelines: tuple[str, ...] = ("pipelines",)
    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()
    ledger: str = ""
    tries: int = 3
    first_wait: float = 1.0
    longest_wait: float = 60.0

    @property
    def ledger_url(self) -> str:
        """The ledger's URL; a relative SQLite path starts at the project's folder."""
        url = self.ledger or "sqlite:///.setpoint/ledger.db"
        relative = url.removeprefix("sqlite:///")
        if url.startswith("sqlite:///") and not relative.startswith("/"):
            return f"sqlite:////{str((self.root / relative).absolute()).lstrip('/')}"
        return url


def find_config(start: Path, explicit: str | None = None) -> Config:
    """The configuration that holds for a folder: its own or the nearest one above it."""
    if explicit is not None:
        file = Path(explicit)
        if not file.is_file():
            raise _invalid(file, "there is no such file")
        return _read(file)
    for folder in (start.absolute(), *start.absolute().parents):
        if (folder / FILE).is_file():
            return _read(folder / FILE)
        candidate = folder / "pyproject.toml"
        if candidate.is_file() and "setpoint" in _toml(candidate).get("tool", {}):
            return _read(candidate)
    return Config(root=start.absolute())


def _read(file: Path) -> Config:
    body = _toml(file)
    if file.name == "pyproject.toml":
        body = body.get("tool", {}).get("setpoint", {})
    flat = dict(_flatten(file, body))
    unknown = sorted(set(flat) - set(SETTINGS))
    if unknown:
        raise _invalid(file, f"{unknown[0]} is not a setting")
    return Config(
        root=file.parent.absolute(),
        file=file,
        pipelines=_texts(file, flat, "pipelines.paths", ("pipelines",)),
        master=_text(file, flat, "spark.master"),
        remote=_text(file, flat, "spark.remote"),
        conf={str(name): _spark_value(value) for name, value in flat.get("spark.conf", {}).items()},
        jars=_texts(file, flat, "spark.jars", ()),
        ledger=_text(file, flat, "ledger.url") or "",
        tries=int(_number(file, flat, "retry.tries", 3, least=1)),
        first_wait=_number(file, flat, "retry.first_wait", 1.0, least=0),
        longest_wait=_number(file, flat, "retry.longest_wait", 60.0, least=0),
    )


def _toml(file: Path) -> dict[str, Any]:
    try:
        body: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
        return body
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _invalid(file, str(error)) from error


def _flatten(file: Path, body: Mapping[str, Any]) -> list[tuple[str, Any]]:
    pairs = []
    for section, values in body.items():
        if not isinstance(values, dict):
            raise _invalid(file, f"{section} is not a section; write [{section}]")
        pairs += [(f"{section}.{name}", value) for name, value in values.items()]
    return pairs


def _text(file: Path, flat: Mapping[str, Any], name: str) -> str | None:
    value = flat.get(name)
    if value is not None and (not isinstance(value, str) or not value):
        raise _invalid(file, f"{name} must be a text")
    return value


def _texts(
    file: Path, flat: Mapping[str, Any], name: str, default: tuple[str, ...]
) -> tuple[str, ...]:
    value = flat.get(name, list(default))
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _invalid(file, f"{name} must be a list of texts")
    return tuple(value)


def _number(
    file: Path, flat: Mapping[str, Any], name: str, default: float, *, least: float
) -> float:
    value = flat.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least:
        raise _invalid(file, f"{name} must be a number of at least {least}")
    return float(value)


def _spark_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _invalid(file: Path, why: str) -> UsageError:
    return UsageError(
        "SP-C03",
        f"The configuration {file} is not valid: {why}.",
        state=NOTHING_STARTED,
        next="Correct it; docs/reference/configuration.md lists every setting.",
    )
