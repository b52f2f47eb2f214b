"""Which write pattern works on which destination, and by which mechanism.

The page docs/reference/patterns.md is made from this table; a definition that asks for a cell
without a mechanism is refused with the reason and the alternative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from setpoint.errors import NOTHING_STARTED, DefinitionError
from setpoint.model.table import Table, TableKind
from setpoint.model.write import WritePattern


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
        "one snapshot that swaps the slice's files for the staged ones; files that hold other "
        "windows too are rewritten without these rows"
    ),
    ("merge", "iceberg"): Cell(
        "one snapshot that swaps the files in which a key changes for rewritten ones"
    ),
    ("delete_insert", "iceberg"): Cell(
        "one snapshot that swaps the files in which the condition holds for the staged ones and "
        "for what they held besides"
    ),
    ("insert_new", "iceberg"): Cell(
        "one snapshot that adds the staged files, or those of the rows that are new"
    ),
    ("replace", "iceberg"): Cell("one snapshot that swaps all files for the staged ones"),
    ("overwrite", "parquet"): Cell(
        "the locations of the window's partitions are set to the staged folders in one call; a "
        "table that is not partitioned is rewritten beside itself"
    ),
    ("merge", "parquet"): Cell(
        "the partitions that change, or the table, are rewritten beside themselves, then their "
        "locations are set in one call"
    ),
    ("delete_insert", "parquet"): Cell(
        "the window's partitions, or the table, are rewritten beside themselves, then their "
        "locations are set in one call"
    ),
    ("insert_new", "parquet"): Cell(
        "the partitions that get rows, or the table, are rewritten beside themselves, then their "
        "locations are set in one call"
    ),
    ("replace", "parquet"): Cell(
        "the location of the table, or of all its partitions, is set to the staged folders in "
        "one call"
    ),
    ("overwrite", "postgres"): Cell("DELETE of the slice and INSERT in one transaction"),
    ("merge", "postgres"): Cell("INSERT ... ON CONFLICT DO UPDATE and DELETE in one transaction"),
    ("delete_insert", "postgres"): Cell("DELETE and INSERT in one transaction"),
    ("insert_new", "postgres"): Cell("INSERT of the absent keys in one transaction"),
    ("replace", "postgres"): Cell("DELETE of all rows and INSERT in one transaction"),
}


def refuse_unsupported(name: str, write: WritePattern, target: Table) -> None:
    """Refuse a pattern that the destination cannot keep its promise with."""
    if (write.name, target.kind) in MATRIX:
        return
    others = [kind for pattern, kind in MATRIX if pattern == write.name]
    raise DefinitionError(
        "SP-D10",
        f"{name}: {type(write).__name__} cannot be kept on the {target.kind} table {target.label}.",
        why="The destination has no mechanism for it that a crash or a reader could not see half "
        "done.",
        state=NOTHING_STARTED,
        next=f"Use one of: {', '.join(others)}. See docs/reference/patterns.md",
    )
