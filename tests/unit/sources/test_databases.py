"""Databases as sources, without one: how reads are divided, names quoted, probes filled."""

from __future__ import annotations

import datetime as dt
import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpoint.errors import DefinitionError, PermanentError, SetpointError, TransientError
from setpoint.model.secret import Secret
from setpoint.model.slice import SliceRule
from setpoint.model.window import Window
from setpoint.sources.database.dialect import Dialect, shown
from setpoint.sources.database.division import Part, divided, stretches
from setpoint.sources.database.probe import filled, fingerprint_of
from setpoint.sources.database.relation import Relation
from setpoint.sources.postgres import constant
from setpoint.spark.failures import explain
from setpoint.spark.workers import MARK
from setpoint.targets.postgres.names import TableName

DAY = Window.parse("2026-04-25")
RULE = SliceRule("at", "timestamp")


def table(blocks: int, *indexed: str) -> Relation:
    return Relation(TableName("public", "t"), 1, "table", (), blocks, frozenset(indexed), {})


@given(
    start=st.datetimes(dt.datetime(2000, 1, 1), dt.datetime(2050, 1, 1)),  # noqa: DTZ001
    seconds=st.integers(1, 100_000),
    most=st.integers(1, 64),
)
def test_stretches_of_time_meet_without_gaps_or_overlaps(
    start: dt.datetime, seconds: int, most: int
) -> None:
    end = start + dt.timedelta(seconds=seconds)
    found = stretches(start, end, most)
    assert found[0][0] == start
    assert found[-1][1] == end
    assert all(one[1] == other[0] for one, other in pairwise(found))
    assert all(low < high for low, high in found)
    assert len(found) <= most


@given(blocks=st.integers(1, 300_000), tasks=st.integers(1, 32), version=st.integers(13, 18))
def test_every_block_is_read_by_exactly_one_task(blocks: int, tasks: int, version: int) -> None:
    """Also a block that was added after the blocks were counted."""
    division = divided(table(blocks), Part("true"), tasks, version)
    assert 1 <= len(division) <= tasks
    owned: list[tuple[float, float]] = []
    for conditions in division:
        for text in conditions:
            low = re.search(r"ctid >= '\((\d+),0\)'", text)
            high = re.search(r"ctid < '\((\d+),0\)'", text)
            owned.append((int(low[1]) if low else 0, int(high[1]) if high else float("inf")))
    owned.sort()
    assert owned[0][0] == 0
    assert owned[-1][1] == float("inf")
    assert all(one[1] == other[0] for one, other in pairwise(owned))
    if version < 14:
        assert sum(map(len, division)) <= tasks  # each range costs a scan of the whole table


def test_a_window_is_divided_by_time_where_an_index_finds_it() -> None:
    part = Part("clip", RULE, DAY)
    by_time = divided(table(9000, "at"), part, 2, 18)
    assert [len(conditions) for conditions in by_time] == [4, 4]
    assert all("ctid" not in text for conditions in by_time for text in conditions)
    # Without an index each stretch would cost a scan of the table; a day of dates is one value.
    assert "ctid" in divided(table(9000), part, 2, 18)[0][0]
    day = Part("clip", SliceRule("at", "date"), DAY)
    assert "ctid" in divided(table(9000, "at"), day, 2, 18)[0][0]


def test_what_has_no_blocks_is_read_by_one_query() -> None:
    """Two queries of a view or of a foreign table need not see the same rows."""
    assert divided(table(0, "at"), Part("clip", RULE, DAY), 8, 18) == [["clip"]]


