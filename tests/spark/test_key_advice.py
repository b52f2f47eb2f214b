"""What key advice tells about real tables: keys, near keys, and ids that come back."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from setpoint.check.keys import Advice, KeyQuestion, advise
from setpoint.check.verdict import verdict, warnings
from setpoint.errors import UsageError
from setpoint.sources.existing import open_table
from setpoint.spark.engine import SparkEngine
from setpoint.spark.session import Sessions
from setpoint.targets.delta.storage import Storage

pytestmark = pytest.mark.usefixtures("spark")


def look(path: Path, **question: Any) -> Advice:
    """Ask with the session that is active."""
    table = open_table(str(path), None, Storage.at(str(path)))
    with Sessions() as sessions:
        return advise(table, KeyQuestion(**question), SparkEngine(sessions))


def stored(path: Path, **columns: Any) -> Path:
    write_deltalake(str(path), pa.table(columns), mode="append")
    return path


def keys(advice: Advice) -> list[tuple[str, ...]]:
    return [item.columns for item in advice.found.keys]


def day(number: int) -> dt.date:
    return dt.date(2026, 4, 1) + dt.timedelta(days=number)


def test_a_single_column_is_found(tmp_path: Path) -> None:
    """An id that is unique and complete is a key, before others that happen to be unique."""
    place = stored(
        tmp_path / "t",
        note=[f"text {i}" for i in range(300)],
        order_id=list(range(300)),
        amount=[float(i) for i in range(300)],
        region=["EU", "US"] * 150,
    )
    advice = look(place)
    assert keys(advice)[0] == ("order_id",)
    assert ("amount",) not in keys(advice)
    assert verdict(advice)[0] == "order_id is a key: unique in 300 rows, no nulls."
    assert not advice.is_no


def test_a_minimal_pair_is_found_and_nothing_longer(tmp_path: Path) -> None:
    """No single column is unique; the pair is; sets that hold it are not listed."""
    place = stored(
        tmp_path / "t",
        shop=[i // 20 for i in range(400)],
        receipt_no=[i % 20 for i in range(400)],
        colour=["red", "blue"] * 200,
        weight=[Decimal(i % 7) for i in range(400)],
    )
    assert keys(look(place)) == [("shop", "receipt_no")]


def test_three_columns(tmp_path: Path) -> None:
    """A key of three columns, none of whose pairs comes near."""
    place = stored(
        tmp_path / "t",
        a=[i // 100 for i in range(1000)],
        b=[i // 10 % 10 for i in range(1000)],
        c=[i % 10 for i in range(1000)],
        d=[i % 3 for i in range(1000)],
    )
    assert ("a", "b", "c") in keys(look(place))


def test_an_estimate_is_never_taken_for_a_count(tmp_path: Path) -> None:
    """One duplicate among 20,000 rows is beyond any estimate, and is found."""
    ids = [*range(19_999), 7]
    advice = look(stored(tmp_path / "t", order_id=ids, n=[i % 5 for i in range(20_000)]))
    assert ("order_id",) not in keys(advice)
    assert advice.judged is not None
    assert (advice.judged.columns, advice.judged.surplus) == (("order_id",), 1)
    assert [e["key"] for e in advice.judged.examples] == [{"order_id": 7}]
    assert verdict(advice)[1].startswith("order_id + n is unique, but that may be chance")


def test_a_retry_that_appended_does_not_hide_the_key(tmp_path: Path) -> None:
    """Where rows are there twice, the columns that would be a key without them are named."""
    place = tmp_path / "t"
    for n in (180, 250):
        stored(place, order_id=list(range(n)), amount=[i % 7 for i in range(n)])
    advice = look(place)
    assert keys(advice) == []
    assert advice.judged is not None
    assert (advice.judged.columns, advice.judged.surplus) == (("order_id",), 180)
    assert verdict(advice)[0] == (
        "order_id is not a key: 430 rows, 250 distinct values, 180 surplus "
        "(identical in all columns: looks like a retry that appended)."
    )
    assert "repeat others" in verdict(advice)[1]


def test_a_load_stamp_makes_no_key(tmp_path: Path) -> None:
    """Two loads that differ in loaded_at only: the id is still what the rows are about."""
    place = tmp_path / "t"
    for hour, n in ((1, 180), (2, 250)):
        stamp = dt.datetime(2026, 4, 25, hour, tzinfo=dt.timezone.utc)
        stored(place, order_id=list(range(n)), loaded_at=[stamp] * n)
    advice = look(place)
    assert advice.judged is not None
    assert advice.judged.columns == ("order_id",)
    assert "different only in loaded_at: looks like a retry that appended" in verdict(advice)[0]


def test_a_generated_id_is_unique_and_no_key(tmp_path: Path) -> None:
    """A UUID of the pipeline's own hides duplicates: it is told, and the rest is looked at."""
    rows = [i % 200 for i in range(300)]
    made = [str(uuid.UUID(int=i * 7919)) for i in range(300)]
    advice = look(stored(tmp_path / "t", row_id=made, customer=rows, status=["new"] * 300))
    assert ("row_id",) in keys(advice)
    assert advice.judged is not None
    assert advice.judged.columns == ("customer",)
    asked = look(tmp_path / "t", key=("row_id",))
    assert not asked.is_no
    assert "does not say what a row is about: without it, about" in verdict(asked)[0]
    assert "looks generated" in warnings(asked)[0]


