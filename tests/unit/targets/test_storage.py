"""Places: what users and catalogs spell, and what lies there."""

from __future__ import annotations

from multiprocessing.pool import ThreadPool
from pathlib import Path

import pyarrow as pa
import pytest

from setpoint.errors import PermanentError, RefusedError
from setpoint.targets.columns import refuse_twice
from setpoint.targets.delta.log import open_snapshot
from setpoint.targets.delta.storage import Storage


@pytest.mark.parametrize(
    ("given", "uri", "spark"),
    [
        ("/data/t", "/data/t", "/data/t"),
        ("/data/t/", "/data/t", "/data/t"),
        ("/data/a/../t", "/data/t", "/data/t"),
        ("/data/./t//", "/data/t", "/data/t"),
        ("file:/data/a%20b", "/data/a b", "/data/a b"),
        ("file:///data/t", "/data/t", "/data/t"),
        ("s3a://bucket/t", "s3://bucket/t", "s3a://bucket/t"),
        ("s3://bucket/t/", "s3://bucket/t", "s3a://bucket/t"),
        ("abfss://c@a.dfs.core.windows.net/t",) * 3,
        ("gs://bucket/t",) * 3,
    ],
)
def test_one_place_has_one_spelling(given: str, uri: str, spark: str) -> None:
    """For the log reader and for Spark."""
    storage = Storage.at(given)
    assert (storage.uri, storage.spark_path()) == (uri, spark)


def test_files_are_found_however_deep(tmp_path: Path) -> None:
    """Relative to the root, sorted, with their sizes."""
    (tmp_path / "a" / "b=1").mkdir(parents=True)
    (tmp_path / "a" / "b=1" / "x").write_bytes(b"123")
    (tmp_path / "a" / "y").write_bytes(b"1")
    storage = Storage.at(str(tmp_path))
    assert [(file.path, file.size) for file in storage.files("a")] == [("a/b=1/x", 3), ("a/y", 1)]
    assert storage.files("nowhere") == []
    assert Storage.at(str(tmp_path / "none")).entries() == []


def test_dropping_leaves_what_others_stage_beside_it(tmp_path: Path) -> None:
    """Attempts of one window come and go at once; none takes another's folder away."""
    storage = Storage.at(str(tmp_path))

    def attempt(number: int) -> bool:
        folder = f"setpoint/job/2026-04-25/{number}"
        for _ in range(50):
            place = tmp_path / folder
            place.mkdir(parents=True)
            (place / "part").write_bytes(b"x")
            storage.drop(folder)
            assert not place.exists()
        return True

    with ThreadPool(8) as pool:
        assert all(pool.map(attempt, range(8)))


def test_dropping_what_is_not_there_is_fine(tmp_path: Path) -> None:
    """A stage may be gone already."""
    Storage.at(str(tmp_path)).drop("setpoint/job/2026-04-25/gone")


def test_a_shallow_clone_is_refused_in_words(tmp_path: Path) -> None:
    """Its files lie in another table, and would be looked for below its own root."""
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path / "lake"), pa.table({"id": [1], "d": ["2026-04-25"]}))
    (tmp_path / "clone" / "_delta_log").mkdir(parents=True)
    name = "_delta_log/00000000000000000000.json"
    text = (tmp_path / "lake" / name).read_text()
    there = f'"path":"file:{tmp_path}/lake/part'
    (tmp_path / "clone" / name).write_text(text.replace('"path":"part', there))
    assert there in (tmp_path / "clone" / name).read_text()
    snapshot = open_snapshot(Storage.at(str(tmp_path / "clone")))
    assert snapshot is not None
    with pytest.raises(PermanentError, match=r"SP-T02.*is a shallow clone: 1 of its 1 file"):
        assert snapshot.files
    original = open_snapshot(Storage.at(str(tmp_path / "lake")))
    assert original is not None
    assert len(original.files) == 1


def test_names_that_differ_in_case_alone_are_refused_with_both() -> None:
    """Also for PostgreSQL, which tells them apart: Spark does not."""
    with pytest.raises(RefusedError, match=r"the name a occurs twice \(also as A"):
        refuse_twice("job[2026-04-25]", ["A", "b", "a"])
    with pytest.raises(RefusedError, match="the name a occurs twice"):
        refuse_twice("job[2026-04-25]", ["a", "a"])
    refuse_twice("job[2026-04-25]", ["a", "b"])
