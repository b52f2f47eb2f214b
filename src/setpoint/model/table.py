"""Where rows live: the values a user writes to name a table, as a source or as a target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypedDict

from setpoint.errors import NOTHING_STARTED, DefinitionError
from setpoint.model.grain import Grain
from setpoint.model.secret import refuse_url_for_name

Evolve = Literal["refuse", "add"]
TableKind = Literal["delta", "iceberg", "parquet", "postgres"]
Partitioning = str | Sequence[str] | None


@dataclass(frozen=True, kw_only=True)
class _Layout(ABC):
    """How a table is divided, and which column says to which window a row belongs."""

    kind: ClassVar[TableKind]

    partition_by: tuple[str, ...] = ()
    partition_every: Grain | None = None
    time: str | None = None
    evolve: Evolve = "refuse"

    @property
    @abstractmethod
    def label(self) -> str:
        """The table as a person names it."""

    @property
    def slice_column(self) -> str | None:
        """The column whose values say which window a row belongs to."""
        return self.partition_by[0] if self.partition_by else self.time

    def definition(self) -> dict[str, object]:
        """The parts that decide what a publish writes; they are in the run key."""
        return {
            "kind": self.kind,
            "partition_by": list(self.partition_by),
            "time": self.time,
        }


@dataclass(frozen=True, kw_only=True)
class Delta(_Layout):
    """A Delta Lake table, by path or by catalog name. Made with `delta(...)`."""

    kind: ClassVar[TableKind] = "delta"

    path: str | None = None
    table: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @property
    def label(self) -> str:
        return self.path or self.table or ""


@dataclass(frozen=True, kw_only=True)
class Iceberg(_Layout):
    """An Apache Iceberg table, by name in a configured catalog. Made with `iceberg(...)`."""

    kind: ClassVar[TableKind] = "iceberg"

    table: str

    @property
    def label(self) -> str:
        return self.table


@dataclass(frozen=True, kw_only=True)
class Parquet(_Layout):
    """A Hive-style Parquet table, by its name in the metastore. Made with `parquet(...)`."""

    kind: ClassVar[TableKind] = "parquet"

    table: str

    @property
    def label(self) -> str:
        return self.table


@dataclass(frozen=True, kw_only=True)
class Postgres(_Layout):
    """A PostgreSQL table, by name and configured connection. Made with `postgres(...)`."""

    kind: ClassVar[TableKind] = "postgres"

    table: str
    connection: str = "postgres"

    @property
    def label(self) -> str:
        return self.table


Table = Delta | Iceberg | Parquet | Postgres
TABLES = (Delta, Iceberg, Parquet, Postgres)


_NAMED = {
    "delta": "path or a table name",
    "iceberg": "table name",
    "parquet": "table name",
    "postgres": "table or connection name",
}


class _Given(TypedDict):
    partition_by: tuple[str, ...]
    partition_every: Grain | None
    time: str | None
    evolve: Evolve


def delta(
    path: str | None = None,
    *,
    table: str | None = None,
    partition_by: Partitioning = None,
    partition_every: str | None = None,
    time: str | None = None,
    evolve: Evolve = "refuse",
    storage_options: Mapping[str, str] | None = None,
) -> Delta:
    """Name a Delta table.

    Give a `path` (relative ones start at the project's folder) or a catalog name as `table`.
    As the target of a window overwrite it needs the column that says which window a row
    belongs to: `partition_by` (the first column when there are several), or `time` for a table
    that is not partitioned by it. `partition_every` states the unit of the partition when the
    column's type does not, so that a grain mismatch is found before the table exists.
    `evolve="add"` lets a publish add new columns. `storage_options` go to the object store.
    """
    if (path is None) == (table is None):
        raise _invalid(
            "delta() needs either a path or table=, and not both",
            'Write delta("warehouse/orders") or delta(table="sales.orders").',
            why="One value names one table.",
        )
    _check_name("delta", path if path is not None else table, '"warehouse/orders"')
    layout = _layout(partition_by, partition_every, time, evolve)
    return Delta(path=path, table=table, storage_options=dict(storage_options or {}), **layout)


def iceberg(
    table: str,
    *,
    partition_by: Partitioning = None,
    partition_every: str | None = None,
    time: str | None = None,
    evolve: Evolve = "refuse",
) -> Iceberg:
    """Name an Iceberg table as `catalog.namespace.table`; without a catalog it is `lake`.

    The catalog is a section of the configuration, `[catalogs.lake]`; if there is none, it is a
    catalog in SQLite below the project's folder. The other arguments are those of `delta`.
    """
    _check_name("iceberg", table, '"sales.orders"')
    layout = _layout(partition_by, partition_every, time, evolve)
    return Iceberg(table=table, **layout)


def parquet(
    *,
    table: str,
    partition_by: Partitioning = None,
    partition_every: str | None = None,
    time: str | None = None,
    evolve: Evolve = "refuse",
) -> Parquet:
    """Name a Hive-style Parquet table as `database.table` in the session's metastore.

    A folder of Parquet files without a metastore has no commit: nothing tells a reader which
    of its files count. The other arguments are those of `delta`.
    """
    _check_name("parquet", table, 'table="sales.orders"')
    layout = _layout(partition_by, partition_every, time, evolve)
    return Parquet(table=table, **layout)


def postgres(
    table: str,
    *,
    connection: str = "postgres",
    time: str | None = None,
    evolve: Evolve = "refuse",
) -> Postgres:
    """Name a PostgreSQL table as `schema.table`; without a schema it is in `public`.

    `connection` names a URL under `[connections]` of the configuration, or in the environment
    as SETPOINT_CONNECTION_<NAME>, so that no password stands in the code. As the target of a
    window overwrite it needs `time`, the column that says which window a row belongs to.
    `evolve="add"` lets a publish add new columns.
    """
    _check_name("postgres", table, '"sales.orders"')
    _check_name("postgres", connection, '"sales.orders", connection="warehouse"')
    refuse_url_for_name(connection)
    layout = _layout(None, None, time, evolve)
    return Postgres(table=table, connection=connection, **layout)


def _layout(
    partition_by: Partitioning, partition_every: str | None, time: str | None, evolve: Evolve
) -> _Given:
    columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by or ())
    names = all(isinstance(name, str) and name for name in columns)
    if not names or len(set(columns)) != len(columns):
        raise _invalid(
            f"partition_by={columns!r:.120} is not a list of different column names",
            'Write partition_by="order_date" or partition_by=("order_date", "region").',
        )
    if evolve not in ("refuse", "add"):
        raise _invalid(
            f"evolve={evolve!r:.40} is not known",
            'Write evolve="add" to let a publish add columns, or leave it out.',
        )
    every = Grain.parse(partition_every) if partition_every else None
    return _Given(partition_by=columns, partition_every=every, time=time, evolve=evolve)


def _check_name(call: str, name: object, example: str) -> None:
    if not isinstance(name, str) or not name.strip() or "\x00" in name:
        raise _invalid(
            f"{call}() got {name!r:.80} where a {_NAMED[call]} belongs",
            f"Write {call}({example}).",
        )


def _invalid(what: str, next: str, *, why: str = "") -> DefinitionError:
    return DefinitionError("SP-D01", f"{what}.", why=why, state=NOTHING_STARTED, next=next)
