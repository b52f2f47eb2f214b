"""PostgreSQL on tables that do more than hold rows: no row is lost, doubled or wrong."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from setpoint import DeleteInsert, InsertNew, Merge, RefusedError, Replace
from setpoint.targets.postgres.server import Server

MERGE = Merge(key="id", sequence_by="seq")
REMOVING = Merge(key="id", sequence_by="seq", delete_when="gone")
KEYED = "id int, v string, seq long"
LOWER = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
DAY = dt.date(2026, 4, 25)


def trigger(event: str, body: str, level: str = "ROW") -> str:
    return (
        f"CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {body} END$$; "
        f"CREATE TRIGGER act BEFORE {event} ON out FOR EACH {level} EXECUTE FUNCTION act()"
    )


@pytest.mark.parametrize(
    ("column", "extra"),
    [
        ("timestamptz(0)", "SELECT 1"),
        ("timestamptz(3)", "SELECT 1"),
        ("timestamptz", trigger("INSERT", "new.ts = new.ts + interval '1 day'; RETURN new;")),
    ],
)
def test_a_row_that_the_column_moves_out_of_its_window_is_refused(
    warehouse: Any, column: str, extra: str
) -> None:
    """23:59:59.9999 is in the window for Spark and in the next one when it is rounded."""
    warehouse.all(f"CREATE TABLE out (id int, ts {column}); {extra}")
    job = warehouse.job(time="ts")
    rows = [(1, "2026-04-25 12:00:00+00"), (2, "2026-04-25 23:59:59.9999+00")]
    for _ in range(2):
        with pytest.raises(RefusedError, match=r"SP-O02.*outside the window as ts \(timestamp"):
            job.run(rows, "id int, ts timestamp")
    assert warehouse.rows() == []
    if column != "timestamptz":
        assert job.run(rows[:1], "id int, ts timestamp") == "published"


def test_a_row_that_no_longer_satisfies_its_condition_is_refused(warehouse: Any) -> None:
    """The stored row counts, not the staged one."""
    warehouse.all("CREATE TABLE out (id int, v text)")
    warehouse.all(trigger("INSERT", "new.v = 'b'; RETURN new;"))
    job = warehouse.job(DeleteInsert(where="v = 'a'"))
    with pytest.raises(RefusedError, match=r"SP-O02.*but not in PostgreSQL"):
        job.run([(1, "a")], "id int, v string")
    assert warehouse.rows() == []


@pytest.mark.parametrize(("index", "reverse"), [("PRIMARY KEY", True), ("", False)])
@pytest.mark.parametrize(
    ("column", "kind", "spellings"),
    [
        ("uuid", "string", (LOWER, LOWER.upper())),
        ("char(5)", "string", ("a", "a  ")),
        ("varchar(3)", "string", ("abc", "abc ")),
        ("timestamptz(0)", "timestamp", ("2026-04-25 12:00:00.1+00", "2026-04-25 12:00:00.2+00")),
        ("interval", "string", ("24 hours", "1 day")),
    ],
)
def test_two_spellings_of_one_key_are_one_key(
    warehouse: Any, column: str, kind: str, spellings: tuple[str, str], index: str, reverse: bool
) -> None:
    """Keys that Spark tells apart and the column does not are resolved by the column."""
    warehouse.all(f"CREATE TABLE out (id {column} {index}, v text, seq bigint)")
    batch = [(spellings[0], "old", 1), (spellings[1], "new", 2)]
    rows = list(reversed(batch)) if reverse else batch
    columns = f"id {kind}, v string, seq long"
    assert warehouse.job(MERGE).run(rows, columns) == "published"
    assert [row[1:] for row in warehouse.rows()] == [("new", 2)]
    warehouse.all("TRUNCATE out; INSERT INTO out VALUES ('" + spellings[0] + "', 'first', 0)")
    assert warehouse.job(MERGE).run(rows, columns) == "published"
    assert [row[1:] for row in warehouse.rows()] == [("new", 2)]
    warehouse.all("TRUNCATE out")
    events = [(spelling, "x", 1) for spelling in spellings]
    assert warehouse.job(InsertNew(key="id"), name="events").run(events, columns) == "published"
    assert [row[1:] for row in warehouse.rows()] == [("x", 1)]


@pytest.mark.parametrize("later", [90, 100])
def test_a_removal_is_remembered_beside_a_greater_one_of_another_window(
    warehouse: Any, later: int
) -> None:
    """When the other window no longer removes the key, this one still does."""
    job = warehouse.job(REMOVING)
    job.run([(1, "-", 100, True)], KEYED)
    job.run([(1, "-", later, True)], KEYED, "2026-04-26")
    job.run([(2, "k", 100, False)], KEYED)
    job.run([(1, "late", 50, False)], KEYED, "2026-04-24")
    assert warehouse.rows() == [(2, "k", 100)]


def test_a_trigger_that_keeps_rows_from_being_deleted_is_refused(warehouse: Any) -> None:
    """Soft deletes would double the window's rows with every publish."""
    warehouse.all("CREATE TABLE out (id int, d date, gone boolean DEFAULT false)")
    body = "UPDATE out SET gone = true WHERE ctid = old.ctid; RETURN NULL;"
    warehouse.all(trigger("DELETE", body))
    job = warehouse.job(time="d")
    assert job.run([(1, "2026-04-25")], "id int, d date") == "published"
    with pytest.raises(RefusedError, match=r"SP-T03.*DELETE.*trigger"):
        job.run([(2, "2026-04-25")], "id int, d date")
    assert warehouse.rows() == [(1, DAY, False)]