def test_a_given_key_with_nulls_is_refused_with_examples(tmp_path: Path) -> None:
    """Nulls are counted per part; the better key is named."""
    place = stored(
        tmp_path / "t",
        id=list(range(100)),
        email=[None if i < 4 else f"{i}@example.org" for i in range(100)],
        tag=[None] * 2 + ["a"] * 98,
    )
    advice = look(place, key=("email", "tag"))
    assert advice.is_no
    assert advice.judged is not None
    assert (advice.judged.null_rows, advice.judged.nulls) == (4, {"email": 4, "tag": 2})
    assert len(advice.judged.null_examples) == 4
    assert verdict(advice)[:2] == [
        "email + tag is not a key: 4 rows with a null in it (4 in email, 2 in tag).",
        "id is a key: unique in 100 rows, no nulls.",
    ]


def test_a_given_key_that_is_too_long(tmp_path: Path) -> None:
    """A key is told when a part of it would do."""
    place = stored(tmp_path / "t", id=list(range(50)), region=["EU", "US"] * 25)
    advice = look(place, key=("id", "region"))
    assert not advice.is_no
    assert verdict(advice)[1] == "id alone is enough."


def history(place: Path) -> Path:
    """Forty orders; 20 come back on the next day, and 15 of those with another status."""
    for number in range(2):
        ids = list(range(40)) if number == 0 else list(range(20))
        stored(
            place,
            order_id=ids,
            customer=[i % 7 for i in ids],
            status=["new" if number == 0 or i >= 15 else "paid" for i in ids],
            updated_at=[dt.datetime(2026, 4, 1 + number, 12, tzinfo=dt.timezone.utc) for _ in ids],
            d=[day(number)] * len(ids),
        )
    return place


def test_an_id_that_comes_back_with_other_attributes(tmp_path: Path) -> None:
    """How many come back, what changes, what never does, an example, and the pattern to use."""
    advice = look(history(tmp_path / "t"), key=("order_id",), time="d")
    assert advice.is_no
    assert advice.stability is not None
    seen = advice.stability.seen
    assert seen is not None
    assert (seen.keys, seen.changed_keys, seen.changed) == (20, 15, (("status", 15),))
    assert seen.constant == ("customer",)
    assert [row["status"] for row in advice.stability.example] == ["new", "paid"]
    told = verdict(advice)
    assert told[1] == "order_id + d is a key: unique in 60 rows, no nulls."
    assert told[2] == (
        "order_id is unique within each day and comes back in others: 20 values, 15 of them with "
        "another status. Never changing: customer."
    )
    assert 'Merge(key="order_id", sequence_by="updated_at")' in told[3]
    assert 'unique("order_id", "d")' in told[3]


def test_the_time_of_a_key_is_found_in_the_partitions(tmp_path: Path) -> None:
    """A partition column that tells time needs no --time; the id without it is judged."""
    for number in range(2):
        folder = tmp_path / "t" / f"d={day(number)}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": list(range(30)), "v": [1] * 30}), folder / "a.parquet")
    advice = look(tmp_path / "t")
    assert keys(advice) == [("id", "d")]
    assert advice.stability is not None
    assert advice.stability.columns == ("id",)
    assert "30 values, always with the same attributes." in verdict(advice)[1]
    assert 'InsertNew(key="id")' in verdict(advice)[2]


