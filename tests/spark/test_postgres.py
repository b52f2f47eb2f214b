"""PostgreSQL as a destination: the promise on a real server, pattern by pattern."""

from __future__ import annotations

import datetime as dt
import socket
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from setpoint import (
    DeleteInsert,
    InsertNew,
    Merge,
    RefusedError,
    Replace,
    TransientError,
    UnknownCommitError,
    UsageError,
    not_null,
    postgres,
    sql,
    unique,
)
from setpoint.project.config import Config
from setpoint.project.wiring import Project

DAY = dt.date(2026, 4, 25)
AFTER = DAY + dt.timedelta(1)
A = [(1, 1.5, DAY), (2, 2.5, DAY)]
B = [(1, 9.0, DAY), (3, 3.0, DAY), (4, 4.0, DAY)]
ORDERS = "id int, status string, seq long"
BY_DAY = postgres("out", connection="test", time="d")
TABLE = postgres("out", connection="test")


@pytest.fixture
def lab(postgres_lab: Any) -> Any:
    return postgres_lab


def merge(**rest: Any) -> Merge:
    return Merge(key="id", sequence_by="seq", **rest)


def test_changed_rows_replace_the_slice_and_no_other_row(lab: Any, db: Any) -> None:
    """Row versions of the other window are the same before and after."""
    lab.run(lab.job([(9, 9.0, AFTER)], target=BY_DAY), "2026-04-26")
    other = db.versions("out WHERE d = '2026-04-26'")
    lab.run(lab.job(A, target=BY_DAY))
    lab.run(lab.job(B, target=BY_DAY))
    assert db.rows() == sorted([*B, (9, 9.0, AFTER)])
    assert db.versions("out WHERE d = '2026-04-26'") == other
    job = lab.job([], target=BY_DAY)
    assert lab.run(job).state == "published"
    assert db.rows() == [(9, 9.0, AFTER)]
    assert lab.run(job).state == "unchanged"


def test_new_run_key_with_the_same_rows_renews_the_receipt_alone(lab: Any, db: Any) -> None:
    lab.run(lab.job(A, target=BY_DAY))
    before = db.versions()
    job = lab.job(list(reversed(A)), target=BY_DAY)
    assert lab.run(job).only_receipt
    assert db.versions() == before
    assert lab.state(job).generation == 2
    assert lab.run(job).state == "unchanged"
    assert db.stages() == []


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO out VALUES (7, 7.0, '2026-04-25')",
        "UPDATE out SET amount = 0 WHERE id = 1",
        "DELETE FROM out WHERE id = 1",
        "TRUNCATE out",
        "UPDATE out SET d = '2026-04-27' WHERE id = 1",
    ],
)
def test_a_foreign_change_makes_the_window_run_again(lab: Any, db: Any, change: str) -> None:
    """Whatever somebody else did to the slice, the next run sees it and puts the rows back."""
    job = lab.job(A, target=BY_DAY)
    lab.run(job)
    db.all(change)
    assert lab.state(job).untouched is False
    assert lab.run(job).state == "published"
    assert db.rows("out WHERE d = '2026-04-25'") == sorted(A)


def test_maintenance_is_no_change(lab: Any, db: Any) -> None:
    job = lab.job(A, target=BY_DAY)
    lab.run(job)
    for statement in ("VACUUM FREEZE out", "VACUUM FULL out", "CREATE INDEX ON out (id)"):
        db.all(statement)
        assert lab.run(job).state == "unchanged", statement


def test_a_year_of_windows_is_looked_at_in_one_go(lab: Any, db: Any) -> None:
    """365 windows are judged by a handful of queries; one touched window is found among them."""
    db.all("CREATE TABLE out (id int, amount float8, d timestamptz)")
    moment = dt.datetime(2025, 3, 1, 12, tzinfo=dt.timezone.utc)
    job = lab.job([(1, 1.0, moment)], "id int, amount double, d timestamp", target=BY_DAY)
    lab.run(job, "2025-03-01")
    bound = lab.bind(job)
    windows = lab.windows(job, "2025-01-01..2025-12-31")
    states = bound.target.inspect(windows)
    assert [w.id for w, s in states.items() if s.published] == ["2025-03-01"]
    assert states[windows[59]].untouched is True
    db.all("INSERT INTO out VALUES (2, 2.0, '2025-03-01 23:59:59.999999+00')")
    assert bound.target.inspect(windows)[windows[59]].untouched is False