@pytest.mark.parametrize("write", [InsertNew(key="id"), MERGE])
@pytest.mark.parametrize("event", ["INSERT", "UPDATE"])
def test_a_trigger_that_swallows_rows_of_a_keyed_write_is_refused(
    warehouse: Any, write: Any, event: str
) -> None:
    """A window that lacks a row must not count as published."""
    warehouse.all("CREATE TABLE out (id int PRIMARY KEY, v text, seq bigint)")
    warehouse.all(trigger(event, "IF new.id = 2 THEN RETURN NULL; END IF; RETURN new;"))
    job = warehouse.job(write)
    if event == "INSERT":
        with pytest.raises(RefusedError, match=r"SP-T03.*INSERT.*trigger"):
            job.run([(1, "a", 1), (2, "a", 1)], KEYED)
        assert warehouse.rows() == []
    elif isinstance(write, Merge):
        job.run([(1, "a", 1), (2, "a", 1)], KEYED)
        with pytest.raises(RefusedError, match=r"SP-T03.*UPDATE.*trigger"):
            job.run([(1, "b", 2), (2, "b", 2)], KEYED, "2026-04-26")
        assert warehouse.rows() == [(1, "a", 1), (2, "a", 1)]


def test_triggers_that_only_change_values_are_welcome(warehouse: Any) -> None:
    """A row that a trigger fills in is written once, and the window counts as done."""
    warehouse.all("CREATE TABLE out (id int PRIMARY KEY, v text, seq bigint, n int DEFAULT 0)")
    warehouse.all(
        trigger("INSERT OR UPDATE", "new.v = upper(new.v); new.n = new.n + 1; RETURN new;")
    )
    job = warehouse.job(MERGE)
    rows = [(1, "a", 1), (2, "b", 1)]
    assert job.run(rows, KEYED) == "published"
    assert warehouse.rows() == [(1, "A", 1, 1), (2, "B", 1, 1)]
    assert job.run(rows, KEYED) == "unchanged"