@pytest.mark.parametrize(
    ("url", "quoted", "moment"),
    [
        ("jdbc:derby:memory:x", '"a""b"', "{ts '2026-04-25 00:00:00'}"),
        ("jdbc:mysql://h/d", '`a"b`', "{ts '2026-04-25 00:00:00'}"),
        ("jdbc:sqlserver://h;databaseName=d", '[a"b]', "{ts '2026-04-25 00:00:00'}"),
        ("jdbc:snowflake://h/", '"a""b"', "TIMESTAMP '2026-04-25 00:00:00'"),
        ("jdbc:sqlite:/x.db", '"a""b"', "'2026-04-25 00:00:00'"),
    ],
)
def test_names_and_times_are_written_as_the_database_reads_them(
    url: str, quoted: str, moment: str
) -> None:
    dialect = Dialect.of(url)
    assert dialect.quote('a"b') == quoted
    assert dialect.constant("timestamp_ntz", dt.datetime(2026, 4, 25)) == moment  # noqa: DTZ001
    assert dialect.constant("string", "it's") == "'it''s'"
    instant = dialect.constant("timestamp", dt.datetime(2026, 4, 25, tzinfo=dt.timezone.utc))
    assert "+00:00" in instant or "1777075200" in instant
    assert dialect.constant("long", "20260425") == "20260425"


def test_a_moment_keeps_its_offset_in_postgresql_behind_jdbc() -> None:
    """TIMESTAMP '...+00' would drop it there, and the session's zone would count."""
    midnight = dt.datetime(2026, 4, 25, tzinfo=dt.timezone.utc)
    written = Dialect("postgresql").constant("timestamp", midnight)
    assert written == "CAST('2026-04-25 00:00:00+00:00' AS TIMESTAMP WITH TIME ZONE)"


def test_a_name_by_jdbc_is_one_table_and_nothing_else() -> None:
    dialect = Dialect("derby")
    assert dialect.table("APP.ORDERS") == '"APP"."ORDERS"'
    assert dialect.table('"my.schema"."o""x; DROP TABLE t"') == '"my.schema"."o""x; DROP TABLE t"'
    assert Dialect("mysql").table("shop.o`x") == "`shop`.`o``x`"
    for wrong in ("", "a.", ".a", 'a"b', "a.b.c.d", '"a"b'):
        with pytest.raises(DefinitionError, match="SP-D07"):
            dialect.table(wrong)


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("jdbc:mysql://h:3306/shop?user=me&password=hush", "jdbc:mysql://h:3306/shop"),
        ("jdbc:sqlserver://h;databaseName=d;password=hush", "jdbc:sqlserver://h"),
        ("jdbc:oracle:thin:me/hush@//h:1521/s", "jdbc:oracle:thin://h:1521/s"),
        ("jdbc:mysql://me:hush@h/shop", "jdbc:mysql://h/shop"),
        ("jdbc:mysql://me:a/hush@h/shop", "jdbc:mysql://h/shop"),
        ("jdbc:mysql://me:a@hush@h/shop", "jdbc:mysql://h/shop"),
        ("jdbc:mysql://me:1234?hush@h/shop", "jdbc:mysql:"),
        ("jdbc:mysql://h/shop?password=a@hush", "jdbc:mysql://h/shop"),
        ("jdbc:mysql://address=(host=h)(user=me)(password=hush)/shop", "jdbc:mysql://h"),
        ("jdbc:mysql://(host=h,user=me,password=hush)/shop", "jdbc:mysql://h"),
        ("jdbc:mysql:replication://me:hush@h1,h2/shop", "jdbc:mysql://h1,h2/shop"),
        ("jdbc:oracle:thin:me/hush@tcps://h:1521/s", "jdbc:oracle:thin:tcps://h:1521/s"),
        ("jdbc:oracle:thin:me/hush@(ADDRESS=(HOST=h)(PORT=1))", "jdbc:oracle:thin://h"),
        ("jdbc:sqlserver://h:1433;user=me;password={a;hush}", "jdbc:sqlserver://h:1433"),
        ("jdbc:teradata://h/DATABASE=d,USER=me,PASSWORD=hush", "jdbc:teradata://h"),
        ("jdbc:teradata://h/PASSWORD=hush", "jdbc:teradata://h"),
        ("jdbc:db2://h:50000/shop:password=hush;user=me;", "jdbc:db2://h:50000/shop"),
        ("jdbc:snowflake://a.b/?private_key_pwd=hush&db=d", "jdbc:snowflake://a.b/"),
        ("jdbc:redshift://h:5439/d?AccessKeyID=a&SecretAccessKey=hush", "jdbc:redshift://h:5439/d"),
        ("jdbc:databricks://h:443/d;AuthMech=3;UID=token;PWD=hush", "jdbc:databricks://h:443/d"),
        ("jdbc:derby:memory:shop;user=me;password=hush", "jdbc:derby:memory:shop"),
    ],
)
def test_a_jdbc_url_is_shown_without_its_password(url: str, seen: str) -> None:
    assert shown(url) == seen
    password = re.sub(r".*?([=:/{])((?:a[;@/]|1234\?)?hush).*", r"\2", url)
    told = Secret(url, whole=False).scrubbed(f"cannot connect to {url}, not with {password} either")
    assert "hush" in password
    assert "hush" not in told