def test_a_recycled_id_is_seen(tmp_path: Path) -> None:
    """After a pause one id stands for somebody else: everything that was fixed has changed."""
    place = tmp_path / "t"
    for number in (0, 1, 2, 9):
        ids = list(range(30)) if number != 2 else list(range(1, 30))
        other = number == 9
        stored(
            place,
            id=ids,
            name=["Zoe" if other and i == 0 else f"name {i}" for i in ids],
            born=[1999 if other and i == 0 else 1950 + i for i in ids],
            points=[i + number for i in ids],
            country=["DE"] * len(ids),
            d=[day(number)] * len(ids),
        )
    advice = look(place, key=("id",), time="d")
    assert advice.stability is not None
    seen = advice.stability.seen
    assert seen is not None
    assert (seen.recycled, seen.recycled_examples) == (1, ({"id": 0},))
    assert {row["name"] for row in advice.stability.recycled_example} == {"name 0", "Zoe"}
    told = next(text for text in verdict(advice) if text.startswith("Recycled"))
    assert "1 value, standing for something else after a pause (name, born)" in told


def test_several_rows_per_window_are_events(tmp_path: Path) -> None:
    """An id that has many rows on one day says who, and no advice to merge is given."""
    place = stored(
        tmp_path / "t",
        user=[i % 5 for i in range(100)],
        at=[
            dt.datetime(2026, 4, 1, tzinfo=dt.timezone.utc) + dt.timedelta(minutes=37 * i)
            for i in range(100)
        ],
    )
    advice = look(place, key=("user", "at"), time="at")
    assert not advice.is_no
    told = " ".join(verdict(advice))
    assert "it says who, not which row" in told
    assert "Merge" not in told
    alone = look(place, key=("at",), time="at")
    assert "two events with one timestamp" in warnings(alone)[0]


def test_floating_point_is_warned_of(tmp_path: Path) -> None:
    """A double may be asked about; it is unique here, and a bad idea."""
    advice = look(stored(tmp_path / "t", x=[i / 3 for i in range(20)]), key=("x",))
    assert not advice.is_no
    assert "floating point" in warnings(advice)[0]


def test_odd_columns_do_no_harm(tmp_path: Path) -> None:
    """Maps, structs, arrays, names with dots and backticks, a column of nulls."""
    place = stored(
        tmp_path / "t",
        **{
            "a.b`c": list(range(20)),
            "m": pa.array([[("k", i)] for i in range(20)], pa.map_(pa.string(), pa.int64())),
            "s": [{"x": i} for i in range(20)],
            "l": [[i] for i in range(20)],
            "nothing": pa.array([None] * 20, pa.string()),
            "one": ["same"] * 20,
        },
    )
    assert keys(look(place)) == [("a.b`c",)]
    with pytest.raises(UsageError) as caught:
        look(place, key=("m",))
    assert caught.value.code == "SP-T02"


def test_a_table_of_one_row(tmp_path: Path) -> None:
    """Every column is unique; the id is preferred."""
    assert keys(look(stored(tmp_path / "t", v=[1], id=[1])))[0] == ("id",)


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_an_empty_table_is_refused(tmp_path: Path, kind: str) -> None:
    """Nothing can be told from no rows."""
    empty = pa.table({"id": pa.array([], pa.int64())})
    if kind == "delta":
        write_deltalake(str(tmp_path / "t"), empty)
    else:
        (tmp_path / "t").mkdir()
        pq.write_table(empty, tmp_path / "t" / "a.parquet")
    with pytest.raises(UsageError) as caught:
        look(tmp_path / "t")
    assert (caught.value.code, caught.value.exit_code) == ("SP-K02", 2)


def test_no_key_at_all(tmp_path: Path) -> None:
    """Where nothing is unique and nothing is double in whole rows, that is the answer."""
    place = stored(
        tmp_path / "t",
        a=[i % 3 for i in range(200)],
        x=[i / 7 for i in range(200)],
    )
    advice = look(place)
    assert (keys(advice), advice.judged) == ([], None)
    assert verdict(advice)[0] == "No set of up to 4 columns without nulls is a key."