class Gate:
    """Lets statements on `out` begin, take their snapshot, and wait until it is opened."""

    def __init__(self, warehouse: Any, events: str) -> None:
        body = "PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL;"
        warehouse.all(trigger(events, body, "STATEMENT"))
        self._warehouse = warehouse
        self._keeper = warehouse.connect()
        self._keeper.execute("SELECT pg_advisory_lock(42)")

    def start(self, *works: Callable[[], Any]) -> list[threading.Thread]:
        """Start threads, and return when each of them waits for a lock."""
        threads = [threading.Thread(target=work) for work in works]
        for number, thread in enumerate(threads, 1):
            thread.start()
            while self._waiting() < number:
                assert thread.is_alive()
        return threads

    def _waiting(self) -> int:
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND wait_event = 'advisory'"
        )
        return int(self._warehouse.all(query)[0][0])

    def open(self, threads: list[threading.Thread]) -> None:
        self._keeper.close()
        for thread in threads:
            thread.join()


def test_a_row_that_is_committed_between_two_statements_does_not_hide_ours(warehouse: Any) -> None:
    """The greater sequence stays, whoever committed the key while the merge ran."""
    warehouse.all("CREATE TABLE out (id int PRIMARY KEY, v text, seq bigint)")
    job = warehouse.job(MERGE)
    job.run([(0, "z", 1)], KEYED, "2026-04-24")
    gate = Gate(warehouse, "INSERT OR UPDATE")
    threads = gate.start(lambda: job.run([(1, "ours", 9)], KEYED))
    warehouse.all("SET session_replication_role = replica; INSERT INTO out VALUES (1, 'other', 1)")
    gate.open(threads)
    assert warehouse.rows() == [(0, "z", 1), (1, "ours", 9)]


def test_rows_that_a_merge_inserts_are_not_written_a_second_time(warehouse: Any) -> None:
    """One row version for each fresh row, and one more for each that changed."""
    job = warehouse.job(MERGE)
    job.run([(1, "a", 1)], KEYED)
    job.run([(1, "b", 2), (2, "a", 1), (3, "a", 1)], KEYED, "2026-04-26")
    assert warehouse.rows() == [(1, "b", 2), (2, "a", 1), (3, "a", 1)]
    written = warehouse.all("SELECT pg_relation_size('out') > 0, (SELECT max(ctid)::text FROM out)")
    assert written == [(True, "(0,4)")]


@pytest.mark.parametrize("savepoint", ["SELECT 1", "SAVEPOINT a"])
def test_a_foreign_change_that_commits_after_the_merge_is_seen(
    warehouse: Any, savepoint: str
) -> None:
    """Also one made after a SAVEPOINT, whose id is in no snapshot."""
    job = warehouse.job(MERGE)
    job.run([(1, "ours", 1), (2, "x", 1)], KEYED)
    with warehouse.connect() as other:
        other.execute("SELECT pg_current_xact_id()")
        other.execute(savepoint)
        other.execute("UPDATE out SET v = 'foreign' WHERE id = 1")
        warehouse.all("SELECT pg_current_xact_id()")
        assert job.run([(1, "ours", 1), (2, "y", 1)], KEYED) == "published"
    assert warehouse.rows()[0] == (1, "foreign", 1)
    assert job.run([(1, "ours", 1), (2, "y", 1)], KEYED) == "published"
    assert warehouse.rows() == [(1, "ours", 1), (2, "y", 1)]
    assert job.run([(1, "ours", 1), (2, "y", 1)], KEYED) == "unchanged"


def test_a_foreign_row_that_the_merge_saw_is_no_change(warehouse: Any) -> None:
    """Even while an older transaction is still running."""
    warehouse.all("CREATE TABLE out (id int PRIMARY KEY, v text, seq bigint)")
    with warehouse.connect() as older:
        older.execute("SELECT pg_current_xact_id()")
        warehouse.all("INSERT INTO out VALUES (9, 'foreign', 1)")
        job = warehouse.job(MERGE)
        assert job.run([(1, "a", 1)], KEYED) == "published"
    assert job.run([(1, "a", 1)], KEYED) == "unchanged"


