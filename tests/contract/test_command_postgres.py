"""A PostgreSQL table of a command: whatever is done to it is undone, and differences are exact."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from setpoint.prove.command.places import Question, Waiting, name_of_commands
from setpoint.prove.command.postgres.structure import structure_of
from setpoint.prove.command.postgres.table import PostgresTable
from setpoint.spark.session import Sessions
from setpoint.targets.postgres.server import Server

NO_SPARK = Sessions()


@pytest.fixture
def table(db: Any) -> PostgresTable:
    """A table with everything that a table can have."""
    db.all("CREATE TABLE countries (code text PRIMARY KEY)")
    db.all("INSERT INTO countries VALUES ('DE'), ('FR')")
    db.all("CREATE SEQUENCE shared START 50")
    db.all(
        "CREATE TABLE out (id serial PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY "
        "(SEQUENCE NAME counted START 1000 INCREMENT 10), "
        "m int DEFAULT nextval('shared'), country text REFERENCES countries, note text "
        'COLLATE "C", twice int GENERATED ALWAYS AS (id * 2) STORED, body json, x float8, '
        "amount numeric CHECK (amount > 0), UNIQUE (country, note))"
    )
    db.all("CREATE INDEX partial ON out (amount) WHERE amount > 5")
    db.all("ALTER TABLE out ENABLE ROW LEVEL SECURITY")
    db.all("CREATE POLICY own ON out FOR SELECT TO PUBLIC USING (country = current_user)")
    db.all("COMMENT ON COLUMN out.note IS 'it''s a note'")
    db.all("GRANT SELECT (id) ON out TO PUBLIC")
    db.all("CREATE TABLE lines (out_id int REFERENCES out)")
    db.all(
        "CREATE FUNCTION forbid() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no'; END $$"
    )
    db.all(
        "INSERT INTO out (country, note, body, x, amount) VALUES ('DE', 'a', '{\"k\": 1}', 'NaN', "
        "1.50), ('FR', NULL, NULL, 0.1, 2), (NULL, 'b\\t', '[]', -0.0, 3)"
    )
    db.all("CREATE TRIGGER never BEFORE DELETE OR UPDATE ON out EXECUTE FUNCTION forbid()")
    db.all("INSERT INTO lines VALUES (2)")
    return PostgresTable.named("out", Server("test", db.url), "out")


def state(db: Any, table: PostgresTable) -> tuple[Any, ...]:
    with table.server.session("looking") as connection:
        structure = structure_of(connection, table.table)
    sequences = [db.all(f"SELECT last_value, is_called FROM {name}") for name in ("shared",)]
    return (
        structure,
        db.all("SELECT t::text FROM out t ORDER BY 1"),
        sequences,
        # Asked of the catalog by itself: what the structure overlooks it would also not restore.
        db.all("SELECT policyname, cmd, qual FROM pg_policies ORDER BY 1"),
        db.all("SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('out')"),
        db.all(
            "SELECT attname, attacl::text, col_description(attrelid, attnum) FROM pg_attribute "
            "WHERE attrelid = to_regclass('out') AND attnum > 0 AND NOT attisdropped ORDER BY 1"
        ),
    )


@pytest.mark.parametrize(
    "done",
    [
        ["INSERT INTO out (amount) VALUES (9), (9)"],
        ["ALTER TABLE out DISABLE TRIGGER never", "UPDATE out SET x = 7 WHERE id = 1"],
        ["ALTER TABLE out DISABLE TRIGGER never", "DELETE FROM out WHERE id <> 2"],
        ["ALTER TABLE out DROP COLUMN note", "ALTER TABLE out ADD COLUMN extra int"],
        ["DROP INDEX partial", "ALTER TABLE out DROP CONSTRAINT out_amount_check"],
        ["DROP TABLE out CASCADE"],
        ["DROP TABLE out CASCADE", "CREATE TABLE out (id text)", "INSERT INTO out VALUES ('x')"],
    ],
)
def test_it_is_what_it_was(db: Any, table: PostgresTable, tmp_path: Path, done: list[str]) -> None:
    """Rows, types, indexes, constraints of both sides, triggers and sequences."""
    before = state(db, table)
    table.keep(tmp_path / "kept")
    for statement in done:
        db.all(statement)
    assert state(db, table) != before if "DROP TABLE" not in done[0] else True
    table.restore(tmp_path / "kept")
    assert state(db, table) == before
    (found,) = db.all("INSERT INTO out (amount) VALUES (8) RETURNING id, n, m")
    assert found == (4, 1030, 53)
    with pytest.raises(psycopg.Error, match="foreign key"):
        db.all("INSERT INTO lines VALUES (999)")


def test_rows_that_did_not_change_are_not_touched(
    db: Any, table: PostgresTable, tmp_path: Path
) -> None:
    before = db.versions()
    table.keep(tmp_path / "kept")
    db.all("INSERT INTO out (amount) VALUES (9), (9)")
    table.restore(tmp_path / "kept")
    assert db.versions() == before


def test_a_column_that_was_added_goes_and_what_hangs_on_the_table_stays(
    db: Any, table: PostgresTable, tmp_path: Path
) -> None:
    """A view stands in the way of a new table, and not of a column that goes."""
    db.all("CREATE VIEW seen AS SELECT id FROM out")
    before = state(db, table)
    table.keep(tmp_path / "kept")
    db.all("ALTER TABLE out ADD COLUMN extra int DEFAULT 1")
    table.restore(tmp_path / "kept")
    assert state(db, table) == before
    assert len(db.all("SELECT id FROM seen")) == 3


def test_parts_that_were_added_go(db: Any, tmp_path: Path) -> None:
    db.all("CREATE TABLE out (id int, d date) PARTITION BY RANGE (d)")
    db.all("CREATE TABLE one PARTITION OF out FOR VALUES FROM ('2026-04-01') TO ('2026-04-02')")
    db.all("INSERT INTO out VALUES (1, '2026-04-01')")
    table = PostgresTable.named("out", Server("test", db.url), "out")
    before = state_of_rows(db)
    table.keep(tmp_path / "kept")
    db.all("CREATE TABLE two PARTITION OF out FOR VALUES FROM ('2026-04-02') TO ('2026-04-03')")
    db.all("INSERT INTO out VALUES (2, '2026-04-02')")
    table.restore(tmp_path / "kept")
    assert state_of_rows(db) == before
    assert db.all("SELECT to_regclass('two')") == [(None,)]


def state_of_rows(db: Any) -> list[Any]:
    return list(db.all("SELECT t::text FROM out t ORDER BY 1"))


def test_what_was_absent_is_absent_again(db: Any, tmp_path: Path) -> None:
    table = PostgresTable.named("out", Server("test", db.url), "out")
    table.keep(tmp_path / "kept")
    db.all("CREATE TABLE out (id serial)")
    db.all("CREATE VIEW seen AS SELECT * FROM out")
    assert not table.exists(tmp_path / "kept")
    table.restore(tmp_path / "kept")
    assert db.all("SELECT to_regclass('out'), to_regclass('out_id_seq')") == [(None, None)]


def eventually(is_so: Callable[[], bool]) -> None:
    """Wait for what another session brings about; one that never does is a failure."""
    until = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < until


def test_only_the_command_is_held_counted_and_turned_away(db: Any, table: PostgresTable) -> None:
    """An app that was connected before, one that came later, and one that only refers to it."""
    with psycopg.connect(db.url) as app, table.watching() as eyes, psycopg.connect(db.url) as late:
        gate = eyes.gate
        assert gate is not None
        eventually(gate.is_closed)
        # Looks the row up, and is not held.
        db.all("SET lock_timeout = '5s'; INSERT INTO lines VALUES (1)")
        named = psycopg.connect(db.url, application_name=name_of_commands())
        for connection in (app, late, named):
            connection.pgconn.send_query(b"BEGIN; LOCK TABLE out IN ROW EXCLUSIVE MODE")
        eventually(lambda: gate.waiting() == Waiting(ours=2, others=1))
        gate.turn_away()
        eventually(lambda: gate.waiting() == Waiting(ours=1, others=1))
        gate.leave_open()
        for connection in (app, late):
            while connection.pgconn.get_result() is not None:
                pass
            assert connection.execute("SELECT 1").fetchall() == [(1,)]
            connection.rollback()
        with pytest.raises(psycopg.OperationalError):
            named.execute("SELECT 1")


def test_a_copy_tells_which_triggers_it_goes_without(table: PostgresTable) -> None:
    """What they call may write to tables that are no copies."""
    assert table.left_out() == "its triggers (never), which did not fire"


def test_a_table_that_takes_other_rows_with_it_is_refused(db: Any, table: PostgresTable) -> None:
    assert table.refusal([]) == ""
    db.all("CREATE TABLE more (out_id int REFERENCES out ON DELETE CASCADE)")
    assert "more_out_id_fkey" in table.refusal([])


@pytest.fixture
def plain(db: Any, tmp_path: Path) -> PostgresTable:
    db.all("CREATE TABLE out (id int, note text, x float8)")
    db.all("INSERT INTO out VALUES (1, NULL, 0.1), (1, NULL, 0.1), (2, 'null', 0.2), (3, '', 0)")
    table = PostgresTable.named("out", Server("test", db.url), "out")
    table.keep(tmp_path / "kept")
    return table


@pytest.mark.parametrize(
    ("done", "missing", "added", "repeated", "columns"),
    [
        ("UPDATE out SET id = id", 0, 0, 0, []),
        ("INSERT INTO out SELECT * FROM out WHERE id = 1", 0, 2, 2, []),
        ("DELETE FROM out WHERE ctid IN (SELECT min(ctid) FROM out WHERE id = 1)", 1, 0, 0, []),
        ("UPDATE out SET note = NULL WHERE id = 2", 1, 1, 0, ["note"]),
        ("UPDATE out SET note = 'NULL' WHERE note = ''", 1, 1, 0, ["note"]),
        ("UPDATE out SET x = x + 1e-16 WHERE id = 3", 1, 1, 0, ["x"]),
    ],
)
def test_differences_are_exact(
    db: Any,
    plain: PostgresTable,
    tmp_path: Path,
    done: str,
    missing: int,
    added: int,
    repeated: int,
    columns: list[str],
) -> None:
    """Duplicates count, null is no text, and the last digit of a float is a difference."""
    db.all(done)
    found = plain.difference(tmp_path / "kept", Question(), NO_SPARK)
    if not missing and not added:
        assert found is None
        return
    assert found is not None
    assert (found.missing, found.added, found.repeated) == (missing, added, repeated)
    assert [change.name for change in found.columns] == columns


def test_the_small_diff_shows_what_differs(db: Any, plain: PostgresTable, tmp_path: Path) -> None:
    """A null is no text, and of long values the part that differs is shown; nothing else is."""
    db.all("UPDATE out SET note = NULL WHERE id = 2")
    found = plain.difference(tmp_path / "kept", Question(), NO_SPARK)
    assert found is not None
    assert found.columns[0].examples == (("null", "NULL"),)
    db.all("UPDATE out SET note = repeat('x', 300) || 'a' WHERE id = 3")
    plain.keep(tmp_path / "long")
    db.all("UPDATE out SET note = repeat('x', 300) || 'b' WHERE id = 3")
    db.all("UPDATE out SET x = 7 WHERE id = 2")
    found = plain.difference(tmp_path / "long", Question(key=("id",)), NO_SPARK)
    assert found is not None
    one, two = found.examples
    assert (one.expected, one.found) == ({"x": "0.2"}, {"x": "7"})
    assert one.key == {"id": "2"}
    assert one.found != two.found
    assert str((two.expected or {})["note"]).endswith("xa")
    assert str((two.found or {})["note"]).endswith("xb")


def test_another_type_is_a_difference(db: Any, plain: PostgresTable, tmp_path: Path) -> None:
    db.all("ALTER TABLE out ALTER COLUMN id TYPE bigint, ADD COLUMN more int")
    found = plain.difference(tmp_path / "kept", Question(), NO_SPARK)
    assert found is not None
    assert found.schema == (
        "column id is bigint instead of integer",
        "column more (integer) was added",
    )
    assert (found.missing, found.added) == (0, 0)
