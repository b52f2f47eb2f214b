"""The configuration: `setpoint.toml`, or `[tool.setpoint]` in `pyproject.toml`."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.lint.settings import Settings, read_settings
from setpoint.model.secret import NOTHING, Secret, settings_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "setpoint.toml"

SETTINGS: dict[str, str] = {
    "pipelines.paths": "files, folders or globs that hold pipelines, relative to this file",
    "spark.master": "the Spark master, for example local[4] or yarn",
    "spark.remote": "a Spark Connect address, for example sc://host:15002, or env:NAME",
    "spark.conf": "a table of further Spark settings; a value may be env:NAME of a variable",
    "spark.jars": "paths of further jars",
    "catalogs.<name>": "an Iceberg catalog: type, uri, warehouse and others; each may be env:NAME",
    "connections.<name>": "a database: its PostgreSQL or JDBC URL, or env:NAME of a variable",
    "landing.path": "where landed copies are kept: a folder, or a URL such as s3://bucket/landing",
    "ledger.url": "where the history is kept: sqlite:///path, postgresql://... or env:NAME",
    "retry.tries": "how often a run is tried when it fails for a passing reason",
    "retry.first_wait": "seconds before the first retry",
    "retry.longest_wait": "the longest pause between two tries, in seconds",
    "postgres.commit_timeout": "seconds to wait for the answer to a COMMIT; then it is unknown",
    "prove.postgres": "a connection to a scratch database, for proofs of PostgreSQL targets",
    "lint.select": "the kinds of findings that lint looks for, by code or name",
    "lint.ignore": "kinds of findings that lint leaves out",
    "lint.exclude": "patterns of files and folders that lint leaves out, beside the usual ones",
    "lint.per-file": "kinds that some files may have: files, ignore and a reason",
    "lint.baseline": "a file with findings that are known; only new ones fail",
}


@dataclass(frozen=True)
class Config:
    """The settings of a project; `root` is the folder that relative paths start from.

    What may hold a password is a `Secret`; whoever makes a configuration may give plain texts.
    """

    root: Path
    file: Path | None = None
    pipelines: tuple[str, ...] = ("pipelines",)
    master: str | None = None
    remote: Secret = NOTHING
    conf: Mapping[str, Secret] = field(default_factory=dict)
    jars: tuple[str, ...] = ()
    catalogs: Mapping[str, Mapping[str, Secret]] = field(default_factory=dict)
    connections: Mapping[str, Secret] = field(default_factory=dict)
    landing: str = "landing"
    ledger: Secret = NOTHING
    tries: int = 3
    first_wait: float = 1.0
    longest_wait: float = 60.0
    commit_timeout: float = 300.0
    prove_postgres: str = ""
    lint: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        values = {
            "remote": Secret.of(self.remote, "[spark] remote", whole=False),
            "ledger": Secret.of(self.ledger, "[ledger] url", whole=False),
            "conf": _secrets(self.conf, "[spark.conf]"),
            "connections": {
                name: Secret.of(text, f"[connections] {name}", whole=False)
                for name, text in self.connections.items()
            },
            "catalogs": {
                name: _secrets(section, f"[catalogs.{name}]")
                for name, section in self.catalogs.items()
            },
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """All that may hold a password."""
        sections = (self.conf, self.connections, *self.catalogs.values())
        listed = [secret for section in sections for secret in section.values()]
        addresses = (Secret(text, whole=False) for text in (self.landing, *self.jars))
        return (self.remote, self.ledger, *listed, *addresses)

    @property
    def ledger_url(self) -> Secret:
        """The ledger's URL; a relative SQLite path starts at the project's folder."""
        url = self.ledger.reveal() or "sqlite:///.setpoint/ledger.db"
        relative = url.removeprefix("sqlite:///")
        if url.startswith("sqlite:///") and not relative.startswith("/"):
            url = f"sqlite:////{str((self.root / relative).absolute()).lstrip('/')}"
        return Secret(url, "[ledger] url", whole=False)


def find_config(start: Path, explicit: str | Path | None = None) -> Config:
    """The configuration that holds for a folder: its own or the nearest one above it."""
    if explicit is not None:
        file = Path(explicit)
        if not file.is_file():
            raise invalid(file, "there is no such file")
        return _read(file)
    for folder in (start.absolute(), *start.absolute().parents):
        if (folder / FILE).is_file():
            return _read(folder / FILE)
        candidate = folder / "pyproject.toml"
        if candidate.is_file() and _tool(_toml(candidate)) is not None:
            return _read(candidate)
    return Config(root=start.absolute())


def _read(file: Path) -> Config:
    body = _toml(file)
    if file.name == "pyproject.toml":
        body = _tool(body) or {}
    flat = dict(_flatten(file, body))
    unknown = sorted(set(flat) - set(SETTINGS) - _named(flat, "catalogs"))
    unknown = [name for name in unknown if name not in _named(flat, "connections")]
    if unknown:
        import difflib

        alike = difflib.get_close_matches(unknown[0], SETTINGS, n=1)
        hint = f"; did you mean {alike[0]}?" if alike else ""
        raise invalid(file, f"{unknown[0]} is not a setting{hint}")
    return Config(
        root=file.parent.absolute(),
        file=file,
        pipelines=_texts(file, flat, "pipelines.paths", ("pipelines",)),
        master=_text(file, flat, "spark.master"),
        remote=Secret.of(_text(file, flat, "spark.remote") or "", "[spark] remote", whole=False),
        conf=_table(file, flat, "spark.conf"),
        jars=_texts(file, flat, "spark.jars", ()),
        catalogs={
            name.partition(".")[2]: _section(file, flat, name)
            for name in sorted(_named(flat, "catalogs"))
        },
        connections={
            name.partition(".")[2]: Secret.of(
                _text(file, flat, name) or "",
                f"[connections] {name.partition('.')[2]}",
                whole=False,
            )
            for name in sorted(_named(flat, "connections"))
        },
        landing=_text(file, flat, "landing.path") or "landing",
        ledger=Secret.of(_text(file, flat, "ledger.url") or "", "[ledger] url", whole=False),
        tries=int(_number(file, flat, "retry.tries", 3, least=1)),
        first_wait=_number(file, flat, "retry.first_wait", 1.0, least=0),
        longest_wait=_number(file, flat, "retry.longest_wait", 60.0, least=0),
        commit_timeout=_number(file, flat, "postgres.commit_timeout", 300.0, least=1),
        prove_postgres=_text(file, flat, "prove.postgres") or "",
        lint=read_settings(
            {name.partition(".")[2]: flat[name] for name in _named(flat, "lint")},
            lambda why: invalid(file, why),
        ),
    )


def _tool(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The [tool.setpoint] section, if there is one."""
    tool = body.get("tool")
    section = tool.get("setpoint") if isinstance(tool, dict) else None
    return section if isinstance(section, dict) else None


