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


_JARS = "with the connector's jars, once the table exists"

MATRIX: Mapping[tuple[str, TableKind], Cell] = {
    ("overwrite", "delta"): Cell(
        "one metadata-only commit of the staged files; replaceWhere where the table's features or "
        "layout need the connector"
    ),
    ("merge", "delta"): Cell(
        "one metadata-only commit of the new rows, or of all files written anew, for a small batch "
        "that changes none or all of them; the connector's MERGE of the staged batch otherwise",
        only_if=_JARS,
    ),
    ("delete_insert", "delta"): Cell(
        "the connector's replaceWhere with the condition", only_if=_JARS
    ),
    ("insert_new", "delta"): Cell(
        "the connector's MERGE with an insert clause only", only_if=_JARS
    ),
    ("replace", "delta"): Cell("one metadata-only commit of the staged files"),
    ("overwrite", "iceberg"): Cell(
        "one snapshot that swaps the slice's files for the staged ones; files that hold other "
        "windows too are rewritten without these rows"
    ),
    ("merge", "iceberg"): Cell(
        "one snapshot that swaps the files in which a key changes for rewritten ones",
        only_if=_JARS,
    ),
    ("delete_insert", "iceberg"): Cell(
        "one snapshot that swaps the files in which the condition holds for the staged ones and "
        "for what they held besides",
        only_if=_JARS,
    ),
    ("insert_new", "iceberg"): Cell(
        "one snapshot that adds the staged files, or those of the rows that are new",
        only_if=_JARS,
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

# What a destination cannot promise, or promises on a condition only: for the page and for doctor.
LIMITS: Mapping[TableKind, tuple[str, ...]] = {
    "delta": (
        "The details of a receipt go with the clean-up of the log, 30 days by default. How often a "
        "window was published stays; the ledger keeps a copy of the receipt.",
        "Two commits at once are told apart only by a storage that creates a file if it is absent.",
        "Programs that read the files below the table's folder see staged and replaced rows.",
    ),
    "iceberg": (
        "The details of a receipt go with its snapshot when it expires, after 5 days by default. "
        "Generations and removed keys stay in table properties; the ledger keeps a copy of the "
        "receipt.",
        "Only the branch main is published to and looked at.",
        "Tables of format version 3 are refused: a publish of whole files would lose their row "
        "ids.",
        "The answer of a catalog can be lost. The commit is then unknown until the next look.",
    ),
    "parquet": (
        "The fence is a lock that only setpoint keeps, because a metastore compares nothing. "
        "Storage on which two can create one file, such as S3, is refused.",
        "Programs that read paths see no published row, and go on seeing replaced files of older "
        "times. Read the table by its name.",
        "A query that outlives two publishes of what it reads fails with a missing file.",
        "The metastore is asked through Spark, so plan and status start a session too; Spark "
        "Connect cannot publish.",
        "The metastore in the project's folder, which is the default, serves one process at a "
        "time.",
        "Every change of a key rewrites its partition, or the table if it is not partitioned.",
    ),
    "postgres": (
        "There is no time travel: rows that a publish replaced are gone.",
        "Foreign changes are seen by the transaction that wrote a row. For Merge and InsertNew, a "
        "foreign DELETE with as many foreign INSERTs is missed if a later publish updated these "
        "rows.",
        "An ALTER TABLE that rewrites the rows makes every window count as touched. After a "
        "restored dump, or on a replica, each counts as never published. It then runs again.",
        "Tables that a foreign key refers to with ON DELETE CASCADE, SET NULL or SET DEFAULT take "
        "Merge and InsertNew only. A trigger that leaves rows out is refused.",
        "Keys that are equal in more than one text, such as citext or interval, cannot be removed "
        "by delete_when, nor be null.",
        "A publish waits for other writers of the same rows; without a unique index on its key, or "
        "with delete_when, a merge keeps all writers of the table waiting.",
    ),
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
        next=f"Use one of: {', '.join(others)}. The docs have the matrix: Patterns.",
    )