def test_a_row_outside_the_window_is_refused_and_its_stage_dropped(lab: Any, db: Any) -> None:
    with pytest.raises(RefusedError, match=r"SP-O02.*1 of 3 rows") as caught:
        lab.run(lab.job([*A, (666, 6.0, AFTER)], target=BY_DAY))
    assert "666" in caught.value.what
    assert db.stages() == []
    assert db.all("SELECT to_regclass('public.out')") == [(None,)]


def test_audits_gate_the_publish_and_show_offenders(lab: Any, db: Any) -> None:
    """Row-level, unique, query and function audits each see the staged rows and keep them out."""
    rows = [(1, 1.5, DAY), (1, None, DAY), (2, -5.0, DAY)]
    lab.run(lab.job(A, target=BY_DAY))

    def no_negatives(staged: Any) -> Any:
        return staged.where("amount < 0")

    for audit, found in [
        (not_null("amount"), "not_null.*1 of 3.*'id': 1"),
        (unique("id"), r"unique.*1 of 3.*'id': 1, 'rows': 2"),
        (sql("SELECT * FROM staged WHERE amount < 0"), "sql.*1 of 3.*'id': 2"),
        (no_negatives, "no_negatives.*1 of 3.*-5.0"),
    ]:
        with pytest.raises(RefusedError, match=rf"SP-A01.*{found}"):
            lab.run(lab.job(rows, target=BY_DAY, audits=[audit]))
    assert db.rows() == sorted(A)
    assert len(db.stages()) == 4


def test_a_merge_updates_inserts_and_keeps_the_rest(lab: Any, db: Any) -> None:
    lab.run(lab.job([(1, "new", 1), (2, "new", 1)], ORDERS, target=TABLE, write=merge()))
    job = lab.job([(2, "paid", 2), (3, "new", 2)], ORDERS, target=TABLE, write=merge())
    assert lab.run(job, "2026-04-26").state == "published"
    assert db.rows() == [(1, "new", 1), (2, "paid", 2), (3, "new", 2)]
    lab.run(lab.job([(2, "late", 1)], ORDERS, target=TABLE, write=merge()), "2026-04-24")
    assert db.rows() == [(1, "new", 1), (2, "paid", 2), (3, "new", 2)]


@pytest.mark.parametrize("index", [True, False])
def test_merging_the_same_batch_again_changes_no_row_version(
    lab: Any, db: Any, shelf: Any, index: bool
) -> None:
    """Run again: unchanged. Forced, and with one row more: only that row is written."""
    db.all(f"CREATE TABLE out (id int {'PRIMARY KEY' if index else ''}, status text, seq int8)")
    rows = shelf([(1, "new", 1), (2, "new", 1)])
    job = lab.job(rows, ORDERS, target=TABLE, write=merge())
    lab.run(job)
    before = db.versions()
    assert lab.run(job).state == "unchanged"
    assert lab.run(job, restate=True).only_receipt
    rows.rows = [*rows.rows, (3, "new", 1)]
    assert not lab.run(job, restate=True).only_receipt
    assert set(before) < set(db.versions())
    assert db.rows() == [(1, "new", 1), (2, "new", 1), (3, "new", 1)]


def test_ties_are_resolved_the_same_way_in_one_batch_and_in_two(lab: Any, db: Any) -> None:
    one, other = (1, "a", 1), (1, "B", 1)
    made = {}
    for name, batches in {
        "one_go": [[one, other, one]],
        "ab": [[one], [other]],
        "ba": [[other], [one]],
    }.items():
        target = postgres(name, connection="test")
        for day, batch in enumerate(batches, 25):
            outcome = lab.run(
                lab.job(batch, ORDERS, target=target, write=merge()), f"2026-04-{day}"
            )
            made.setdefault(name, outcome.notes)
    assert db.rows("one_go") == db.rows("ab") == db.rows("ba") == [(1, "a", 1)]
    assert made["one_go"][0] == "2 of 3 rows were older versions or duplicates"
    assert "1 keys had several rows with the same sequence_by" in made["one_go"][1]


def test_duplicates_are_resolved_before_the_audits_judge(lab: Any, db: Any) -> None:
    """A null in an older version is no violation; the count is that of the rows that stay."""
    rows = [(1, None, 1), (1, "newest", 3), (1, "middle", 2), (2, "x", 1)]
    audits = [not_null("status"), unique("id")]
    outcome = lab.run(lab.job(rows, ORDERS, target=TABLE, write=merge(), audits=audits))
    assert db.rows() == [(1, "newest", 3), (2, "x", 1)]
    assert outcome.receipt.rows == 2


