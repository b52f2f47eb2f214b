"""Databases as sources: clipped by the server, read in one snapshot, told apart by a probe."""

from __future__ import annotations

import datetime as dt
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from setpoint import Merge, SetpointError, delta, jdbc, pipeline, postgres, source
from setpoint.errors import PermanentError, TransientError
from setpoint.flow.backfill import chunks_of
from setpoint.flow.chunk import run_chunk, why_alone
from setpoint.flow.run import plan_windows, run_window
from setpoint.model.mark import Mark
from setpoint.model.slice import SliceRule
from setpoint.project.wiring import Project
from setpoint.sources.database import snapshot as snapshot_module
from setpoint.sources.database.division import Part, divided
from setpoint.sources.database.relation import relation
from setpoint.spark.failures import explain
from setpoint.targets.postgres.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator

UTC = dt.timezone.utc
DAY = "2026-04-25"


def reading(lab: Any, table: str, *, every: str = "day", timezone: str = "UTC", **how: Any) -> Any:
    """A source bound as the argument `rows` of a pipeline, and a window for it."""

    def job(window: Any, rows: Any = source(postgres(table, connection="test"), **how)) -> Any:
        return rows

    target = delta("out") if every == "incremental" else delta("out", partition_by="d")
    write = Merge(key="id", sequence_by="at") if every == "incremental" else None
    made = pipeline(every=every, target=target, write=write, timezone=timezone)(job)
    return lab.project.adapters.source("rows", made.sources["rows"], made), made


class Reads:
    """Reads of one test, all let go of at its end."""

    def __init__(self, lab: Any) -> None:
        self._lab = lab
        self._open: list[tuple[Any, Any]] = []

    def frame(self, table: str, text: str = DAY, **how: Any) -> Any:
        found, made = reading(self._lab, table, **how)
        (window,) = self._lab.windows(made, text)
        self._open.append((found, window))
        return found.read(self._lab.spark, window, found.pin([window])[window])

    def close(self) -> None:
        for found, window in self._open:
            found.release(window)


@pytest.fixture
def reads(postgres_lab: Any) -> Iterator[Reads]:
    made = Reads(postgres_lab)
    yield made
    made.close()


