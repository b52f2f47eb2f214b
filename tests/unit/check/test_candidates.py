"""The search for keys, over tables of a few columns that are counted here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from setpoint.check.candidates import Columns, Found, is_content, search
from setpoint.spark.profile import ColumnProfile

Rows = Mapping[str, Sequence[object]]


def distinct(table: Rows, columns: Columns) -> int:
    return len(set(zip(*(table[name] for name in columns), strict=True)))


def found(table: Rows, error: float = 0.0, time: str | None = None, **looks: str) -> Found:
    """Search with estimates that are off by `error`, and counts that are right."""
    rows = len(next(iter(table.values())))
    columns = [
        ColumnProfile(
            name,
            looks.get(name, "bigint"),
            nulls=sum(value is None for value in values),
            distinct=max(1, round(distinct(table, (name,)) * (1 + error))),
            generated=looks.get(name) == "uuid",
            moment=looks.get(name) == "timestamp",
        )
        for name, values in table.items()
    ]
    content = tuple(column.name for column in columns if is_content(column))
    return search(
        rows,
        distinct(table, content) if content else rows,
        columns,
        lambda sets: {names: round(distinct(table, names) * (1 + error)) for names in sets},
        lambda sets: {names: distinct(table, names) for names in sets},
        time=time,
    )


TABLES = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.tuples(*[st.integers(0, 3)] * width), min_size=2, max_size=12, unique=True
    )
)


@given(TABLES, st.sampled_from([-0.05, 0.0, 0.05]))
def test_what_is_called_a_key_is_unique_and_minimal(
    rows: list[tuple[int, ...]], error: float
) -> None:
    """Whatever the estimates say; and where rows differ, some key is found."""
    names = "abcd"[: len(rows[0])]
    table = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    keys = found(table, error).keys
    assert keys
    for key in keys:
        assert key.unique
        assert distinct(table, key.columns) == len(rows)
        for part in combinations(key.columns, len(key.columns) - 1):
            assert not part or distinct(table, part) < len(rows)


def test_an_estimate_alone_makes_no_key() -> None:
    """A column that is estimated as unique and is not is only near."""
    table = {"order_id": [*range(99), 7], "n": [i % 2 for i in range(100)]}
    answer = found(table, error=0.04)
    assert ("order_id",) not in [key.columns for key in answer.keys]
    assert ("order_id",) in [item.columns for item in answer.near]


def test_ids_come_first_and_the_time_before_other_attributes() -> None:
    """Of several keys the one that reads like a key is the first."""
    ids = [i // 2 for i in range(40)]
    table = {"a": [i % 2 for i in range(40)], "d": [i % 2 for i in range(40)], "order_id": ids}
    assert found(table).keys[0].columns == ("a", "order_id")
    assert found(table, time="d").keys[0].columns == ("d", "order_id")
    single = {"text": list(range(9)), "customer_no": list(range(9))}
    assert found(single).keys[0].columns == ("customer_no",)


def test_the_search_goes_on_past_generated_ids_and_load_stamps() -> None:
    """What any retry changes is unique, and a business key is looked for beside it."""
    table = {
        "row_id": list(range(40)),
        "loaded_at": list(range(40)),
        "shop": [i // 8 for i in range(40)],
        "receipt": [i % 8 for i in range(40)],
    }
    keys = [key.columns for key in found(table, row_id="uuid").keys]
    assert keys[0] == ("shop", "receipt")
    assert {("row_id",), ("loaded_at",)} <= set(keys)


def test_rows_that_are_there_twice_end_the_search() -> None:
    """Nothing can be unique then; the set with as many values as different rows is near."""
    table = {"id": [*range(30), *range(30)], "v": [i % 3 for i in range(30)] * 2}
    answer = found(table)
    assert answer.keys == ()
    assert answer.near[0].columns == ("id",)


def test_columns_with_nulls_are_left_out() -> None:
    """A key is there in every row."""
    table = {"email": [None, *range(9)], "n": list(range(10))}
    assert [key.columns for key in found(table).keys] == [("n",)]


def test_a_wide_table_is_not_searched_to_the_end() -> None:
    """Sixty sets of a size at most are estimated, and the answer says that there were more."""
    few = {f"c{i}": [(n >> i) % 2 for n in range(256)] for i in range(8)}
    assert found(few).tried_all
    wide = {f"c{i}": [n // 2 * (i + 3) % 20 for n in range(256)] for i in range(40)}
    assert not found({**wide, "half": [n % 2 for n in range(256)]}).tried_all
