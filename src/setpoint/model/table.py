"""Where rows live: the values a user writes to name a table, as a source or as a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from setpoint.errors import NOTHING_STARTED, DefinitionError
from setpoint.model.grain import Grain

Evolve = Literal["refuse", "add"]


@dataclass(frozen=True)
class Delta:
    """A Delta Lake table, by path or by catalog name. Made with `delta(...)`."""

    path: str | None = None
    table: str | None = None
    partition_by: tuple[str, ...] = ()
    partition_every: Grain | None = None
    time: str | None = None
    evolve: Evolve = "refuse"
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @property
    def label(self) -> str:
        """The table as a person names it."""
        return self.path or self.table or ""

    @property
    def slice_column(self) -> str | None:
        """The column whose values say which window a row belongs to."""
        return self.partition_by[0] if self.partition_by else self.time

    def definition(self) -> dict[str, object]:
        """The parts that decide what a publish writes; they are in the run key."""
        return {
            "kind": "delta",
            "partition_by": list(self.partition_by),
            "time": self.time,
        }


Table = Delta


def delta(
    path: str | None = None,
    *,
    table: str | None = None,
    partition_by: str | tuple[str, ...] | list[str] | None = None,
    partition_every: str | None = None,
    time: str | None = None,
    evolve: Evolve = "refuse",
    storage_options: Mapping[str, str] | None = None,
) -> Delta:
    """Name a Delta table.

    Give a `path` (relative ones start at the project's folder) or a catalog name as `table`.
    As a target it needs the column that says which window a row belongs to: `partition_by`
    (the first column when there are several), or `time` for a table that is not partitioned
    by it. `partition_every` states the unit of the partition when the column's type does not,
    so that a grain mismatch is found before the table exists. `evolve="add"` lets a publish
    add new columns. `storage_options` go to the object store.
    """
    columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by or ())
    _check(path, table, columns, evolve)
    return Delta(
        path=path,
        table=table,
        partition_by=columns,
        partition_every=Grain.parse(partition_every) if partition_every else None,
        time=time,
        evolve=evolve,
        storage_options=dict(storage_options or {}),
    )


def _check(path: str | None, table: str | None, columns: tuple[str, ...], evolve: str) -> None:
    if (path is None) == (table is None):
        raise DefinitionError(
            "SP-D01",
            "delta() needs either a path or table=, and not both.",
            why="One value names one table.",
            state=NOTHING_STARTED,
            next='Write delta("warehouse/orders") or delta(table="sales.orders").',
        )
    label = path if path is not None else table
    if not isinstance(label, str) or not label.strip() or "\x00" in label:
        raise DefinitionError(
            "SP-D01",
            f"delta() got {label!r:.80} where a path or a table name belongs.",
            state=NOTHING_STARTED,
            next='Write delta("warehouse/orders") or delta(table="sales.orders").',
        )
    if any(not isinstance(name, str) or not name for name in columns) or len(set(columns)) != len(
        columns
    ):
        raise DefinitionError(
            "SP-D01",
            f"partition_by={columns!r:.120} is not a list of different column names.",
            state=NOTHING_STARTED,
            next='Write partition_by="order_date" or partition_by=("order_date", "region").',
        )
    if evolve not in ("refuse", "add"):
        raise DefinitionError(
            "SP-D01",
            f"evolve={evolve!r:.40} is not known.",
            state=NOTHING_STARTED,
            next='Write evolve="add" to let a publish add columns, or leave it out.',
        )
