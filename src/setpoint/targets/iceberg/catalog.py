"""A catalog by configuration: one section tells Spark and pyiceberg where the tables are.

pyiceberg is what looks and commits, without a JVM; Spark's side is for reading rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from setpoint.errors import (
    NOTHING_STARTED,
    UNTOUCHED,
    PermanentError,
    TransientError,
    UsageError,
    words_of,
)
from setpoint.model.fingerprint import digest
from setpoint.model.secret import Secret, revealed, scrubbed, settings_of
from setpoint.targets.postgres.urls import PERCENT_ENCODE, is_ambiguous, several_hosts
from setpoint.targets.storage import reaching

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

DEFAULT = "lake"
TYPES = ("jdbc", "rest", "hive", "glue")
_SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_PART = re.compile(r"`(?:[^`]|``)*`|[^.`]+|(\.)")
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class TableName:
    """A table's full name: the catalog, the namespace and the table."""

    catalog: str
    namespace: tuple[str, ...]
    table: str

    @classmethod
    def parse(cls, text: str, catalogs: Mapping[str, object]) -> TableName:
        """A name as users write it; backticks keep dots and other characters in a part."""
        parts = _split(text)
        if len(parts) > 2 or (len(parts) == 2 and parts[0] in catalogs):
            catalog, *rest = parts
        else:
            catalog, rest = DEFAULT, parts
        if len(rest) < 2 or not all(rest):
            raise UsageError(
                "SP-D01",
                f"{text!r:.120} does not name a table in a namespace.",
                state=NOTHING_STARTED,
                next='Write iceberg("sales.orders") or iceberg("lake.sales.orders").',
            )
        return cls(catalog, tuple(rest[:-1]), rest[-1])

    @property
    def identifier(self) -> tuple[str, ...]:
        return (*self.namespace, self.table)

    @property
    def sql(self) -> str:
        """The name as Spark takes it literally."""
        parts = (self.catalog, *self.identifier)
        return ".".join(f"`{part.replace('`', '``')}`" for part in parts)

    @property
    def folder(self) -> str:
        """The table's folder below the warehouse, for a name that may hold anything."""
        return "/".join(
            part if _PLAIN.fullmatch(part) else f"{_slug(part)}-{digest(part)[:8]}"
            for part in self.identifier
        )

    def __str__(self) -> str:
        return ".".join((self.catalog, *self.identifier))


@dataclass(frozen=True)
class CatalogSettings:
    """A `[catalogs.<name>]` section of the configuration."""

    name: str
    type: str
    properties: Mapping[str, Secret] = field(default_factory=dict, hash=False)

    @classmethod
    def of(
        cls, name: str, section: Mapping[str, str | Secret] | None, root: Path
    ) -> CatalogSettings:
        """The settings of a section; without one, a catalog in SQLite below the project."""
        place = f"[catalogs.{name}]"
        if section is None and name != DEFAULT:
            raise _invalid(name, f"there is no section [catalogs.{name}]")
        given = revealed(settings_of(section or {}, place))
        if section is None:
            given = {"type": "jdbc", "uri": "sqlite:///warehouse/_catalog.sqlite"}
            given["warehouse"] = "warehouse"
        kind = given.pop("type", "rest" if given.get("uri", "").startswith("http") else "jdbc")
        if kind == "hadoop":
            raise _invalid(
                name,
                "a hadoop catalog has no atomic commit on most storages and cannot be read "
                "without a JVM; use jdbc, rest, hive or glue",
            )
        if kind not in TYPES:
            raise _invalid(name, f"type={kind!r:.40} is not one of {', '.join(TYPES)}")
        if kind == "jdbc" and not given.get("uri"):
            raise _invalid(name, "a jdbc catalog needs uri")
        if "uri" in given and kind == "jdbc":
            if is_ambiguous(given["uri"]):
                raise _invalid(name, f"uri cannot be understood. {PERCENT_ENCODE}")
            given["uri"] = _absolute_uri(given["uri"], root)
        if "warehouse" in given:
            given["warehouse"] = _absolute(given["warehouse"], root, local=kind != "rest")
        return cls(name, kind, settings_of(given, place))

    @property
    def warehouse(self) -> str | None:
        return self._property("warehouse") or None

    @property
    def is_missing(self) -> bool:
        """Whether the catalog is a file that is not there yet; opening it would make it."""
        uri = self._property("uri")
        sqlite = self.type == "jdbc" and uri.startswith("sqlite:///")
        return sqlite and not Path(uri.removeprefix("sqlite:///")).exists()

    def for_python(self) -> dict[str, str]:
        """The properties as pyiceberg takes them."""
        given = revealed(self.properties)
        given["type"] = "sql" if self.type == "jdbc" else self.type
        if self.type == "jdbc":
            given["uri"] = _alchemy_uri(given["uri"], given)
            given.setdefault("schema_version", "v1")
        return given

    def for_spark(self) -> dict[str, str]:
        """The settings of a Spark session that make the catalog known under its name."""
        given = {"cache-enabled": "false", **revealed(self.properties), "type": self.type}
        if self.type == "jdbc":
            given |= _jdbc(given["uri"])
            given.setdefault("jdbc.schema-version", "V1")
        prefix = f"spark.sql.catalog.{self.name}"
        return {prefix: _SPARK_CATALOG, **{f"{prefix}.{key}": v for key, v in given.items()}}

    def open(self) -> Catalog:
        """The catalog as pyiceberg sees it."""
        try:
            from pyiceberg.catalog import load_catalog
        except ImportError as error:
            raise UsageError(
                "SP-C08",
                "pyiceberg is not installed.",
                why="It looks at Iceberg tables and commits to them, without a JVM.",
                state=NOTHING_STARTED,
                next="Install it: pip install 'setpoint[iceberg]'",
            ) from error
        self._make_folder()
        from pyiceberg.exceptions import NotInstalledError

        try:
            try:
                return load_catalog(self.name, **self.for_python())
            except Exception as error:
                if "already exists" not in str(error):
                    raise
                # Another process has just made the catalog's own tables.
                return load_catalog(self.name, **self.for_python())
        except NotInstalledError as error:
            raise UsageError(
                "SP-C08",
                f"The catalog {self.name} needs a package that is not installed: "
                f"{words_of(error.__cause__ or error)}",
                why="pyiceberg looks at the catalog with it, without a JVM.",
                state=NOTHING_STARTED,
                next=f"Install it: {str(error).partition(': ')[2] or 'see pyiceberg'}",
            ) from error
        except ValueError as error:
            # What it says may hold a part of a password.
            raise _invalid(
                self.name, "a setting, such as its uri, is not of a valid form"
            ) from error
        except Exception as error:
            failure = unreachable(f"The catalog {self.name}", error)
            failure.what = scrubbed(failure.what, self.properties.values())
            raise failure from error

    def _property(self, name: str) -> str:
        secret = self.properties.get(name)
        return secret.reveal() if secret is not None else ""

    def _make_folder(self) -> None:
        uri = self._property("uri")
        if self.type == "jdbc" and uri.startswith("sqlite:///"):
            folder = Path(uri.removeprefix("sqlite:///")).parent
            with reaching(str(folder)):
                folder.mkdir(parents=True, exist_ok=True)