def restored(warehouse: Any, name: str = "out") -> None:
    """Give the table another id under its name, as a dump does that is read back."""
    warehouse.all(
        f"CREATE TABLE copy (LIKE {name} INCLUDING ALL); INSERT INTO copy SELECT * FROM {name}; "
        f"DROP TABLE {name}; ALTER TABLE copy RENAME TO {name}"
    )


def test_removals_outlive_a_restored_dump(warehouse: Any) -> None:
    """The windows run again, and a late row below a removal stays out."""
    job = warehouse.job(REMOVING)
    job.run([(1, "-", 100, True), (2, "k", 5, False)], KEYED)
    restored(warehouse)
    assert not job.state().published
    assert job.run([(1, "late", 50, False)], KEYED, "2026-04-24") == "published"
    assert warehouse.rows() == [(2, "k", 5)]
    assert job.run([(2, "k", 5, False)], KEYED) == "published"
    assert job.run([(1, "late", 51, False)], KEYED, "2026-04-23") == "published"
    assert warehouse.rows() == [(1, "late", 51), (2, "k", 5)]


def test_removals_of_another_table_with_the_same_id_are_not_ours(warehouse: Any) -> None:
    """After a restore, a new table may get the id that an old one had."""
    warehouse.job(REMOVING, table="kiwi", name="kiwi").run([(1, "-", 100, True)], KEYED)
    warehouse.all("CREATE TABLE fresh (id int PRIMARY KEY, v text, seq bigint)")
    warehouse.all("UPDATE setpoint.tombstones SET table_id = 'fresh'::regclass::oid::int8")
    job = warehouse.job(REMOVING, table="fresh", name="fresh")
    job.run([(1, "new", 50, False), (2, "new", 50, False)], KEYED)
    assert warehouse.rows("fresh") == [(1, "new", 50), (2, "new", 50)]


def test_a_renamed_table_keeps_its_receipts_and_removals(warehouse: Any) -> None:
    """It is the same table under another name; one that is made anew starts from nothing."""
    rows = [(1, "-", 100, True), (2, "k", 5, False)]
    warehouse.job(REMOVING).run(rows, KEYED)
    warehouse.all("ALTER TABLE out RENAME TO moved")
    moved = warehouse.job(REMOVING, table="moved")
    assert moved.state().generation == 1
    moved.run([(1, "late", 50, False)], KEYED, "2026-04-24")
    assert warehouse.rows("moved") == [(2, "k", 5)]
    warehouse.all("DROP TABLE moved")
    moved.run([(3, "-", 1, True)], KEYED, "2026-04-25")
    warehouse.all("DROP TABLE moved")
    moved.run([(3, "k", 1, False)], KEYED, "2026-04-26")
    assert warehouse.rows("moved") == [(3, "k", 1)]


def test_a_schema_of_an_older_shape_gets_its_new_columns(warehouse: Any) -> None:
    job = warehouse.job(REMOVING)
    job.run([(1, "-", 100, True)], KEYED)
    warehouse.all("ALTER TABLE setpoint.tombstones DROP COLUMN target")
    warehouse.all('ALTER TABLE setpoint.receipts DROP COLUMN "every", DROP COLUMN columns')
    assert job.run([(1, "late", 50, False)], KEYED, "2026-04-24") == "published"
    assert warehouse.rows() == []


@pytest.mark.parametrize(
    ("changed", "text"),
    [({"name": "renamed"}, "2026-04-25"), ({"every": "month"}, "2026-04")],
)
def test_the_same_rows_under_another_name_or_grain_are_waited_for(
    warehouse: Any, changed: dict[str, str], text: str
) -> None:
    """Two publishes of one empty slice at once would leave its rows twice."""
    warehouse.all("CREATE TABLE out (id int, d date)")
    one, other = warehouse.job(time="d"), warehouse.job(time="d", **changed)
    one.run([], "id int, d date", "2026-03-01")
    gate = Gate(warehouse, "DELETE")
    row = [(1, "2026-04-25")]
    threads = gate.start(
        lambda: one.run(row, "id int, d date"), lambda: other.run(row, "id int, d date", text)
    )
    gate.open(threads)
    assert warehouse.rows() == [(1, DAY)]


