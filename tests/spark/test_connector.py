"""The Delta connector: the same rows as deltalake sees, and the tables it alone can write."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from setpoint import RefusedError, Window, delta, source

if TYPE_CHECKING:
    pass

DAY = dt.date(2026, 4, 25)
AFTER = DAY + dt.timedelta(1)
A = [(1, 1.5, DAY), (2, 2.5, DAY)]
B = [(1, 9.0, DAY), (3, 3.0, DAY)]
N = [(9, 9.0, AFTER)]


@pytest.fixture(autouse=True)
def _connector(has_delta_connector: bool) -> None:
    if not has_delta_connector:
        pytest.skip("the Delta connector's jars are not cached")


def load(lab: Any, place: str = "out") -> list[tuple[Any, ...]]:
    frame = lab.spark.read.format("delta").load(str(lab.root / place))
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def create(lab: Any, settings: str = "", partitioned: str = "PARTITIONED BY (d)") -> None:
    place = lab.root / "out"
    options = f"TBLPROPERTIES ({settings})" if settings else ""
    lab.spark.sql(
        f"CREATE TABLE delta.`{place}` (id INT, amount DOUBLE, d DATE) "
        f"USING delta {partitioned} {options}"
    )


def test_both_readers_see_the_same_rows(lab: Any) -> None:
    """After publishes, replacements and an empty slice, deltalake and the connector agree."""
    for rows in (A, [], B):
        lab.run(lab.job(rows))
        lab.run(lab.job(N), "2026-04-26")
        assert load(lab) == sorted([*rows, *N])
        assert lab.rows() == load(lab)


def test_both_readers_agree_on_hostile_partitions(lab: Any) -> None:
    """Escaped folders are found by both, and a partition filter finds each value."""
    values = ["a b", "a/b", "100%", "a%2Fb", "ä€𐍈", "x=y", "#?&+", "[a]{b}*", "it's", None, "00123"]
    place = delta("out", partition_by=("d", "region"))
    rows = [(number, DAY, value) for number, value in enumerate(values)]
    lab.run(lab.job(rows, "id int, d date, region string", target=place))
    assert load(lab) == sorted(rows, key=repr)
    frame = lab.spark.read.format("delta").load(str(lab.root / "out"))
    for number, value in enumerate(values):
        if value is not None:
            found = frame.where(frame.region == value).collect()
            assert [row.id for row in found] == [number]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_both_readers_agree_on_time_partitions(lab: Any, kind: str) -> None:
    """Instants with microseconds are the same values for both, and filters find them."""
    zone = dt.timezone.utc if kind == "timestamp" else None
    moments = [
        dt.datetime(2026, 4, 25, 13, 0, tzinfo=zone),
        dt.datetime(2026, 4, 25, 13, 59, 59, 500000, tzinfo=zone),
        dt.datetime(2026, 4, 25, 13, 0, 0, 1, tzinfo=zone),
    ]
    rows = list(enumerate(moments))
    place = delta("out", partition_by="t")
    lab.run(lab.job(rows, f"id int, t {kind}", every="hour", target=place), "2026-04-25T13")
    assert {row[0]: row[1] for row in lab.rows()} == dict(rows)
    frame = lab.spark.read.format("delta").load(str(lab.root / "out"))
    assert sorted(row.id for row in frame.collect()) == [0, 1, 2]
    literal = kind.upper()
    zone_text = "+00:00" if zone else ""
    bound = f"{literal}'2026-04-25 13:00:00.000001{zone_text}'"
    assert [row.id for row in frame.where(f"t = {bound}").collect()] == [2]
    assert sorted(row.id for row in frame.where(f"t >= {bound}").collect()) == [1, 2]


FEATURES = {
    "deletion vectors": "'delta.enableDeletionVectors' = 'true'",
    "column mapping, change data feed and row tracking": (
        "'delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true', "
        "'delta.enableRowTracking' = 'true'"
    ),
}


@pytest.mark.parametrize("feature", FEATURES)
def test_tables_with_features_are_served_by_the_connector(lab: Any, feature: str) -> None:
    """Replace, empty, repeat and heal: the same promises through replaceWhere."""
    create(lab, FEATURES[feature])
    lab.run(lab.job(N), "2026-04-26")
    lab.run(lab.job(A))
    version = lab.version()
    assert lab.run(lab.job(A)).state == "unchanged"
    assert lab.version() == version
    assert load(lab) == sorted([*A, *N])
    again = lab.run(lab.job(list(reversed(A))))
    assert again.only_receipt
    assert load(lab) == sorted([*A, *N])
    lab.run(lab.job(B))
    assert load(lab) == sorted([*B, *N])
    assert lab.run(lab.job(N), "2026-04-26").state == "unchanged"
    lab.spark.sql(f"DELETE FROM delta.`{lab.root / 'out'}` WHERE id = 3")
    assert lab.run(lab.job(B)).state == "published"
    lab.run(lab.job([]))
    assert load(lab) == N
    state = lab.state(lab.job([]))
    assert (state.generation, state.receipt.rows, state.untouched) == (5, 0, True)
    # With deletion vectors somebody else's DELETE may have touched any file without renaming it.
    expected = "published" if feature == "deletion vectors" else "unchanged"
    assert lab.run(lab.job(N), "2026-04-26").state == expected
    assert load(lab) == N
    assert lab.stages() == []


def test_deletion_vectors_switched_on_later_hide_no_delete(lab: Any) -> None:
    """A deletion vector keeps the file's name; the missing row is noticed all the same."""
    spark = lab.spark

    def one_file(window: Window) -> Any:
        return spark.createDataFrame(A, "id int, amount double, d date").coalesce(1)

    job = lab.define(one_file)
    lab.run(job)
    place = lab.root / "out"
    lab.spark.sql(
        f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    assert lab.run(job).state == "unchanged"
    lab.spark.sql(f"DELETE FROM delta.`{place}` WHERE id = 1")
    assert load(lab) == [A[1]]
    assert lab.run(job).state == "published"
    assert load(lab) == sorted(A)


def test_a_delete_by_deletion_vector_in_a_source_is_a_changed_input(lab: Any) -> None:
    """The rows of the input changed although its file names did not."""
    place = lab.root / "lake"
    lab.spark.sql(
        f"CREATE TABLE delta.`{place}` (id INT, amount DOUBLE, d DATE) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    frame = lab.spark.createDataFrame([*A, *N], "id int, amount double, d date").coalesce(1)
    frame.write.format("delta").mode("append").save(str(place))

    def copied(window: Window, lake: Any = source(delta("lake"), time="d")) -> Any:
        return lake

    job = lab.define(copied)
    lab.run(job)
    assert load(lab) == sorted(A)
    lab.spark.sql(f"DELETE FROM delta.`{place}` WHERE id = 1")
    assert lab.run(job).state == "published"
    assert load(lab) == [A[1]]


def test_a_check_constraint_is_kept(lab: Any) -> None:
    """Rows that the table forbids are refused; the slice keeps its old rows."""
    create(lab)
    lab.spark.sql(
        f"ALTER TABLE delta.`{lab.root / 'out'}` ADD CONSTRAINT positive CHECK (amount > 0)"
    )
    lab.run(lab.job(A))
    with pytest.raises(RefusedError) as caught:
        lab.run(lab.job([(1, -1.0, DAY)]))
    assert caught.value.code == "SP-T03"
    assert load(lab) == sorted(A)
    assert lab.state(lab.job(A)).generation == 1


@pytest.mark.parametrize("existing", [True, False])
def test_an_unpartitioned_table_is_sliced_on_its_time_column(lab: Any, existing: bool) -> None:
    """Rows of two windows share files; each publish replaces its own rows only."""
    place = delta("out", time="d")
    if existing:
        create(lab, partitioned="")
        frame = lab.spark.createDataFrame([*B, *N], "id int, amount double, d date")
        frame.coalesce(1).write.format("delta").mode("append").save(str(lab.root / "out"))
    lab.run(lab.job(A, target=place))
    if not existing:
        lab.run(lab.job(N, target=place), "2026-04-26")
    assert load(lab) == sorted([*A, *N])
    assert lab.run(lab.job(A, target=place)).state == "unchanged"
    if not existing:
        return
    lab.run(lab.job([], target=place))
    assert load(lab) == N
    lab.run(lab.job(A, target=place))
    lab.spark.sql(f"UPDATE delta.`{lab.root / 'out'}` SET amount = 0 WHERE id = 2")
    assert lab.run(lab.job(A, target=place)).state == "published"
    assert load(lab) == sorted([*A, *N])


def test_an_unpartitioned_table_refuses_a_row_outside(lab: Any) -> None:
    """The row is refused before the connector is asked."""
    place = delta("out", time="d")
    lab.run(lab.job(A, target=place))
    with pytest.raises(RefusedError) as caught:
        lab.run(lab.job([*A, *N], target=place))
    assert caught.value.code == "SP-O02"
    assert load(lab) == sorted(A)


def test_evolve_through_the_connector(lab: Any) -> None:
    """The new column arrives with its rows; neighbours read null."""
    create(lab, FEATURES["deletion vectors"])
    place = delta("out", partition_by="d", evolve="add")
    lab.run(lab.job(N, target=place), "2026-04-26")
    wider = "id int, amount double, d date, note string"
    lab.run(lab.job([(1, 1.0, DAY, "n")], wider, target=place))
    assert load(lab) == [(1, 1.0, DAY, "n"), (9, 9.0, AFTER, None)]
    assert lab.run(lab.job([(1, 1.0, DAY, "n")], wider, target=place)).state == "unchanged"


def test_a_lost_answer_of_the_connector_is_settled(lab: Any) -> None:
    """The receipt is in the log: the run ends well and publishes once."""
    create(lab, FEATURES["deletion vectors"])
    outcome = lab.run(lab.job(A), fault="committed:lose")
    assert outcome.state == "published"
    assert load(lab) == sorted(A)
    assert lab.state(lab.job(A)).generation == 1
    assert lab.run(lab.job(A)).state == "unchanged"


def test_optimize_and_restore_by_the_connector(lab: Any) -> None:
    """OPTIMIZE leaves a window unchanged, RESTORE does not."""
    place = lab.root / "out"
    spark = lab.spark

    def spread(window: Window) -> Any:
        return spark.createDataFrame(A, "id int, amount double, d date").repartition(2)

    job = lab.define(spread)
    lab.run(lab.job(B))
    lab.run(job)
    lab.spark.sql(f"OPTIMIZE delta.`{place}`")
    assert lab.run(job).state == "unchanged"
    lab.spark.sql(f"RESTORE TABLE delta.`{place}` TO VERSION AS OF 0")
    assert load(lab) == sorted(B)
    assert lab.run(job).state == "published"
    assert load(lab) == sorted(A)


def test_vacuum_keeps_what_is_live(lab: Any) -> None:
    """VACUUM sees our folders: it removes orphans and replaced files, and no live one."""
    lab.run(lab.job(A))
    lab.run(lab.job(B))
    lab.run(lab.job(N), "2026-04-26")
    orphan = lab.root / "out" / "setpoint" / "job" / "2026-04-25" / "dead" / "part-0.parquet"
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(Path(next(iter(lab.live()))).read_bytes())
    lab.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        lab.spark.sql(f"VACUUM delta.`{lab.root / 'out'}` RETAIN 0 HOURS")
    finally:
        lab.spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert not orphan.exists()
    assert load(lab) == sorted([*B, *N])
    assert lab.run(lab.job(B)).state == "unchanged"


def test_a_table_by_its_catalog_name(lab: Any) -> None:
    """The catalog says where the table lives; the rest is the same."""
    lab.spark.sql("DROP TABLE IF EXISTS by_name")
    lab.spark.sql(
        "CREATE TABLE by_name (id INT, amount DOUBLE, d DATE) USING delta PARTITIONED BY (d)"
    )
    place = delta(table="by_name", partition_by="d")
    try:
        for rows in (A, B):
            lab.run(lab.job(rows, target=place))
            found = lab.spark.table("by_name").collect()
            assert sorted(tuple(row) for row in found) == sorted(rows)
        assert lab.run(lab.job(B, target=place)).state == "unchanged"
    finally:
        lab.spark.sql("DROP TABLE IF EXISTS by_name")


def test_a_writer_that_is_not_ours_finds_a_sound_table(lab: Any) -> None:
    """The connector can append, merge and delete in a table that setpoint made."""
    lab.run(lab.job(A))
    place = str(lab.root / "out")
    frame = lab.spark.createDataFrame(N, "id int, amount double, d date")
    frame.write.format("delta").mode("append").save(place)
    lab.spark.sql(f"UPDATE delta.`{place}` SET amount = 7 WHERE id = 9")
    assert load(lab) == sorted([*A, (9, 7.0, AFTER)])
    assert lab.run(lab.job(A)).state == "unchanged"


def test_an_append_that_slips_in_while_the_connector_writes_is_noticed(lab: Any) -> None:
    """Blind appends do not conflict with replaceWhere; the window must not call itself untouched.

    The append happens while the connector's commit is under way: between its look at the table
    and its own version.
    """
    create(lab, FEATURES["deletion vectors"])
    lab.run(lab.job([(5, 5.0, DAY)]))
    place = str(lab.root / "out")
    read_version = lab.version()
    frame = lab.spark.createDataFrame([(66, 6.0, DAY)], "id int, amount double, d date")
    job = lab.job(A)
    lab.run(job)
    log = lab.root / "out" / "_delta_log"
    ours = log / f"{read_version + 1:020d}.json"
    # The same race, in slow motion: our commit moves up one version, the append takes its place.
    text = ours.read_text()
    ours.unlink()
    for stale in log.glob("*.crc"):
        stale.unlink()
    for stale in log.glob("*.checkpoint*"):
        stale.unlink()
    lab.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    frame.write.format("delta").mode("append").save(place)
    (log / f"{read_version + 2:020d}.json").write_text(text)
    for stale in log.glob("*.crc"):
        stale.unlink()
    lab.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert len(load(lab)) == 3
    assert lab.run(job).state == "published"
    assert load(lab) == sorted(A)