def test_a_probe_is_filled_with_constants_of_the_time_columns_type() -> None:
    berlin = Window.parse("2026-03-29", timezone="Europe/Berlin")
    probe = "SELECT '{a,b}', {start}, {end}, {date};"
    dates = filled(probe, berlin, SliceRule("d", "date"), constant)
    assert dates == "SELECT '{a,b}', DATE '2026-03-29', DATE '2026-03-30', DATE '2026-03-29'"
    moments = filled("{start} {end}", berlin, SliceRule("d", "timestamp"), constant)
    assert moments == (
        "TIMESTAMPTZ '2026-03-28 23:00:00+00:00' TIMESTAMPTZ '2026-03-29 22:00:00+00:00'"
    )
    assert filled("{start}", berlin, None, constant).startswith("TIMESTAMPTZ")
    names = filled("{start} {end}", berlin, SliceRule("d", "string"), constant)
    assert names == "E'2026-03-29' E'2026-03-30'"
    numbers = filled("{start} {end}", berlin, SliceRule("d", "long"), constant)
    assert numbers == "20260329 20260330"
    incremental = Window.parse("incremental", every="incremental")
    with pytest.raises(DefinitionError, match=r"SP-D07.*\{start\}"):
        filled("SELECT {start}", incremental, None, constant)


def test_the_answer_of_a_probe_is_its_rows_in_any_order() -> None:
    def of(*rows: tuple[Any, ...], probe: str = "SELECT") -> str:
        return fingerprint_of("rows", "orders", probe, rows)

    assert of((1, "a"), (2, None)) == of((2, None), (1, "a"))
    assert of((1,)) != of((2,))
    assert of((None,)) != of(("None",))
    assert of((1,)) != of((1,), probe="SELECT count(*)")
    with pytest.raises(PermanentError, match=r"SP-R01.*returned no row"):
        of()


@pytest.mark.parametrize(
    ("state", "said", "kind", "code"),
    [
        ("42704", 'ERROR: snapshot "1-2" does not exist . SQLSTATE: 42704', "Transient", "SP-R04"),
        ("22023", 'ERROR: invalid snapshot identifier: "1-2"', "Transient", "SP-R04"),
        ("57P01", "FATAL: terminating connection", "Transient", "SP-R01"),
        ("", "server closed the connection unexpectedly", "Transient", "SP-R01"),
        ("42501", "ERROR: permission denied for table t", "Permanent", "SP-R01"),
        ("22007", 'invalid input: "unreadable: at = infinity"', "Permanent", "SP-R01"),
    ],
)
def test_what_a_task_says_is_found_in_what_spark_says(
    state: str, said: str, kind: str, code: str
) -> None:
    body = {"label": "the source a", "state": state, "said": said, "column": "", "kind": "E"}
    text = f"Job aborted\nRuntimeError: {MARK}{json.dumps(body)}\n\tat org.apache.spark"
    error: SetpointError = explain(RuntimeError(text), "staging")
    expected = {"Transient": TransientError, "Permanent": PermanentError}[kind]
    assert (type(error), error.code) == (expected, code)
    assert "SQLSTATE" not in error.what