def test_windows_of_one_pipeline_do_not_wait_for_each_other(warehouse: Any) -> None:
    """The second window is published while the first one is held up."""
    warehouse.all("CREATE TABLE out (id int, d date)")
    job = warehouse.job(time="d")
    job.run([], "id int, d date", "2026-03-01")
    gate = Gate(warehouse, "DELETE")
    threads = gate.start(lambda: job.run([(1, "2026-04-25")], "id int, d date"))
    warehouse.all(
        "ALTER DATABASE CURRENT SET session_replication_role = replica".replace(
            "CURRENT", warehouse.all("SELECT current_database()")[0][0]
        )
    )
    assert job.run([(2, "2026-04-26")], "id int, d date", "2026-04-26") == "published"
    gate.open(threads)
    assert [row[0] for row in warehouse.rows()] == [1, 2]


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL", "SET DEFAULT"])
def test_a_foreign_key_that_acts_on_delete_is_refused(warehouse: Any, action: str) -> None:
    """The rows of a window come back, those that went with them would not."""
    warehouse.all("CREATE TABLE out (id int PRIMARY KEY, v text, seq bigint, d date)")
    warehouse.all(f"CREATE TABLE child (id int REFERENCES out ON DELETE {action})")
    columns = "id int, v string, seq long, d date"
    rows = [(1, "a", 1, "2026-04-25")]
    assert warehouse.job(MERGE, name="merging").run(rows, columns) == "published"
    warehouse.all("INSERT INTO child VALUES (1)")
    for write in (None, Replace(), DeleteInsert(where="id > 0")):
        job = warehouse.job(write, time="d")
        with pytest.raises(RefusedError, match=r"SP-T03.*child_id_fkey of child.*Use Merge"):
            job.target.check_definition()
        with pytest.raises(RefusedError, match=r"SP-T03.*child_id_fkey of child.*Use Merge"):
            job.run(rows, columns)
    assert warehouse.rows("child") == [(1,)]


def test_a_column_that_was_dropped_and_made_again_is_a_change(warehouse: Any) -> None:
    """No row is of another transaction, and the values are gone all the same."""
    columns, rows = "id int, v long, d date", [(1, 7, "2026-04-25")]
    job = warehouse.job(time="d")
    job.run(rows, columns)
    warehouse.all("ALTER TABLE out DROP COLUMN v")
    warehouse.all("ALTER TABLE out ADD COLUMN v bigint")
    assert job.state().untouched is False
    assert job.run(rows, columns) == "published"
    assert warehouse.all("SELECT id, v FROM out") == [(1, 7)]
    warehouse.all("ALTER TABLE out ADD COLUMN more text DEFAULT ''")
    assert job.run(rows, columns) == "unchanged"


def test_duplicates_are_resolved_in_one_transaction_and_leave_nothing_behind(
    warehouse: Any,
) -> None:
    """Behind a pooler the next transaction may be in another session, and this one another's."""
    with Server("test", warehouse.url).session("looking") as connection:
        inside = [connection.execute(f"SHOW {name}").fetchone() for name in ("lock_timeout",)]
        connection.commit()
        after = [connection.execute(f"SHOW {name}").fetchone() for name in ("lock_timeout",)]
    assert (inside, after) == ([("5min",)], [("0",)])
    job = warehouse.job(MERGE)
    name = warehouse.all("SELECT current_database()")[0][0]
    warehouse.all("CREATE TABLE ranked (x int)")
    warehouse.all(f"ALTER DATABASE {name} SET search_path = public, pg_temp")
    assert job.run([(1, "a", 1), (1, "b", 2), (2, "c", 1)], KEYED) == "published"
    assert warehouse.rows() == [(1, "b", 2), (2, "c", 1)]
    assert warehouse.rows("ranked") == []