def unreachable(what: str, error: BaseException) -> TransientError | PermanentError:
    """The catalog or the table could not be asked; says whether a retry may help."""
    said = " ".join(str(error).split())[:300] or type(error).__name__
    lasting = isinstance(error, (FileNotFoundError, PermissionError))
    passing = (isinstance(error, OSError) and not lasting) or type(error).__name__ in (
        "OperationalError",
        "ServiceUnavailableError",
        "ServerError",
        "TooManyRequestsError",
        "ConnectionError",
        "ReadTimeout",
        "WaitingForLockException",
    )
    kind = TransientError if passing else PermanentError
    return kind(
        "SP-T01",
        f"{what} could not be read: {said}",
        why="What the table holds cannot be told without its metadata.",
        state=UNTOUCHED,
        next="Check the catalog's section, the credentials and the network, then run again.",
    )


def _split(text: str) -> list[str]:
    parts, current, position = [], "", 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:  # a backtick that is not closed is a character like others
            current += text[position]
            position += 1
            continue
        if match[1]:
            parts.append(current)
            current = ""
        elif match[0].startswith("`"):
            current += match[0][1:-1].replace("``", "`")
        else:
            current += match[0]
        position = match.end()
    return [*parts, current]


def _slug(part: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", part).strip("_")[:40] or "x"


def _absolute(place: str, root: Path, *, local: bool) -> str:
    if not local or re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", place):
        return place
    path = str((root / place).absolute())
    if re.search(r"[#?]", path):
        raise UsageError(
            "SP-C03",
            f"The warehouse {path} holds # or ? in its path.",
            why="Locations are URLs: what follows would be cut off.",
            state=NOTHING_STARTED,
            next="Choose another folder for the warehouse.",
        )
    return f"file://{path}"


def _absolute_uri(uri: str, root: Path) -> str:
    """One spelling for SQLite: sqlite:////absolute/path; others stay as they are."""
    for prefix in ("jdbc:sqlite:", "sqlite:///"):
        if uri.startswith(prefix):
            path = uri.removeprefix(prefix).removeprefix("file:")
            return f"sqlite:///{(root / path).absolute()}"
    return uri


def _alchemy_uri(uri: str, given: Mapping[str, str]) -> str:
    """A database as SQLAlchemy names it, from either spelling."""
    if not uri.startswith("jdbc:"):
        scheme, separator, rest = several_hosts(uri).partition("://")
        return f"postgresql+psycopg://{rest}" if scheme == "postgresql" and separator else uri
    from sqlalchemy.engine import URL

    parts = urlsplit(several_hosts(uri.removeprefix("jdbc:")))
    driver = {"postgresql": "postgresql+psycopg"}.get(parts.scheme, parts.scheme)
    return URL.create(
        driver,
        given.get("jdbc.user"),
        given.get("jdbc.password"),
        parts.hostname,
        parts.port,
        parts.path.lstrip("/"),
        query=parse_qs(parts.query) if "host=" in parts.query else {},
    ).render_as_string(hide_password=False)


def _jdbc(uri: str) -> dict[str, str]:
    """A database as JDBC names it, from either spelling."""
    if uri.startswith("jdbc:"):
        return {"uri": uri}
    if uri.startswith("sqlite:///"):
        return {"uri": f"jdbc:sqlite:{uri.removeprefix('sqlite:///')}"}
    parts = urlsplit(uri)
    place = parts.netloc.rpartition("@")[2]
    found = {"uri": f"jdbc:{parts.scheme.partition('+')[0]}://{place}{parts.path}"}
    if parts.username:
        found["jdbc.user"] = unquote(parts.username)
    if parts.password:
        found["jdbc.password"] = unquote(parts.password)
    return found


def _invalid(name: str, why: str) -> UsageError:
    return UsageError(
        "SP-C03",
        f"The catalog {name} cannot be used: {why}.",
        state=NOTHING_STARTED,
        next=f"Correct [catalogs.{name}] in setpoint.toml.",
    )
