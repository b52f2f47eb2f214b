"""Which write pattern works on which destination, and by which mechanism.

The page docs/reference/patterns.md is made from this table; a definition that asks for a cell
without a mechanism is refused with the reason and the alternative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from setpoint.errors import NOTHING_STARTED, DefinitionError
from setpoint.model.table import Parquet, Table, TableKind
from setpoint.model.write import KEYED, DeleteInsert, Overwrite, WritePattern


@dataclass(frozen=True)
class Cell:
    """How a destination keeps a pattern's promise, and on what condition."""

    mechanism: str
    only_if: str = ""


MATRIX: Mapping[tuple[str, TableKind], Cell] = {
    ("overwrite", "delta"): Cell(
        "one metadata-only commit of the staged files; replaceWhere where the table's features or "
        "layout need the connector"
    ),
    ("merge", "delta"): Cell("the connector's MERGE of the staged batch"),
    ("delete_insert", "delta"): Cell("the connector's replaceWhere with the condition"),
    ("insert_new", "delta"): Cell("the connector's MERGE with an insert clause only"),
    ("replace", "delta"): Cell("one metadata-only commit of the staged files"),
    ("overwrite", "iceberg"): Cell(
        "one snapshot that swaps the slice's files for the staged ones; overwrite by condition "
        "where files hold other windows too"
    ),
    ("merge", "iceberg"): Cell("the connector's MERGE of the staged batch"),
    ("delete_insert", "iceberg"): Cell("the connector's overwrite by condition"),
    ("insert_new", "iceberg"): Cell("the connector's MERGE with an insert clause only"),
    ("replace", "iceberg"): Cell("one snapshot that swaps all files for the staged ones"),
    ("overwrite", "parquet"): Cell(
        "the partition's location is set to the staged folder", "the window is one partition"
    ),
    ("merge", "parquet"): Cell(
        "the table is rewritten beside itself, then its location is set",
        "the table is not partitioned",
    ),
    ("delete_insert", "parquet"): Cell(
        "the partition or table is rewritten beside itself, then its location is set",
        "the window is one partition, or the table is not partitioned",
    ),
    ("insert_new", "parquet"): Cell(
        "the table is rewritten beside itself, then its location is set",
        "the table is not partitioned",
    ),
    ("replace", "parquet"): Cell(
        "the table's location is set to the staged folder", "the table is not partitioned"
    ),
    ("overwrite", "postgres"): Cell("DELETE of the slice and INSERT in one transaction"),
    ("merge", "postgres"): Cell("INSERT ... ON CONFLICT DO UPDATE and DELETE in one transaction"),
    ("delete_insert", "postgres"): Cell("DELETE and INSERT in one transaction"),
    ("insert_new", "postgres"): Cell("INSERT of the absent keys in one transaction"),
    ("replace", "postgres"): Cell("DELETE of all rows and INSERT in one transaction"),
}


def refuse_unsupported(name: str, write: WritePattern, target: Table) -> None:
    """Refuse a pattern that the destination cannot keep its promise with."""
    if not isinstance(target, Parquet):
        return
    partitioned = bool(target.partition_by)
    if isinstance(write, Overwrite) and len(target.partition_by) != 1:
        raise _unsupported(
            name,
            write,
            target,
            "A metastore swaps one partition at a time, so a window must be exactly one.",
            'Give parquet(...) one partition column of the window\'s unit, partition_by="day", '
            "or use delta(...) or iceberg(...).",
        )
    if isinstance(write, DeleteInsert):
        if len(target.partition_by) > 1 or (target.time and not partitioned):
            raise _unsupported(
                name,
                write,
                target,
                "A metastore swaps one partition, or one table, at a time.",
                "Give parquet(...) at most one partition column and no time=, or use delta(...).",
            )
    elif partitioned and not isinstance(write, Overwrite):
        touched = "any partition" if isinstance(write, KEYED) else "all partitions"
        raise _unsupported(
            name,
            write,
            target,
            f"It changes {touched} at once, and a metastore swaps one at a time: readers would "
            "see a half-made table, and a crash would leave one.",
            "Leave partition_by out, or use delta(...) or iceberg(...).",
        )


def _unsupported(
    name: str, write: WritePattern, target: Table, why: str, next: str
) -> DefinitionError:
    return DefinitionError(
        "SP-D10",
        f"{name}: {type(write).__name__} cannot be kept on the {target.kind} table {target.label}.",
        why=why,
        state=NOTHING_STARTED,
        next=next,
    )