def _toml(file: Path) -> dict[str, Any]:
    try:
        body: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
        return body
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise invalid(file, str(error)) from error


def _flatten(file: Path, body: Mapping[str, Any]) -> list[tuple[str, Any]]:
    pairs = []
    for section, values in body.items():
        if not isinstance(values, dict):
            raise invalid(file, f"{section} is not a section; write [{section}]")
        pairs += [(f"{section}.{name}", value) for name, value in values.items()]
    return pairs


def _text(file: Path, flat: Mapping[str, Any], name: str) -> str | None:
    value = flat.get(name)
    if value is not None and (not isinstance(value, str) or not value):
        raise invalid(file, f"{name} must be a text")
    return value


def _texts(
    file: Path, flat: Mapping[str, Any], name: str, default: tuple[str, ...]
) -> tuple[str, ...]:
    value = flat.get(name, list(default))
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise invalid(file, f"{name} must be a list of texts")
    return tuple(value)


def _number(
    file: Path, flat: Mapping[str, Any], name: str, default: float, *, least: float
) -> float:
    value = flat.get(name, default)
    fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not fits or not math.isfinite(value) or value < least:
        raise invalid(file, f"{name} must be a finite number of at least {least}")
    return float(value)


def _table(file: Path, flat: Mapping[str, Any], name: str) -> dict[str, Secret]:
    value = flat.get(name, {})
    if not isinstance(value, dict):
        raise invalid(file, f"{name} must be a table: [{name}]")
    return _secrets(value, f"[{name}]")


def _named(flat: Mapping[str, Any], section: str) -> set[str]:
    """The settings of a section whose names are the user's own."""
    return {name for name in flat if name.startswith(f"{section}.")}


def _section(file: Path, flat: Mapping[str, Any], name: str) -> dict[str, Secret]:
    value = flat[name]
    if not isinstance(value, dict):
        raise invalid(file, f"{name} must be a table: [{name}]")
    plain = {key: item for key, item in value.items() if not isinstance(item, (dict, list))}
    if len(plain) < len(value):
        nested = next(key for key in value if key not in plain)
        raise invalid(file, f"{name}: {nested} must be one value; quote names that hold a dot")
    return _secrets(plain, f"[{name}]")


def _secrets(values: Mapping[str, Any], section: str) -> dict[str, Secret]:
    return settings_of({str(name): _spelled(value) for name, value in values.items()}, section)


def _spelled(value: Any) -> str | Secret:
    if isinstance(value, (str, Secret)):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def located(path: str, root: Path) -> str:
    """A table's place in one spelling, whichever way users and catalogs write it."""
    scheme, separator, rest = path.partition(":")
    if separator and scheme == "file":
        return "/" + unquote(rest).strip("/")
    if separator and rest.startswith("//"):
        scheme = "s3" if scheme in ("s3a", "s3n") else scheme
        return f"{scheme}:{rest}".rstrip("/")
    return str(root / path).rstrip("/")


def invalid(file: Path, why: str) -> UsageError:
    """The configuration cannot be used."""
    return UsageError(
        "SP-C03",
        f"The configuration {file} cannot be used: {why}.",
        why="Without it the pipelines and their surroundings are not known.",
        state=NOTHING_STARTED,
        next="Correct it, then: setpoint doctor",
    )