def test_a_complete_merge_removes_missing_keys_and_the_newest_window_counts(
    lab: Any, db: Any
) -> None:
    write = merge(when_missing="delete")
    lab.run(lab.job([(1, "a", 1), (2, "a", 1)], ORDERS, target=TABLE, write=write))
    lab.run(lab.job([(2, "a", 1), (3, "a", 1)], ORDERS, target=TABLE, write=write), "2026-04-26")
    assert db.rows() == [(2, "a", 1), (3, "a", 1)]
    older = lab.job([(9, "z", 9)], ORDERS, target=TABLE, write=write)
    assert "superseded" in lab.run(older, "2026-04-24").reason
    assert db.rows() == [(2, "a", 1), (3, "a", 1)]


@pytest.mark.parametrize(
    "change",
    ["INSERT INTO out VALUES (9, 'x', 9)", "DELETE FROM out", "UPDATE out SET status = 'x'"],
)
def test_a_foreign_change_of_a_merged_table_is_seen(lab: Any, db: Any, change: str) -> None:
    """Other windows' merges are no foreign change; somebody else's statement is one for all."""
    db.all("CREATE TABLE out (id int PRIMARY KEY, status text, seq int8)")
    db.all("INSERT INTO out VALUES (77, 'theirs', 1)")
    first = lab.job([(1, "new", 1)], ORDERS, target=TABLE, write=merge())
    lab.run(first)
    lab.run(lab.job([(1, "paid", 2)], ORDERS, target=TABLE, write=merge()), "2026-04-26")
    assert lab.run(first).state == "unchanged"
    db.all(change)
    assert lab.state(first).untouched is False
    lab.run(lab.job([(5, "new", 3)], ORDERS, target=TABLE, write=merge()), "2026-04-27")
    assert lab.state(first).untouched is False
    assert lab.run(first).state == "published"
    assert lab.run(first).state == "unchanged"


def test_events_are_inserted_once_and_contradictions_reported(lab: Any, db: Any) -> None:
    write = InsertNew(key="id")
    job = lab.job([(1, "a", 1), (1, "a", 1), (2, "b", 1)], ORDERS, target=TABLE, write=write)
    lab.run(job)
    before = db.versions()
    lab.run(lab.job([(2, "b", 1), (3, "c", 1)], ORDERS, target=TABLE, write=write), "2026-04-26")
    assert db.rows() == [(1, "a", 1), (2, "b", 1), (3, "c", 1)]
    assert set(before) < set(db.versions())
    assert lab.run(job).state == "unchanged"
    wrong = [(3, "other", 1), (4, "d", 1)]
    with pytest.raises(RefusedError, match=r"SP-O07.*1 of 2 rows.*other"):
        lab.run(lab.job(wrong, ORDERS, target=TABLE, write=write), "2026-04-27")
    twins = [(8, "x", 1), (8, "y", 1)]
    with pytest.raises(RefusedError, match=r"SP-O07.*1 keys \(id\).*differ"):
        lab.run(lab.job(twins, ORDERS, target=TABLE, write=write), "2026-04-27")
    keeping = InsertNew(key="id", conflicts="keep")
    outcome = lab.run(lab.job(wrong, ORDERS, target=TABLE, write=keeping), "2026-04-27")
    assert "1 rows have a key that is stored with other content" in " ".join(outcome.notes)
    assert db.rows() == [(1, "a", 1), (2, "b", 1), (3, "c", 1), (4, "d", 1)]


def test_a_condition_names_what_is_replaced(lab: Any, db: Any) -> None:
    schema = "id int, region string, d date"
    db.all("CREATE TABLE out (id int, region text, d date)")
    db.all("INSERT INTO out VALUES (7, 'US', '2026-04-25'), (8, 'EU', '2026-04-24')")
    write = DeleteInsert(where="region = 'EU'")
    job = lab.job([(1, "EU", DAY), (2, "EU", DAY)], schema, target=BY_DAY, write=write)
    lab.run(job)
    lab.run(lab.job([(3, "EU", DAY)], schema, target=BY_DAY, write=write))
    assert [row[0] for row in db.rows()] == [3, 7, 8]
    with pytest.raises(RefusedError, match="SP-O02"):
        lab.run(lab.job([(1, "US", DAY)], schema, target=BY_DAY, write=write))
    for where, who in [
        ("region === 'EU'", "PostgreSQL"),
        ("region ~ 'EU'", "Spark"),
        ("region = 'EU'); DROP TABLE out; --", "PostgreSQL"),
        ("region = 'EU') OR (true", "Spark"),
        ("nobody = 1", "PostgreSQL"),
    ]:
        with pytest.raises(RefusedError, match=rf"SP-D09.*{who}"):
            lab.run(lab.job([], schema, target=BY_DAY, write=DeleteInsert(where=where)))
    assert [row[0] for row in db.rows()] == [3, 7, 8]