def failure_of(frame: Any) -> SetpointError:
    """What a user is told when the frame is evaluated."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # Spark's own
        frame.collect()
    return explain(caught.value, "reading")


def ids(frame: Any) -> list[int]:
    return sorted(row["id"] for row in frame.select("id").collect())


def test_every_type_arrives_with_its_value_and_a_schema_known_before(db: Any, reads: Reads) -> None:
    """Each type of PostgreSQL has one type in Spark; what Spark has none for comes as its text."""
    db.all("CREATE TYPE mood AS ENUM ('fine', 'bad'); CREATE DOMAIN price AS numeric(8,2)")
    columns = {
        "b": ("boolean", "true", "boolean", True),
        "i2": ("smallint", "-32768", "smallint", -32768),
        "i4": ("integer", "7", "int", 7),
        "i8": ("bigint", "9223372036854775807", "bigint", 2**63 - 1),
        "r": ("real", "'NaN'", "float", "nan"),
        "f": ("double precision", "'-Infinity'", "double", float("-inf")),
        "n": ("numeric(12,2)", "1.5", "decimal(12,2)", Decimal("1.50")),
        "any_n": ("numeric", "1.123456789012345678", "decimal(38,18)", None),
        "hundreds": ("numeric(3,-2)", "12345", "decimal(5,0)", Decimal(12300)),
        "small": ("numeric(2,4)", "0.0012", "decimal(4,4)", Decimal("0.0012")),
        "wide": ("numeric(50,2)", "1.50", "string", "1.50"),
        "p": ("price", "3", "decimal(8,2)", Decimal("3.00")),
        "t": ("text", "E'ü\\u2028\\\\N\\t\\n''\"\\U0001F600'", "string", "ü\u2028\\N\t\n'\"😀"),
        "v": ("varchar(9)", "'a '", "string", "a "),
        "c": ("char(4)", "'ab'", "string", "ab"),
        "u": ("uuid", f"'{'0' * 31}1'", "string", "00000000-0000-0000-0000-000000000001"),
        "js": ("jsonb", "'{\"a\": [1]}'", "string", '{"a": [1]}'),
        "by": ("bytea", "'\\x00ff'", "binary", bytearray(b"\x00\xff")),
        "d": ("date", "'0001-01-01'", "date", dt.date(1, 1, 1)),
        "ts": (
            "timestamp",
            "'2026-03-29 02:30:00.000001'",
            "timestamp_ntz",
            dt.datetime(2026, 3, 29, 2, 30, 0, 1),  # noqa: DTZ001
        ),
        "tz": ("timestamptz", "'2026-04-25 02:00+02'", "timestamp", None),
        "ti": ("time", "'23:59:59.5'", "string", "23:59:59.5"),
        "iv": ("interval", "'1 day 2 hours'", "string", "1 day 02:00:00"),
        "m": ("mood", "'fine'", "string", "fine"),
        "rg": ("int4range", "'[1,3)'", "string", "[1,3)"),
        "ai": ("int[]", "'{1,NULL}'", "array<int>", [1, None]),
        "at": ("text[]", "'{a,\"b,c\"}'", "array<string>", ["a", "b,c"]),
        "an": ("numeric(6,2)[]", "'{1.5}'", "array<decimal(6,2)>", [Decimal("1.50")]),
        "ad": ("date[]", "'{2026-04-25}'", "array<date>", [dt.date(2026, 4, 25)]),
        "none": ("money", "NULL", "string", None),
    }
    defined = ", ".join(f'"{name}" {kind}' for name, (kind, *_) in columns.items())
    values = ", ".join(value for _, value, *_ in columns.values())
    db.all(f"CREATE TABLE odd ({defined}); INSERT INTO odd VALUES ({values})")
    frame = reads.frame("odd", whole=True)
    assert {field.name: field.dataType.simpleString() for field in frame.schema} == {
        name: kind for name, (_, _, kind, _) in columns.items()
    }
    row = frame.selectExpr("*", "string(tz) AS tz_text", "string(any_n) AS any_text").collect()[0]
    assert row["tz_text"] == "2026-04-25 00:00:00"
    assert row["any_text"] == "1.123456789012345678"
    for name, (*_, expected) in columns.items():
        if name not in ("tz", "any_n"):
            found = str(row[name]) if expected == "nan" else row[name]
            assert found == expected, name


def test_a_value_that_spark_cannot_hold_is_an_error_and_only_if_it_is_read(
    db: Any, reads: Reads
) -> None:
    """It is neither a null nor another value; and a row of another day never leaves the server."""
    bad = {
        "a": ("date", "'infinity'", "a = infinity"),
        "b": ("timestamptz", "'0044-03-15 BC'", "b = 0044-03-15 00:00:00"),
        "c": ("timestamp", "'20000-01-01'", "c = 20000-01-01"),
        "d": ("numeric", "0.1234567890123456789", "d: .*data loss"),
        "e": ("numeric(12,2)", "'NaN'", "e: .*NaN"),
        "f": ("int[]", "'{{1,2},{3,4}}'", r"f = \{\{1,2\},\{3,4\}\}"),
        "g": ("date[]", "'{infinity}'", "g: .*infinity"),
    }
    columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in bad.items())
    db.all(f"CREATE TABLE odd (id int, day text, {columns})")
    db.all(f"INSERT INTO odd VALUES (0, '{DAY}')")
    for number, (name, (_, value, _)) in enumerate(bad.items(), 1):
        db.all(f"INSERT INTO odd (day, {name}) VALUES ('2026-05-{number:02}', {value})")
    assert ids(reads.frame("odd", time="day")) == [0]
    for number, (_, _, told) in enumerate(bad.values(), 1):
        frame = reads.frame("odd", f"2026-05-{number:02}", time="day")
        error = failure_of(frame)
        assert isinstance(error, PermanentError)
        assert error.code == "SP-R01"
        assert re.search(told, error.what)


@pytest.mark.parametrize(
    ("kind", "every", "timezone", "text", "rows", "expected"),
    [
        (
            "timestamptz",
            "day",
            "Europe/Berlin",
            "2026-03-29",  # 23 hours
            [
                "2026-03-28 22:59:59Z",
                "2026-03-28 23:00Z",
                "2026-03-29 21:59:59Z",
                "2026-03-29 22:00Z",
            ],
            [2, 3],
        ),
        (
            "timestamptz",
            "hour",
            "Europe/Berlin",
            "2026-10-25T02+0100",  # the second of two hours that the clock calls 2
            [
                "2026-10-25 00:59:59Z",
                "2026-10-25 01:00Z",
                "2026-10-25 01:59:59Z",
                "2026-10-25 02:00Z",
            ],
            [2, 3],
        ),
        (
            "timestamp",
            "day",
            "Europe/Berlin",
            "2026-03-29",
            ["2026-03-28 23:59:59", "2026-03-29", "2026-03-29 23:59:59.999999", "2026-03-30"],
            [2, 3],
        ),
        ("date", "month", "UTC", "2026-04", ["2026-03-31", "2026-04-01", "2026-04-30"], [2, 3]),
        ("text", "day", "UTC", DAY, ["2026-04-24", DAY, "2026-04-26"], [2]),
        ("bigint", "day", "UTC", DAY, ["20260424", "20260425", "20260426"], [2]),
    ],
)
def test_a_window_is_clipped_by_the_server_in_its_own_time_zone(
    db: Any,
    reads: Reads,
    kind: str,
    every: str,
    timezone: str,
    text: str,
    rows: list[str],
    expected: list[int],
) -> None:
    """Half-open, in every type that a window can be found by, on days of 23 and 25 hours too."""
    db.all(f"CREATE TABLE log (id serial, at {kind}); CREATE INDEX ON log (at)")
    db.all("INSERT INTO log (at) VALUES " + ", ".join(f"('{row}')" for row in [*rows]))
    db.all("INSERT INTO log (at) VALUES (NULL)")
    how: dict[str, Any] = {"every": every, "timezone": timezone, "partitions": 3}
    assert ids(reads.frame("log", text, time="at", **how)) == expected


def test_the_server_finds_a_window_by_its_index_and_a_part_by_its_blocks(
    db: Any, postgres_lab: Any
) -> None:
    """No function around the column; and the parts of a table are read once, not by every task."""
    db.all("CREATE TABLE log (id int, at timestamptz); CREATE INDEX ON log (at)")
    db.all(
        "INSERT INTO log SELECT n, '2026-04-25'::timestamptz + n * interval '1 minute' "
        "FROM generate_series(1, 20000) n"
    )
    db.all("ANALYZE log")
    found, made = reading(postgres_lab, "log", time="at")
    (window,) = postgres_lab.windows(made, DAY)

    def plan_of(condition: str) -> str:
        return " ".join(text for (text,) in db.all(f"EXPLAIN SELECT * FROM log WHERE {condition}"))

    assert "Index Cond: ((at >=" in plan_of(found.bounds(window))
    with psycopg.connect(db.url, cursor_factory=psycopg.RawCursor) as connection:
        table = relation(connection, TableName("public", "log"))
    assert table is not None
    (first, *_), *_ = divided(table, Part("true"), 4, 18)
    assert "Tid Range Scan" in plan_of(first)
    (first, *_), *_ = divided(table, Part("true", SliceRule("at", "timestamp"), window), 4, 18)
    assert "Index Cond: ((at >=" in plan_of(first)


def test_tables_without_blocks_of_their_own_are_read_too(
    db: Any, reads: Reads, postgres_lab: Any
) -> None:
    """Partitioned tables in parallel, views by one task; hostile names are names."""
    name = 'o"; DROP TABLE log; --'
    quoted = name.replace('"', '""')
    db.all("CREATE TABLE log (id int, d date) PARTITION BY RANGE (d)")
    for month in (4, 5):
        db.all(
            f"CREATE TABLE log{month} PARTITION OF log FOR VALUES "
            f"FROM ('2026-{month:02}-01') TO ('2026-{month + 1:02}-01')"
        )
    db.all("INSERT INTO log SELECT n, '2026-04-01'::date + n % 60 FROM generate_series(0, 8999) n")
    db.all(f'CREATE VIEW "{quoted}" AS SELECT id, d AS "d""x" FROM log')
    expected = [n for n in range(9000) if n % 60 == 24]
    assert ids(reads.frame("log", time="d", partitions=3)) == expected
    view = postgres(f'"{quoted}"', connection="test")
    assert ids(reads.frame(view.table, time='d"x', partitions=3)) == expected
    looked_at = postgres_lab.project.adapters.existing("the view", view)
    assert looked_at.read(postgres_lab.spark).count() == 9000


def test_eight_parts_of_a_table_that_changes_meanwhile_are_of_one_moment(
    db: Any, reads: Reads
) -> None:
    """Money that is moved between accounts all the time is neither lost nor made by reading it."""
    db.all("CREATE TABLE accounts (id int PRIMARY KEY, cents int, padding text)")
    db.all("INSERT INTO accounts SELECT n, 100, repeat('x', 400) FROM generate_series(1, 2000) n")
    done, moved = threading.Event(), [0]

    def move() -> None:
        with psycopg.connect(db.url, autocommit=True) as connection:
            while not done.is_set():
                one, other = moved[0] * 7919 % 2000 + 1, moved[0] * 104729 % 2000 + 1
                connection.execute(
                    "UPDATE accounts SET cents = cents + CASE id WHEN %s THEN -10 ELSE 10 END "
                    "WHERE id IN (%s, %s) AND %s <> %s",
                    (one, one, other, one, other),
                )
                moved[0] += 1

    mover = threading.Thread(target=move)
    mover.start()
    try:
        frame = reads.frame("accounts", whole=True, partitions=8)
        before, answers = moved[0], []
        for _ in range(2):  # the second evaluation is of the same moment, too
            answers.append(
                [
                    tuple(row)
                    for row in frame.selectExpr(
                        "count(*)", "count(DISTINCT id)", "sum(cents)", "sum(hash(id, cents))"
                    ).collect()
                ]
            )
        after = moved[0]
    finally:
        done.set()
        mover.join()
    assert after - before > 100
    assert answers[0][0][:3] == (2000, 2000, 200_000)
    assert answers[0] == answers[1]


def held(db: Any) -> int:
    """How many snapshots are held on the server."""
    ((count,),) = db.all(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'setpoint' AND state LIKE 'idle in transaction%'"
    )
    return int(count)


def copy_of(lab: Any, table: str, look: Any = None, **how: Any) -> Any:
    """A pipeline that copies a day; `look` is called while its input is bound."""
    given = {"time": "d", **how}

    def job(window: Any, rows: Any = source(postgres(table, connection="test"), **given)) -> Any:
        if look is not None:
            look()
        return rows

    return lab.define(job)


@pytest.fixture
def orders(db: Any) -> Any:
    db.all("CREATE TABLE orders (id int, amount int, d date)")
    db.all("INSERT INTO orders VALUES (1, 10, '2026-04-25'), (2, 20, '2026-04-26')")
    return db


ROW = (1, 10, dt.date(2026, 4, 25))
END = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE state LIKE 'idle in transaction%' AND datname = current_database()"
)


def test_a_snapshot_that_is_lost_publishes_nothing_and_a_retry_heals_it(
    orders: Any, postgres_lab: Any
) -> None:
    """The administrator ends the transaction that holds it; no snapshot outlives the attempt."""
    seen: list[int] = []

    def kill_once() -> None:
        seen.append(held(orders))
        if len(seen) == 1:
            orders.all(END)

    outcome = postgres_lab.run(copy_of(postgres_lab, "orders", kill_once))
    assert (outcome.state, outcome.tries, seen) == ("published", 2, [1, 1])
    assert "SP-R04" in " ".join(postgres_lab.told)
    assert postgres_lab.rows() == [ROW]
    assert postgres_lab.version() == 0
    assert held(orders) == 0


LOG = (
    "CREATE TABLE log (id int, d date) PARTITION BY RANGE (d); "
    "CREATE TABLE log4 PARTITION OF log FOR VALUES FROM ('2026-04-01') TO ('2026-05-01'); "
    "CREATE TABLE log5 (id int, d date); INSERT INTO log5 VALUES (9, '2026-05-25'); "
    "INSERT INTO log SELECT n, '2026-04-25' FROM generate_series(1, 500) n"
)
ATTACH = "ALTER TABLE log ATTACH PARTITION log5 FOR VALUES FROM ('2026-05-01') TO ('2026-06-01')"


def hasty(db: Any, statement: str) -> None:
    """Do something that does not wait for a lock."""
    with psycopg.connect(db.url, autocommit=True, options="-c lock_timeout=20") as connection:
        connection.execute(statement.encode())


@contextmanager
def waiting(db: Any, call: Any) -> Iterator[Any]:
    """A call in a thread of its own, which waits for a lock as the block begins."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
        query = (
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        while not future.done() and db.all(query) == [(0,)]:
            pass
        yield future


def test_rows_that_are_being_read_cannot_be_taken_away(db: Any, reads: Reads) -> None:
    """Partitions, children and what views read are locked; a snapshot alone does not keep them."""
    db.all(LOG)
    db.all("CREATE TABLE old (id int, d date); CREATE TABLE older () INHERITS (old)")
    db.all("CREATE VIEW seen AS SELECT * FROM log; CREATE VIEW both_seen AS SELECT * FROM seen")
    db.all("CREATE MATERIALIZED VIEW kept AS SELECT * FROM log")
    db.all("CREATE VIEW kept_seen AS SELECT * FROM kept")
    everything: dict[str, Any] = {"whole": True, "partitions": 4}
    cases = [
        ("log", {"time": "d", "partitions": 1}, "TRUNCATE log4"),
        ("log", everything, "VACUUM FULL log4"),
        ("log", everything, "ALTER TABLE log DETACH PARTITION log4"),
        ("old", everything, "TRUNCATE older"),
        ("old", everything, "ALTER TABLE older NO INHERIT old"),
        ("both_seen", everything, "TRUNCATE log4"),
        ("kept", everything, "REFRESH MATERIALIZED VIEW kept"),
        ("kept_seen", everything, "REFRESH MATERIALIZED VIEW kept"),
    ]
    for table, how, statement in cases:
        frame = reads.frame(table, **how)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            hasty(db, statement)
        if statement == "TRUNCATE log4" and table == "log":
            assert frame.count() == 500
        reads.close()
    hasty(db, "TRUNCATE log4")  # nothing outlives a read


def test_who_may_read_all_columns_but_not_lock_the_table_is_protected_too(
    db: Any, postgres_lab: Any
) -> None:
    """LOCK TABLE asks for a right to the whole table; the plan of a query locks without it."""
    db.all(LOG + "; CREATE ROLE clerk LOGIN; GRANT SELECT (id, d) ON log TO clerk")
    url = db.url.replace("postgres:@", "clerk:@")
    config = replace(postgres_lab.project.config, connections={"test": url})
    with Project(config) as project:
        bound = project.bind(copy_of(postgres_lab, "log", partitions=1))
        found, (window,) = bound.sources["rows"], postgres_lab.windows(bound.pipeline, DAY)
        frame = found.read(postgres_lab.spark, window, found.pin([window])[window])
        with pytest.raises(psycopg.errors.LockNotAvailable):
            hasty(db, "TRUNCATE log4")
        assert frame.count() == 500
        found.release(window)


def test_a_read_is_of_before_or_of_after_a_truncation_that_is_under_way(
    db: Any, postgres_lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits, a while; and then the snapshot is of what there is when the wait is over."""
    db.all(LOG)
    found, made = reading(postgres_lab, "log", time="d", partitions=4)
    (window,) = postgres_lab.windows(made, DAY)
    pinned = found.pin([window])[window]

    def read() -> Any:
        return found.read(postgres_lab.spark, window, pinned)

    with psycopg.connect(db.url) as other:
        other.execute("TRUNCATE log4")
        with monkeypatch.context() as patience:
            patience.setattr(snapshot_module, "LOOK_SECONDS", 0.02)
            with pytest.raises(TransientError, match=r"SP-R01.*rows \(log\) is locked.*TRUNCATE"):
                read()
        with waiting(db, read) as future:
            other.commit()
            frame = future.result()
    assert ids(frame) == []
    with waiting(db, lambda: db.all("TRUNCATE log4")):
        try:
            found.confirm(window, pinned)  # which does not wait behind the one that waits
        finally:
            found.release(window)


def test_a_second_input_that_was_truncated_after_the_snapshot_is_read_afresh(
    orders: Any, postgres_lab: Any
) -> None:
    """Two inputs share a snapshot, so the second is locked too late; that is noticed at once."""
    orders.all(LOG)

    def job(
        window: Any,
        rows: Any = source(postgres("orders", connection="test"), time="d"),
        log: Any = source(postgres("log", connection="test"), time="d", partitions=4),
    ) -> Any:
        return rows.join(log, "id")

    bound = postgres_lab.bind(postgres_lab.define(job))
    first, second = bound.sources["rows"], bound.sources["log"]
    (window,) = postgres_lab.windows(bound.pipeline, DAY)
    pinned = first.pin([window])[window]
    first.read(postgres_lab.spark, window, pinned)
    hasty(orders, "TRUNCATE log4")
    with pytest.raises(TransientError, match=r"SP-R04.*public\.log4: rewritten"):
        second.read(postgres_lab.spark, window, pinned)
    second.release(window)


def test_what_the_locks_cannot_keep_off_is_noticed_and_nothing_is_published(
    db: Any, postgres_lab: Any
) -> None:
    """A partition is attached without a lock; and a connection that is lost holds none."""
    db.all(LOG)
    job = copy_of(postgres_lab, "log", lambda: hasty(db, ATTACH), partitions=2)
    with pytest.raises(PermanentError, match=r"SP-R04.*public\.log5: added"):
        postgres_lab.run(job)
    assert not (postgres_lab.root / "out" / "_delta_log").exists()
    assert held(db) == 0
    db.all("CREATE VIEW seen AS SELECT * FROM log")
    found, made = reading(postgres_lab, "seen", time="d")
    (window,) = postgres_lab.windows(made, DAY)
    pinned = found.pin([window])[window]
    found.read(postgres_lab.spark, window, pinned)
    found.confirm(window, pinned)
    db.all(END)
    db.all("TRUNCATE log4")
    with pytest.raises(PermanentError, match=r"SP-R04.*public\.log4: rewritten"):
        found.confirm(window, pinned)
    found.release(window)


def test_a_task_does_not_wait_for_somebody_who_waits_for_the_read(
    db: Any, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither would ever go on, and the server cannot see it: the driver is idle."""
    db.all(LOG)
    monkeypatch.setattr(snapshot_module, "TASK_SECONDS", 0.02)
    frame = reads.frame("log", time="d", partitions=1)
    with waiting(db, lambda: db.all("TRUNCATE log4")) as future:
        try:
            error = failure_of(frame)
        finally:
            reads.close()
        future.result()
    assert isinstance(error, TransientError)
    assert re.search(r"SP-R01.*log.*lock timeout.*wants the table to itself", str(error))


def test_a_server_that_ends_a_task_in_the_middle_is_a_passing_failure(
    db: Any, reads: Reads
) -> None:
    db.all(
        "CREATE FUNCTION dying(n int) RETURNS int LANGUAGE sql VOLATILE AS "
        "'SELECT CASE WHEN n = 5000 THEN pg_terminate_backend(pg_backend_pid())::int ELSE n END'; "
        "CREATE VIEW log AS SELECT dying(n) AS id, repeat('x', 500) AS t "
        "FROM generate_series(1, 9000) n"
    )
    error = failure_of(reads.frame("log", whole=True))
    assert isinstance(error, TransientError)
    assert error.code == "SP-R01"


def test_a_probe_tells_that_nothing_changed_and_that_something_did(
    orders: Any, postgres_lab: Any
) -> None:
    """Unchanged is told without reading; the receipt has the probe of the very rows it tells of."""
    probe = "SELECT count(*), sum(amount) FROM orders WHERE d >= {start} AND d < {end};"
    job = copy_of(postgres_lab, "orders", probe=probe)
    planned = postgres_lab.plan(job, DAY)
    orders.all("UPDATE orders SET amount = 11 WHERE id = 1")  # after the plan, before the read
    first = run_window(postgres_lab.bind(job), planned, postgres_lab.world())
    assert first.receipt.inputs["rows"] != planned.run.inputs["rows"].as_dict()
    assert postgres_lab.run(job).state == "unchanged"
    orders.all("UPDATE orders SET amount = 21 WHERE id = 2")  # of another window
    assert postgres_lab.run(job).state == "unchanged"
    assert postgres_lab.version() == 0
    found, made = reading(postgres_lab, "orders", time="d", probe=probe)
    (window,) = postgres_lab.windows(made, DAY)
    pinned = found.pin_published(window, first.receipt.inputs["rows"])
    orders.all("UPDATE orders SET amount = 12 WHERE id = 1")
    with pytest.raises(PermanentError, match=r"SP-R05.*changed just now"):
        found.read(postgres_lab.spark, window, pinned)
    found.release(window)
    with pytest.raises(PermanentError, match=r"SP-R05.*another answer now"):
        postgres_lab.run(job, as_published=True)
    assert postgres_lab.plan(job, DAY).reason == "the input rows changed"


def test_a_probe_is_one_statement_that_cannot_change_anything(
    orders: Any, postgres_lab: Any
) -> None:
    """What is wrong with one is told as a failure of the probe, with advice about the probe."""
    named, correct = r"The probe of the source rows \(orders\)", "Correct probe= of the source"
    cases = {
        "SELECT 1; COMMIT; DELETE FROM orders; SELECT 1": "multiple commands.*one SELECT",
        "DELETE FROM orders RETURNING 1": "read-only transaction.*a probe that only reads",
        "WITH d AS (DELETE FROM orders RETURNING 1) SELECT * FROM d": "a probe that only reads",
        "SELEC": f"syntax error.*{correct}",
        "SELECT '{start}'": "syntax error.*want no quotes",
        "SELECT nothing": f'column "nothing" does not exist.*{correct}',
        "SELECT 1 / 0": f"division by zero.*{correct}",
        "SELECT 1 WHERE false": "returned no row",
        "COMMIT": "returned no row",
        "SET search_path = x": "returned no row",
    }
    for probe, told in cases.items():
        with pytest.raises(PermanentError, match=f"SP-R01.*{named}.*{told}") as caught:
            postgres_lab.plan(copy_of(postgres_lab, "orders", probe=probe), DAY)
        assert "Name the primary" not in str(caught.value)
    assert len(orders.rows("orders")) == 2


def test_without_a_probe_a_run_reads_again_and_leaves_the_same_rows_alone(
    orders: Any, postgres_lab: Any
) -> None:
    job = copy_of(postgres_lab, "orders")
    postgres_lab.run(job)
    version = postgres_lab.version()
    again = postgres_lab.run(job)
    assert again.state == "unchanged"
    assert postgres_lab.version() == version
    with pytest.raises(PermanentError, match=r"SP-R05.*there is no probe"):
        postgres_lab.run(job, as_published=True)
    orders.all("UPDATE orders SET amount = 11 WHERE id = 1")
    assert postgres_lab.run(job).state == "published"
    assert postgres_lab.rows() == [(1, 11, dt.date(2026, 4, 25))]


def test_windows_that_are_read_together_are_of_one_moment(orders: Any, postgres_lab: Any) -> None:
    """One snapshot and one commit for all; each receipt has the probe of the rows it tells of."""
    orders.all("CREATE TABLE names (id int); INSERT INTO names VALUES (1), (2)")
    lab, looks = postgres_lab, postgres_lab.shelf([])
    probe = "SELECT sum(amount) FROM orders WHERE d >= {start} AND d < {end}"

    def job(
        window: Any,
        rows: Any = source(postgres("orders", connection="test"), time="d", probe=probe),
        names: Any = source(postgres("names", connection="test"), whole=True, probe="SELECT 1"),
    ) -> Any:
        looks.rows.append((len(window.windows), held(orders)))
        orders.all("UPDATE orders SET amount = amount + 1 WHERE id = 2")  # the snapshot is older
        return rows.join(names, "id")

    made = lab.define(job, spans=True)
    days = lab.windows(made, "2026-04-24..2026-04-26")

    def planned() -> tuple[Any, list[Any]]:
        bound = lab.bind(made)
        return bound, plan_windows(bound, days, lab.world(), parameters={})

    bound, plans = planned()
    (chunk,) = chunks_of(bound, plans)
    orders.all("UPDATE orders SET amount = 11 WHERE id = 1")  # after the plan, before the read
    ended = list(run_chunk(bound, chunk, lab.world()))
    assert [end.outcome.receipt.rows for end in ended] == [0, 1, 1]
    assert lab.rows() == [(1, 11, dt.date(2026, 4, 25)), (2, 20, dt.date(2026, 4, 26))]
    assert (looks.rows, held(orders), lab.version()) == ([(3, 1)], 0, 0)
    assert [plan.is_unchanged for plan in planned()[1]] == [True, True, False]
    orders.all("UPDATE orders SET amount = 12 WHERE id = 1")
    bound, plans = planned()
    ended = list(run_chunk(bound, plans[1:], lab.world("staged@1:raise")))
    assert [end.outcome.tries for end in ended] == [2, 2]
    assert looks.rows[1:] == [(2, 1), (2, 1)]  # the second try holds nothing of the first
    assert held(orders) == 0
    alone = why_alone(lab.bind(lab.define(job, name="alone")))
    assert alone.startswith("rows holds a transaction open for each window")


def test_rows_that_are_put_aside_are_of_the_same_moment_as_the_others(
    db: Any, postgres_lab: Any
) -> None:
    """The quarantine reads its input once more; a row that came meanwhile is for the next run."""
    db.all("CREATE TABLE log (id int, at timestamptz, d date)")
    db.all("INSERT INTO log VALUES (1, now(), '2026-04-25'), (NULL, now(), '2026-04-25')")

    def arrive(staged: Any) -> Any:
        db.all("INSERT INTO log VALUES (NULL, now(), '2026-04-25')")
        return staged.where("false")

    def job(window: Any, rows: Any = source(postgres("log", connection="test"), time="d")) -> Any:
        return rows

    merge = Merge(key="id", sequence_by="at", null_keys="quarantine")
    target = postgres("out", connection="test", time="d")
    outcome = postgres_lab.run(
        postgres_lab.define(job, target=target, write=merge, audits=[arrive])
    )
    assert outcome.receipt.rows == 1
    assert len(db.rows("out__quarantine")) == 1
    assert held(db) == 0


def test_two_inputs_of_one_server_are_of_one_moment(orders: Any, postgres_lab: Any) -> None:
    orders.all("CREATE TABLE names (id int, name text); INSERT INTO names VALUES (1, 'a')")
    counts = []

    def job(
        window: Any,
        rows: Any = source(postgres("orders", connection="test"), time="d"),
        names: Any = source(postgres("names", connection="test"), whole=True),
    ) -> Any:
        counts.append(held(orders))
        return rows.join(names, "id")

    made = postgres_lab.define(job)
    postgres_lab.run(made)
    assert counts == [1]
    assert held(orders) == 0


def test_what_is_missing_or_forbidden_is_told_before_anything_is_staged(
    orders: Any, postgres_lab: Any
) -> None:
    """Four parts, the source by name, and never the password."""
    orders.all("CREATE ROLE reader LOGIN PASSWORD 'hu%sh/1'")
    cases = [
        ("nowhere", {}, "SP-R01", "rows .nowhere. is not in the database"),
        ("orders", {"time": "day"}, "SP-R02", "has no column day; it has id, amount, d"),
        ("orders", {"probe": "SELECT 1 WHERE false"}, "SP-R01", "probe .* returned no row"),
    ]
    for table, how, code, told in cases:
        with pytest.raises(SetpointError, match=f"(?s){code}.*{told}"):
            postgres_lab.plan(copy_of(postgres_lab, table, **how), DAY)
    url = orders.url.replace("postgres:@", "reader:hu%25sh%2F1@")
    strangers = {
        url: 'permission denied for table orders.*GRANT SELECT ON "public"."orders" TO',
        url.replace("host=/", "host=/nowhere"): "could not be opened",
    }
    for given, told in strangers.items():
        config = replace(postgres_lab.project.config, connections={"test": given})
        with Project(config) as project:
            bound = project.bind(copy_of(postgres_lab, "orders"))
            windows = postgres_lab.windows(bound.pipeline, DAY)
            with pytest.raises(SetpointError) as caught:
                bound.sources["rows"].pin(windows)
        assert re.search(f"SP-R01.*{told}", str(caught.value))
        assert "hu%sh" not in str(caught.value)
        assert "hu%25" not in str(caught.value)


def test_an_increment_goes_on_from_the_mark_with_ties_lookback_and_ranges(
    db: Any, postgres_lab: Any
) -> None:
    """The bounds are evaluated by the server; rows at the mark are read once more."""
    db.all("CREATE TABLE log (id bigint, at timestamptz, v text, odd date)")
    db.all(
        "INSERT INTO log VALUES (1, '2026-04-25 12:00:01Z', 'a'), (2, '2026-04-25 12:00:02Z', 'a')"
    )
    how: dict[str, Any] = {"cursor": ["at", "v"]}

    def job(window: Any, rows: Any = source(postgres("log", connection="test"), **how)) -> Any:
        return rows.drop("odd")

    made = postgres_lab.define(
        job, every="incremental", target=delta("out"), write=Merge(key="id", sequence_by="at")
    )
    assert postgres_lab.run(made, "incremental").receipt.rows == 2
    mark = Mark.of(postgres_lab.state(made, "incremental").receipt.high_water_mark)
    assert mark == Mark(("at", "v"), ("timestamp", "string"), ("2026-04-25 12:00:02", "a"))
    # One at the mark, one later; and one before it that could not be read.
    db.all(
        "INSERT INTO log VALUES (3, '2026-04-25 12:00:02Z', 'a', NULL), "
        "(4, '2026-04-25 12:00:02Z', 'ä', NULL), (5, '2026-04-25 12:00:02Z', 'B', 'infinity')"
    )

    def increment(after: Mark | None, again: Any = None, **how: Any) -> tuple[list[int], Any]:
        found, other = reading(postgres_lab, "log", every="incremental", **how)
        (window,) = postgres_lab.windows(other, "incremental")
        try:
            pinned = found.pin([window])[window]
            frame, mark = found.read_increment(postgres_lab.spark, pinned, after, again)
            return ids(frame), mark and mark.values
        finally:
            found.release(window)

    assert increment(mark, **how) == ([2, 3, 4], ("2026-04-25 12:00:02", "ä"))
    db.all("DELETE FROM log WHERE id = 5")
    by_time = Mark(("at",), ("timestamp",), ("2026-04-25 12:00:02",))
    assert increment(by_time, cursor="at", lookback=dt.timedelta(seconds=1))[0] == [1, 2, 3, 4]
    by_id = Mark(("id",), ("bigint",), ("4",))
    assert increment(by_id, cursor="id", lookback=1) == ([3, 4], ("4",))
    assert increment(by_id, ("2", "4"), cursor="id") == ([2, 3], None)
    with pytest.raises(SetpointError, match=r"SP-C01.*not a range of at"):
        increment(by_time, ("yesterday", "now"), cursor="at")
    db.all("INSERT INTO log VALUES (6, 'infinity', 'z'), (7, NULL, 'z')")
    with pytest.raises(SetpointError, match=r"SP-R03.*null in 1 rows"):
        increment(by_time, cursor="at")
    db.all("DELETE FROM log WHERE id = 7")
    with pytest.raises(SetpointError, match=r"SP-R01.*infinity, which is no point"):
        increment(by_time, cursor="at")


class Derby:
    """A second database, in memory, that is reached by JDBC alone."""

    def __init__(self, lab: Any, name: str) -> None:
        self.url = f"jdbc:derby:memory:{name};create=true"
        self._manager = lab.spark._jvm.java.sql.DriverManager

    def do(self, *statements: str) -> None:
        connection = self._manager.getConnection(self.url)
        try:
            for statement in statements:
                connection.createStatement().execute(statement)
        finally:
            connection.close()


@pytest.fixture
def derby(lab: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The laboratory with Derby as the connection `legacy`."""
    made = Derby(lab, f"d{abs(hash(request.node.name))}")
    made.do(
        'CREATE TABLE "o""rders" (ID INT, "at" TIMESTAMP, D DATE, AMOUNT DECIMAL(12,2), DAY_ID INT)'
    )
    for number, at in enumerate(
        ["2026-04-24 23:59:59", "2026-04-25 00:00:00", "2026-04-25 23:59:59.5", "2026-04-26 00:00"]
    ):
        day = at[:10]
        made.do(
            f"INSERT INTO \"o\"\"rders\" VALUES ({number}, '{at[:16]}:{at[17:] or '00'}', '{day}', "
            f"{number}.5, {day.replace('-', '')})"
        )
    config = replace(lab.project.config, connections={"legacy": made.url})
    with Project(config, tell=lab.told.append, warn=lab.told.append) as project:
        lab.project, lab.derby = project, made
        yield lab


def by_jdbc(lab: Any, origin: Any, **how: Any) -> tuple[Any, Any]:
    """A JDBC source bound as the argument `rows` of a pipeline, and that pipeline."""

    def job(window: Any, rows: Any = source(origin, **how)) -> Any:
        return rows.selectExpr("ID AS id", "AMOUNT AS amount", "D AS d")

    grown = {
        "every": "incremental",
        "target": delta("out"),
        "write": Merge(key="id", sequence_by="amount"),
    }
    made = lab.define(job, **(grown if "cursor" in how else {}))
    return lab.project.adapters.source("rows", made.sources["rows"], made), made


ORDERS = '"o""rders"'


def test_any_database_is_clipped_by_its_own_query(derby: Any) -> None:
    """By time, date or id, in partitions that neither overlap nor leave gaps."""
    (window,) = derby.windows(by_jdbc(derby, jdbc(ORDERS, connection="legacy"), time="D")[1], DAY)
    for column, partitions, count in (("at", 4, 4), ("D", 4, 1), ("DAY_ID", None, 1)):
        origin = jdbc(ORDERS, connection="legacy")
        found, _ = by_jdbc(derby, origin, time=column, partitions=partitions)
        pinned = found.pin([window])[window]
        frame = found.read(derby.spark, window, pinned)
        assert sorted(row["ID"] for row in frame.collect()) == [1, 2]
        assert frame.rdd.getNumPartitions() == count
        assert ("without a common snapshot" in pinned.detail) == (partitions == 4)
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    assert (kinds["at"], kinds["AMOUNT"]) == ("timestamp_ntz", "decimal(12,2)")
    found, _ = by_jdbc(derby, jdbc(ORDERS, connection="legacy"), time="ID")
    with pytest.raises(SetpointError, match=r"SP-R02.*holds 0, which is not the name"):
        found.read(derby.spark, window, pinned)
    # A row of another day, on which the query would fail, is never computed.
    query = 'SELECT ID, 1 / ID AS X, D FROM "o""rders";'
    found, _ = by_jdbc(derby, jdbc(query=query, connection="legacy"), time="D")
    frame = found.read(derby.spark, window, found.pin([window])[window])
    assert sorted(row["ID"] for row in frame.collect()) == [1, 2]


def test_a_probe_by_jdbc_tells_changes_and_an_increment_goes_on_from_its_mark(derby: Any) -> None:
    probe = (
        'SELECT count(*) AS n, sum(AMOUNT) AS cents FROM "o""rders" '
        'WHERE "at" >= {start} AND "at" < {end}'
    )
    origin = jdbc(ORDERS, connection="legacy")
    found, made = by_jdbc(derby, origin, time="at", probe=probe)
    (window,) = derby.windows(made, DAY)
    first = found.pin([window])[window]
    derby.derby.do('UPDATE "o""rders" SET AMOUNT = 9 WHERE ID = 3')  # of another day
    assert found.pin_published(window, first.as_dict()) == first
    derby.derby.do('UPDATE "o""rders" SET AMOUNT = 9 WHERE ID = 1')
    assert found.pin([window])[window].fingerprint != first.fingerprint
    with pytest.raises(PermanentError, match=r"SP-R05.*another answer now"):
        found.pin_published(window, first.as_dict())
    found.confirm(window, first)
    final, _ = by_jdbc(derby, origin, time="at", probe=probe, late="fail")
    with pytest.raises(PermanentError, match=r"SP-R04.*another answer now"):
        final.confirm(window, first)
    found, _ = by_jdbc(derby, origin, cursor="at")
    frame, mark = found.read_increment(derby.spark, first, None, None)
    assert frame.count() == 4
    assert mark.values == ("2026-04-26 00:00:00",)
    derby.derby.do('INSERT INTO "o""rders" (ID, "at") VALUES (4, \'2026-04-27 00:00:00\')')
    frame, mark = found.read_increment(derby.spark, first, mark, None)
    assert sorted(row["ID"] for row in frame.collect()) == [3, 4]
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "GreaterThan(at,2026-04-26T00:00)" in plan


def test_a_window_by_jdbc_is_published_and_what_is_wrong_is_told_first(derby: Any) -> None:
    """Missing tables, columns, drivers and URLs; never the password."""
    derby.run(by_jdbc(derby, jdbc(ORDERS, connection="legacy"), time="at")[1])
    assert [row[0] for row in derby.rows()] == [1, 2]
    urls = {
        "gone": "jdbc:derby:memory:nowhere;user=me;password=hush",
        "strange": "jdbc:strange://me:hush@host/db",
        "plain": "postgresql://me:hush@host/db",
        "legacy": derby.derby.url,
    }
    cases = [
        ("legacy", "orders", "at", r"SP-R01.*'orders' does not exist"),
        ("legacy", ORDERS, "AT", r"SP-R02.*has no column AT; it has ID, at, D"),
        ("gone", ORDERS, "at", r"SP-R01.*nowhere"),
        ("strange", ORDERS, "at", r"SP-R01.*No suitable driver.*\[spark\] jars"),
        ("plain", ORDERS, "at", r"SP-C03.*not a JDBC URL"),
        ("absent", ORDERS, "at", r"SP-C03.*'absent' is not configured"),
    ]
    config = replace(derby.project.config, connections=urls)
    with Project(config) as project:
        derby.project = project
        for connection, table, time, told in cases:
            with pytest.raises(SetpointError) as caught:
                derby.run(by_jdbc(derby, jdbc(table, connection=connection), time=time)[1])
            assert re.search(told, str(caught.value)), str(caught.value)
            assert "hush" not in str(caught.value)
