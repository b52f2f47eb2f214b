"""Empty tables that are like others: what production refuses, a table of a proof refuses too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from setpoint.targets.delta.storage import Storage
from setpoint.targets.delta.twin import make_twin as make_delta_twin
from setpoint.targets.postgres.names import TableName
from setpoint.targets.postgres.server import Server
from setpoint.targets.postgres.twin import make_schema, make_twin


@pytest.fixture
def twin_of(db: Any) -> Any:
    """Makes the twin of public.out in a schema beside it, and tells what it lacks."""
    server = Server("test", db.url)
    make_schema(server, "proof")

    def make() -> tuple[str, ...]:
        return make_twin(server, TableName("public", "out"), server, TableName("proof", "out"))

    return make


def test_a_postgres_twin_has_columns_defaults_and_constraints(db: Any, twin_of: Any) -> None:
    db.all(
        "CREATE TABLE out (id serial PRIMARY KEY, d date NOT NULL, total numeric(12,2) "
        "CHECK (total > 0), \"Odd Name\" text DEFAULT 'x', twice int GENERATED ALWAYS AS (id * 2) "
        "STORED, UNIQUE (d, total))"
    )
    db.all("INSERT INTO out (d, total) VALUES ('2026-04-25', 1)")
    assert twin_of() == ("the sequence of id starts anew",)
    columns = (
        "SELECT column_name, data_type, is_nullable, numeric_scale FROM "
        "information_schema.columns WHERE table_name = 'out' AND table_schema = '{}' ORDER BY 1"
    )
    assert db.all(columns.format("proof")) == db.all(columns.format("public"))
    assert db.rows("proof.out") == []
    db.all("INSERT INTO proof.out (d, total) VALUES ('2026-04-25', 1)")
    for values in ("('2026-04-26', -1)", "('2026-04-25', 1)", "(NULL, 3)"):
        with pytest.raises(psycopg.errors.IntegrityError):
            db.all(f"INSERT INTO proof.out (d, total) VALUES {values}")
    assert db.rows("proof.out") == db.rows("out")


def test_what_a_postgres_twin_lacks_is_told(db: Any, twin_of: Any) -> None:
    db.all(
        "CREATE TABLE other (id int PRIMARY KEY);"
        "CREATE TABLE out (id int REFERENCES other, d date) PARTITION BY RANGE (d);"
        "CREATE UNIQUE INDEX ON out (id, d) WHERE d > '2026-01-01'"
    )
    told = " ".join(twin_of())
    assert "foreign keys are not copied: 1" in told
    assert "unique indexes that are no constraints are not copied: 1" in told
    assert "divided into partitions" in told


def test_there_is_no_twin_of_nothing(twin_of: Any, db: Any) -> None:
    assert twin_of() == ()
    assert db.all("SELECT to_regclass('proof.out')") == [(None,)]


def test_a_delta_twin_has_columns_partitions_and_properties(tmp_path: Path) -> None:
    """Its first commit has no rows; the original is not touched."""
    place = tmp_path / "out"
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("d", pa.date32())])
    write_deltalake(
        place,
        schema.empty_table(),
        partition_by=["d"],
        configuration={"delta.appendOnly": "false", "delta.minReaderVersion": "1"},
    )
    original = DeltaTable(place)
    assert make_delta_twin(Storage.at(str(place)), Storage.at(str(tmp_path / "twin"))) == ()
    twin = DeltaTable(tmp_path / "twin")
    assert twin.schema() == original.schema()
    assert twin.metadata().partition_columns == ["d"]
    assert twin.metadata().configuration == original.metadata().configuration
    assert twin.metadata().id != original.metadata().id
    assert twin.version() == original.version() == 0
    assert (
        make_delta_twin(Storage.at(str(tmp_path / "none")), Storage.at(str(tmp_path / "x"))) == ()
    )
    assert not (tmp_path / "x").exists()