def test_a_row_on_which_the_two_engines_disagree_is_refused(lab: Any, db: Any) -> None:
    """1 / 2 is 0.5 in Spark and 0 in PostgreSQL: the next run would not find the row again."""
    write = DeleteInsert(where="id / 2 > 0")
    with pytest.raises(RefusedError, match=r"SP-O02.*not in PostgreSQL"):
        lab.run(
            lab.job([(1, "EU", DAY)], "id int, region string, d date", target=TABLE, write=write)
        )


def test_replace_holds_the_newest_window(lab: Any, db: Any) -> None:
    lab.run(lab.job(A, target=TABLE, write=Replace()))
    job = lab.job(B, target=TABLE, write=Replace())
    lab.run(job, "2026-04-26")
    assert db.rows() == sorted(B)
    assert lab.run(job, "2026-04-26").state == "unchanged"
    older = lab.job(A, target=TABLE, write=Replace())
    assert "superseded" in lab.run(older, "2026-04-24").reason
    db.all("DELETE FROM out WHERE id = 1")
    assert lab.run(job, "2026-04-26").state == "published"
    assert db.rows() == sorted(B)


def test_every_type_arrives_as_it_was(lab: Any, db: Any) -> None:
    """All Spark types reach a new table and come back through the stage unharmed."""
    from pyspark.sql import functions as F

    schema = (
        "id int, b byte, s short, l long, f float, x double, ok boolean, t string, raw binary, "
        "d date, at timestamp, local timestamp_ntz, m decimal(12,2), big decimal(38,10), "
        "numbers array<int>, prices array<decimal(5,2)>, tags map<string,int>, "
        "shape struct<a: int, b: struct<c: timestamp>>, things array<struct<k: string>>"
    )
    utc = dt.datetime(2026, 4, 25, 1, 2, 3, 456789, dt.timezone.utc)
    at = utc.replace(tzinfo=None)
    full = (
        1, 127, -32768, 2**63 - 1, 1.5, -0.0, True, "naïve ☃ 'x' \\ \"", b"\x00\xff", DAY, at, at,
        Decimal("1.50"), Decimal("-1234567890123456789012345678.0123456789"), [1, None, 3],
        [Decimal("1.25"), None], {"a": 1, "b": None}, (1, (at,)), [("k",), (None,)],
    )  # fmt: skip
    empty = (2, *[None] * 18)
    seen: list[Any] = []

    def kept(staged: Any) -> bool:
        seen.extend(staged.orderBy("id").withColumn("at", F.col("at").cast("string")).collect())
        return True

    job = lab.job([full, empty], schema, target=BY_DAY, audits=[kept], write=Replace())
    lab.run(job)
    (row,) = db.all("SELECT * FROM out WHERE id = 1")
    assert row[:14] == (*full[:10], utc, *full[11:14])
    assert row[14:16] == ([1, None, 3], [Decimal("1.25"), None])
    assert row[16:] == (
        {"a": 1, "b": None},
        {"a": 1, "b": {"c": "2026-04-25T01:02:03.456789Z"}},
        [{"k": "k"}, {"k": None}],
    )
    assert db.all("SELECT m::text FROM out ORDER BY id") == [("1.50",), (None,)]
    assert tuple(seen[1]) == empty
    assert tuple(seen[0])[:10] == full[:10]
    assert tuple(seen[0])[12:16] == full[12:16]
    assert seen[0]["tags"] == {"a": 1, "b": None}
    assert seen[0]["shape"].b.c == at
    assert lab.run(job, restate=True).only_receipt


@pytest.mark.parametrize(
    ("kind", "value", "column"),
    [
        ("date", DAY, "date"),
        ("string", "2026-04-25", "varchar(10)"),
        ("int", 20260425, "bigint"),
        ("string collate UTF8_LCASE", "2026-04-25", "text"),
    ],
)
def test_the_column_of_the_window_arrives_in_every_type(
    kind: str, value: Any, column: str, lab: Any, db: Any
) -> None:
    """A value that the window prescribes is published, audited and read back like any other."""
    db.all(f"CREATE TABLE out (note text, d {column}, id int)")
    seen: list[Any] = []

    def kept(staged: Any) -> bool:
        seen.extend(tuple(row) for row in staged.collect())
        return True

    rows = [("a\tb", value, 1), ("\r\n\\N", value, 2), (None, value, 3), ("", value, 4)]
    schema, audits = f"note string, d {kind}, id int", [unique("d", "id"), kept]
    lab.run(lab.job(rows, schema, target=BY_DAY, audits=audits))
    assert db.rows() == sorted(rows, key=repr)
    assert sorted(seen, key=repr) == sorted(rows, key=repr)
    job = lab.job([*rows, rows[0]], schema, target=BY_DAY, audits=audits)
    with pytest.raises(RefusedError, match=r"unique\(d, id\) failed on 1 of 5"):
        lab.run(job, force=True)
    assert db.rows() == sorted(rows, key=repr)