@pytest.mark.parametrize(
    "write",
    [
        Merge(key="id", sequence_by="seq", delete_when="gone"),
        Merge(key="id", sequence_by="seq", null_keys="allow"),
        InsertNew(key="id", null_keys="allow"),
    ],
)
def test_keys_whose_texts_do_not_tell_them_apart_cannot_be_remembered(
    warehouse: Any, write: Any
) -> None:
    warehouse.all("CREATE TABLE out (id interval PRIMARY KEY, v text, seq bigint)")
    with pytest.raises(RefusedError, match=r"SP-D10.*key column id \(interval\)"):
        warehouse.job(write).run([("24 hours", "v", 5, True)], "id string, v string, seq long")


def test_a_removed_number_stays_removed_when_its_scale_grows(warehouse: Any) -> None:
    warehouse.all("CREATE TABLE out (id numeric PRIMARY KEY, v text, seq bigint)")
    job = warehouse.job(REMOVING)
    job.run([("1.00", "v", 5, True)], "id decimal2, v string, seq long")
    late = [("1.000", "v", 3, False)]
    assert job.run(late, "id decimal3, v string, seq long", "2026-04-24") == "published"
    assert warehouse.rows() == []


def test_equal_values_in_another_spelling_are_no_contradiction(warehouse: Any) -> None:
    """Scale, the sign of zero and a precision that the column cuts off say nothing else."""
    warehouse.all(
        "CREATE TABLE out (id int PRIMARY KEY, n numeric, f float8, ts timestamptz(0)[]); "
        "INSERT INTO out VALUES (1, 1.5, 0, '{2026-04-25 12:00:01+00}')"
    )
    rows = [(1, "1.50", "-0.0", '{"2026-04-25 12:00:00.9+00"}')]
    job = warehouse.job(InsertNew(key="id"))
    assert job.run(rows, "id int, n decimal2, f double, ts timestamps") == "published"
    assert warehouse.all("SELECT n FROM out") == [(Decimal("1.5"),)]


def test_a_number_that_the_column_would_round_is_refused(warehouse: Any) -> None:
    warehouse.all("CREATE TABLE out (v numeric(12,-2), d date)")
    with pytest.raises(RefusedError, match=r"SP-O03.*numeric\(12,-2\)"):
        warehouse.job(time="d").run([(12345, "2026-04-25")], "v int, d date")


def test_a_pipeline_may_turn_from_slices_to_keys(warehouse: Any) -> None:
    """A receipt of an older pattern saw no table; the window simply runs again."""
    warehouse.all("CREATE TABLE out (id int PRIMARY KEY, v text, seq bigint, d date)")
    warehouse.all("INSERT INTO out VALUES (99, 'f', 1, '2026-01-01')")
    columns, rows = "id int, v string, seq long, d date", [(1, "a", 1, "2026-04-25")]
    warehouse.job(time="d").run(rows, columns)
    job = warehouse.job(MERGE)
    assert job.state().untouched is False
    assert job.run(rows, columns) == "published"
    assert job.run(rows, columns) == "unchanged"


def test_domains_over_domains_and_dropped_rules_are_no_obstacle(warehouse: Any) -> None:
    warehouse.all("CREATE DOMAIN low AS int NOT NULL; CREATE DOMAIN high AS low CHECK (value > 0)")
    warehouse.all("CREATE TABLE out (id high, d date)")
    warehouse.all("CREATE RULE r AS ON INSERT TO out WHERE false DO INSTEAD NOTHING")
    job = warehouse.job(time="d")
    with pytest.raises(RefusedError, match=r"SP-T03.*rewrite rules"):
        job.run([(1, "2026-04-25")], "id int, d date")
    warehouse.all("DROP RULE r ON out")
    assert job.run([(1, "2026-04-25")], "id int, d date") == "published"
    assert warehouse.rows() == [(1, DAY)]
