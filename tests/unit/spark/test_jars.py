"""The cache of connector jars."""

from __future__ import annotations

from pathlib import Path

import pytest

from setpoint.errors import UNTOUCHED, UsageError
from setpoint.spark.jars import cache_dir, fetch, ivy_file, required, resolve


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SETPOINT_HOME", str(tmp_path))


def test_missing_jars_are_one_clear_line() -> None:
    """Jars that were never fetched give SP-S03 with the command that fetches them."""
    with pytest.raises(UsageError) as caught:
        resolve("delta")
    assert caught.value.code == "SP-S03"
    assert str(caught.value).endswith("setpoint doctor --fetch")
    # It may be met by the second window of a command, after the first was published.
    assert caught.value.state == UNTOUCHED
    assert "\n" not in str(caught.value)


def test_cached_jars_are_found_without_fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all jars in the cache neither resolve nor fetch needs Java or a network."""
    cache_dir().mkdir(parents=True)
    for jar in required("delta"):
        (cache_dir() / jar.file_name).write_bytes(b"")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert fetch("delta") == resolve("delta")
    assert all(path.is_file() for path in resolve("delta"))


def test_an_unknown_connector_names_the_setting() -> None:
    """A connector that is not known for this Spark says where jars can be named by hand."""
    with pytest.raises(UsageError, match="jars = "):
        required("hudi")


def test_ivy_is_asked_for_exactly_these_jars() -> None:
    """The request names every jar and refuses what it depends on."""
    text = ivy_file("delta", list(required("delta")))
    assert text.count("<dependency ") == text.count('transitive="false"') == len(required("delta"))


def test_no_fetch_without_java_and_nothing_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch that cannot start leaves an empty cache."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(UsageError, match="SP-S02"):
        fetch("delta")
    assert list(cache_dir().iterdir()) == []