def test_an_existing_table_keeps_its_types_constraints_and_defaults(lab: Any, db: Any) -> None:
    """Texts become uuid, jsonb, enum and varchar; what PostgreSQL fills in is left to it."""
    db.all("CREATE TYPE mood AS ENUM ('good', 'bad')")
    db.all("CREATE SCHEMA sales")
    db.all(
        "CREATE TABLE sales.out (number int GENERATED ALWAYS AS IDENTITY, id int8 CHECK (id > 0), "
        "u uuid, j jsonb, mood mood, v varchar(3), c char(5), n numeric, "
        "made timestamptz DEFAULT now(), "
        "twice int8 GENERATED ALWAYS AS (id * 2) STORED, d date, UNIQUE (id))"
    )
    target = postgres("sales.out", connection="test", time="d")
    schema = "id int, u string, j string, mood string, v string, c string, n decimal(5,2), d date"
    u = "6f1d9c1e-0b60-4d55-9a9f-0a1b2c3d4e5f"
    fine = (1, u, '{"b":1,"a":2}', "good", "abc", "xy", Decimal("1.50"), DAY)
    lab.run(lab.job([fine], schema, target=target))
    found = db.all("SELECT id, u::text, j::text, mood::text, v, c, n, twice, number FROM sales.out")
    assert found == [(1, u, '{"a": 2, "b": 1}', "good", "abc", "xy   ", Decimal("1.50"), 2, 1)]
    for position, wrong, said in [
        (0, -1, "out_id_check"),
        (1, "no uuid", "uuid"),
        (3, "ugly", "mood"),
        (4, "abcd", "too long"),
    ]:
        row = (*fine[:position], wrong, *fine[position + 1 :])
        with pytest.raises(RefusedError, match=rf"SP-T03.*{said}"):
            lab.run(lab.job([row], schema, target=target))
    with pytest.raises(RefusedError, match=r"SP-T03.*out_id_key"):
        lab.run(lab.job([(*fine[:-1], AFTER)], schema, target=target), "2026-04-26")
    with pytest.raises(RefusedError, match=r"SP-O03.*id is string but bigint"):
        lab.run(lab.job([("1", *fine[1:])], schema.replace("id int", "id string"), target=target))
    with pytest.raises(RefusedError, match=r"SP-O03.*twice is generated"):
        lab.run(lab.job([(*fine, 2)], f"{schema}, twice long", target=target))
    assert len(db.rows("sales.out")) == 1
    keyed = Merge(key="id", sequence_by="d")
    lab.run(lab.job([fine], schema, target=target, write=keyed, name="keyed"))
    before = db.versions("sales.out")
    again = lab.job([fine], schema, target=target, write=keyed, name="keyed")
    assert lab.run(again, "2026-04-26").state == "published"
    assert db.versions("sales.out") == before


def test_a_partitioned_table_takes_rows_where_it_has_a_partition(lab: Any, db: Any) -> None:
    db.all("CREATE TABLE out (id int, amount float8, d date) PARTITION BY RANGE (d)")
    db.all("CREATE TABLE p PARTITION OF out FOR VALUES FROM ('2026-04-25') TO ('2026-04-26')")
    job = lab.job(A, target=BY_DAY)
    lab.run(job)
    assert lab.run(job).state == "unchanged"
    assert db.rows("p") == sorted(A)
    with pytest.raises(RefusedError, match=r"SP-T03.*no partition"):
        lab.run(lab.job([(1, 1.0, AFTER)], target=BY_DAY), "2026-04-26")


