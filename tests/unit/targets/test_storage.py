"""Places: what users and catalogs spell, and what lies there."""

from __future__ import annotations

from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from setpoint.targets.delta.storage import Storage


@pytest.mark.parametrize(
    ("given", "uri", "spark"),
    [
        ("/data/t", "/data/t", "/data/t"),
        ("/data/t/", "/data/t", "/data/t"),
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