def test_what_is_no_table_or_hides_rows_is_refused(lab: Any, db: Any) -> None:
    db.all("CREATE TABLE t (id int, amount float8, d date)")
    db.all("CREATE VIEW v AS SELECT * FROM t")
    db.all("CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    db.all("CREATE TRIGGER skip BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION skip()")
    for name, found in [
        ("v", "SP-T02.*a view"),
        ("t", "SP-T03.*took 0"),
        ("no.t", "SP-T02.*schema"),
    ]:
        target = postgres(name, connection="test", time="d")
        with pytest.raises(RefusedError, match=found):
            lab.run(lab.job(A, target=target))
    assert db.rows("t") == []


def test_columns_are_fitted_and_added_only_when_allowed(lab: Any, db: Any) -> None:
    lab.run(lab.job(A, target=BY_DAY))
    wider = [(5, 5.0, AFTER, "x")]
    schema = "id int, amount double, d date, note string"
    with pytest.raises(RefusedError, match=r"SP-O03.*does not have note"):
        lab.run(lab.job(wider, schema, target=BY_DAY), "2026-04-26")
    with pytest.raises(RefusedError, match=r"SP-O03.*amount is missing"):
        lab.run(lab.job([(1, DAY)], "id int, d date", target=BY_DAY))
    adding = postgres("out", connection="test", time="d", evolve="add")
    lab.run(lab.job(wider, schema, target=adding), "2026-04-26")
    assert db.rows() == [(1, 1.5, DAY, None), (2, 2.5, DAY, None), (5, 5.0, AFTER, "x")]
    assert lab.run(lab.job(A, target=BY_DAY)).state == "unchanged"


def test_hostile_names_are_only_names(lab: Any, db: Any) -> None:
    """Schema, table and columns that look like SQL, in every pattern."""
    name = 'order"; drop table x; -- %s $1'
    db.all("CREATE TABLE x (id int)")
    db.all(f'CREATE SCHEMA "{name.replace(chr(34), chr(34) * 2)}"')
    key, seq, day = 'select "1" %', "naïve ☃`.x", "d'; --"
    schema = f"`{key}` int, `{seq.replace('`', '``')}` string, `{day}` date"
    rows = [(1, "a", DAY), (2, "b", DAY)]
    for number, write in enumerate(
        [
            None,
            Replace(),
            Merge(key=key, sequence_by=seq, delete_when=f"`{day}` IS NULL"),
            InsertNew(key=key),
        ]
    ):
        quoted = [part.replace('"', '""') for part in (name, f"{name}{number}")]
        target = postgres(f'"{quoted[0]}"."{quoted[1]}"', connection="test", time=day)
        job = lab.job(rows, schema, target=target, write=write, audits=[unique(key, seq)])
        assert lab.run(job).state == "published"
        assert lab.run(job).state == "unchanged"
        assert db.rows(f'"{quoted[0]}"."{quoted[1]}"') == rows
        changed = lab.job([*rows, (2, "c", DAY), (1, "a", DAY)], schema, target=target, write=write)
        if not isinstance(write, InsertNew):
            lab.run(changed)
    assert db.rows("x") == []


def test_an_answer_that_is_lost_after_the_commit_is_settled_by_the_receipt(
    lab: Any, db: Any
) -> None:
    job = lab.job(A, target=BY_DAY)
    outcome = lab.run(job, fault="committed:lose")
    assert "its answer was lost" in outcome.reason.replace("the commit's answer", "its answer")
    assert db.rows() == sorted(A)


class Proxy:
    """A server in front of PostgreSQL that cuts a publishing connection around its COMMIT."""

    def __init__(self, path: str, folder: Path, *, forward: bool) -> None:
        self._path, self._forward = path, forward
        self.cut = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._path)
            threading.Thread(target=self._up, args=(client, server), daemon=True).start()
            threading.Thread(target=self._down, args=(server, client), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        publishing = False
        while data := _received(client):
            publishing = publishing or b"pg_advisory_xact_lock" in data
            if publishing and b"COMMIT" in data and not self.cut:
                self.cut += 1
                if self._forward:
                    client.shutdown(socket.SHUT_RDWR)  # the answer has nowhere to go
                    server.sendall(data)
                    server.recv(1)  # but the server has answered: it is committed
                else:
                    server.shutdown(socket.SHUT_RDWR)
                break
            server.sendall(data)
        for end in (client, server):
            end.close()

    def _down(self, server: socket.socket, client: socket.socket) -> None:
        while data := _received(server):
            try:
                client.sendall(data)
            except OSError:
                return
        client.close()

    def close(self) -> None:
        self._listener.close()


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""


@pytest.mark.parametrize("forward", [True, False])
def test_a_connection_lost_during_commit_is_settled_by_asking_the_server(
    lab: Any, db: Any, project_dir: Path, forward: bool
) -> None:
    """Committed: the run is done, with one generation. Rolled back: the next try publishes."""
    import tempfile

    job = lab.job(A, target=BY_DAY)
    lab.run(lab.job(B, target=BY_DAY))
    database, _, folder = db.url.partition("?host=")
    with tempfile.TemporaryDirectory(prefix="pp") as place:
        proxy = Proxy(f"{folder}/.s.PGSQL.5432", Path(place), forward=forward)
        config = Config(root=project_dir, connections={"test": f"{database}?host={place}"})
        with Project(config) as lab.project:
            outcome = lab.run(job)
        proxy.close()
    assert proxy.cut == 1
    assert (outcome.state, outcome.tries) == ("published", 1 if forward else 2)
    assert db.rows() == sorted(A)
    assert db.all("SELECT max(generation), count(*) FROM setpoint.receipts") == [(2, 2)]


def test_a_server_that_cannot_be_asked_leaves_the_commit_unknown(lab: Any, db: Any) -> None:
    """The advice is the one that every destination gives, and no password is in it."""
    from setpoint.targets.postgres.commit import settle
    from setpoint.targets.postgres.server import Server
    from setpoint.targets.refusals import unseen

    run = lab.plan(lab.job(A, target=BY_DAY), "2026-04-25").run
    nowhere = Server("test", "postgresql://nobody:secret@/x?host=/nonexistent")
    with pytest.raises(UnknownCommitError, match=r"SP-P02") as caught:
        settle(nowhere, run, 5, "cut")
    assert str(caught.value) == str(unseen(run, "cut"))
    assert "secret" not in str(caught.value)
    with pytest.raises(UnknownCommitError, match=r"SP-P02"):
        settle(Server("test", db.url), run, 2**40, "cut")


def test_two_runs_of_one_window_at_once_publish_one_statement(lab: Any, db: Any) -> None:
    """Both wait for each other: no row is doubled, and the same run is published once."""
    job = lab.job(A, target=BY_DAY)
    bound, world = lab.bind(job), lab.world()
    from setpoint.flow.run import plan_windows, run_window

    windows = lab.windows(job, "2026-04-25")
    plans = [plan_windows(bound, windows, world, parameters={})[0] for _ in range(2)]
    outcomes: list[Any] = []

    def run(plan: Any) -> None:
        outcomes.append(run_window(bound, plan, world))

    threads = [threading.Thread(target=run, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome.state for outcome in outcomes) == ["published", "unchanged"]
    assert db.rows() == sorted(A)
    assert db.all("SELECT generation FROM setpoint.receipts") == [(1,)]
    assert db.stages() == []


def test_two_windows_at_once_both_land_and_one_makes_the_table(lab: Any, db: Any) -> None:
    write = merge(delete_when="status = 'gone'")
    jobs = {
        "2026-04-25": lab.job([(1, "old", 1), (2, "x", 1)], ORDERS, target=TABLE, write=write),
        "2026-04-26": lab.job([(1, "gone", 2), (3, "x", 1)], ORDERS, target=TABLE, write=write),
    }
    failures: list[Exception] = []

    def run(window: str) -> None:
        try:
            lab.run(jobs[window], window)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(window,)) for window in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert db.rows() == [(2, "x", 1), (3, "x", 1)]


def test_rows_of_a_task_that_lost_are_never_published(lab: Any, db: Any) -> None:
    """What another transaction leaves in the stage is not looked at."""
    job = lab.job(A, target=BY_DAY)
    bound = lab.bind(job)
    (window,) = lab.windows(job, "2026-04-25")
    from setpoint.flow.publish import publish
    from setpoint.model.run import Run

    run = Run(job, window, {}, {}, job.code, job.definition())
    with lab.world().engine.pinned(lab.spark):
        staged = bound.target.stage(job(window), run, "a1", [])
    db.all("INSERT INTO setpoint.stage_a1 (id, amount) VALUES (99, 9.9)")
    state = bound.target.inspect([window])[window]
    publish(bound.target, lab.spark, run, staged, (), state, "2026-04-26T00:00:00+00:00")
    assert db.rows() == sorted(A)


def by_hand(lab: Any, job: Any) -> tuple[Any, Any, Any]:
    """A target, a stage of the attempt a1 in it, and what publishes that stage."""
    from setpoint.flow.publish import publish
    from setpoint.model.run import Run

    target = lab.bind(job).target
    (window,) = lab.windows(job, "2026-04-25")
    run = Run(job, window, {}, {}, job.code, job.definition())
    with lab.world().engine.pinned(lab.spark):
        staged = target.stage(job(window), run, "a1", [])
    state = target.inspect([window])[window]
    now = "2026-04-26T00:00:00+00:00"
    return target, staged, lambda: publish(target, lab.spark, run, staged, (), state, now)


def test_a_stage_that_the_server_lost_is_not_published(lab: Any, db: Any) -> None:
    """Unlogged tables are empty after a crash of the server; the slice must not be emptied too."""
    for write in (None, Replace(), Merge(key="id", sequence_by="amount")):
        lab.run(lab.job(B, target=BY_DAY, write=write, name=f"first{write}"[:5]))
        target, staged, publish = by_hand(lab, lab.job(A, target=BY_DAY, write=write))
        db.all("TRUNCATE setpoint.stage_a1")
        with pytest.raises(TransientError, match=r"SP-P04.*holds 0 rows, not 2"):
            publish()
        assert db.rows() == sorted(B)
        target.drop_stage(staged.location)


@pytest.mark.parametrize("unique_index", [False, True])
@pytest.mark.parametrize("write", [None, Replace()])
def test_rows_of_a_task_that_ran_twice_are_published_once(
    lab: Any, db: Any, write: Any, unique_index: bool
) -> None:
    """What the task that lost has stored is in the stage, and nowhere else."""
    lab.run(lab.job(B, target=BY_DAY, write=write, name="first"))
    if unique_index:
        db.all("ALTER TABLE out ADD UNIQUE (id)")
    _, _, publish = by_hand(lab, lab.job(A, target=BY_DAY, write=write))
    db.all("INSERT INTO setpoint.stage_a1 SELECT * FROM setpoint.stage_a1 LIMIT 1")
    publish()
    assert db.rows() == sorted(A)
    assert db.all("SELECT count(*) FROM setpoint.receipts WHERE attempt = 'a1'") == [(1,)]


def test_leftovers_of_refused_attempts_are_listed_and_dropped(lab: Any, db: Any) -> None:
    job = lab.job([(1, None, DAY)], target=BY_DAY, audits=[not_null("amount")])
    with pytest.raises(RefusedError):
        lab.run(job)
    target = lab.bind(job).target
    (left,) = target.leftovers()
    assert (left.pipeline, left.window) == ("job", "2026-04-25")
    assert target.has_stage(left.location)
    assert left.size > 0
    other = lab.bind(lab.job(A, target=postgres("other", connection="test", time="d"))).target
    assert other.leftovers() == []
    target.drop_stage(left.location)
    assert not target.has_stage(left.location)
    for place in ("out", "receipts", 'stage_"; DROP TABLE out; --', "../out"):
        with pytest.raises(Exception, match="SP-P04"):
            target.drop_stage(place)


def test_connections_are_found_or_missed_in_clear_words(
    lab: Any, db: Any, project_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = lab.job(A, target=postgres("out", connection="ware house", time="d"))
    with pytest.raises(UsageError, match=r"SP-C03.*SETPOINT_CONNECTION_WARE_HOUSE"):
        lab.run(job)
    monkeypatch.setenv("SETPOINT_CONNECTION_WARE_HOUSE", db.url)
    assert lab.run(job).state == "published"
    monkeypatch.setenv("PG", "postgresql://me:s3cret%21@127.0.0.1:1/x?connect_timeout=2")
    with Project(Config(root=project_dir, connections={"ware house": "env:PG"})) as lab.project:
        with pytest.raises(TransientError, match=r"SP-T01.*127\.0\.0\.1:1/x") as caught:
            lab.run(job)
        assert "s3cret" not in str(caught.value)
        monkeypatch.setenv("PG", "mysql://me:s3cret@h/x")
        with pytest.raises(UsageError, match=r"SP-C03.*not a PostgreSQL URL") as refused:
            lab.run(job)
        assert "s3cret" not in str(refused.value)
    assert "s3cret" not in repr(Config(root=project_dir, connections={"a": "s3cret"}))


def test_a_text_that_postgresql_cannot_store_is_refused(lab: Any, db: Any) -> None:
    rows = [(1, "a\x00b", 1)]
    with pytest.raises(RefusedError, match=r"SP-O05.*U\+0000"):
        lab.run(lab.job(rows, ORDERS, target=TABLE, write=Replace()))
    assert db.stages() == []


def test_a_connection_that_a_task_loses_is_tried_again(lab: Any, db: Any) -> None:
    """The server ends the tasks' sessions during the first staging job: the second try lands."""
    ended: list[int] = []

    def slow(window: Any) -> Any:
        from pyspark.sql import functions as F

        frame = lab.spark.range(0, 200_000, 1, 2).select(
            F.col("id").cast("int"), F.lit(1.0).alias("amount"), F.lit(DAY).alias("d")
        )
        if not ended:
            threading.Thread(target=end).start()
        return frame

    def end() -> None:
        while not ended:
            ended.extend(
                number
                for (number,) in db.all(
                    "SELECT pid FROM pg_stat_activity WHERE query LIKE 'COPY%' "
                    "AND datname = current_database() AND pg_terminate_backend(pid)"
                )
            )

    outcome = lab.run(lab.define(slow, target=BY_DAY))
    assert (outcome.state, outcome.tries) == ("published", 2)
    assert db.all("SELECT count(*), count(DISTINCT id) FROM out") == [(200_000, 200_000)]
    assert db.stages() == []
