"""The configuration: found, read, and refused when a word in it is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from setpoint.errors import UsageError
from setpoint.project.config import find_config


def test_the_nearest_configuration_above_counts(tmp_path: Path) -> None:
    """As with git: from any folder of the project."""
    (tmp_path / "setpoint.toml").write_text('[pipelines]\npaths = "jobs"\n')
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    config = find_config(deep)
    assert (config.root, config.pipelines) == (tmp_path, ("jobs",))


def test_pyproject_serves_as_well(tmp_path: Path) -> None:
    """Under tool.setpoint; a pyproject.toml without it is passed over."""
    (tmp_path / "pyproject.toml").write_text("[tool.setpoint.retry]\ntries = 5\n")
    below = tmp_path / "below"
    below.mkdir()
    (below / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert find_config(below).tries == 5


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    """The folder itself is the root."""
    config = find_config(tmp_path)
    assert (config.file, config.root, config.tries) == (None, tmp_path, 3)


@pytest.mark.parametrize(
    "text",
    [
        "[spark]\nmastr = 'x'\n",
        "pipelines = 'x'\n",
        "[retry]\ntries = 0\n",
        "[retry]\ntries = true\n",
        "[retry]\nfirst_wait = 'soon'\n",
        "[pipelines]\npaths = 3\n",
        "[ledger]\nurl = ''\n",
        "[spark\n",
        "\udcff",
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str) -> None:
    """A setting that is silently ignored is worse than none."""
    (tmp_path / "setpoint.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError) as caught:
        find_config(tmp_path)
    assert caught.value.code == "SP-C03"


def test_an_explicit_file_must_exist(tmp_path: Path) -> None:
    """--config is not a wish."""
    with pytest.raises(UsageError):
        find_config(tmp_path, str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("", "/.setpoint/ledger.db"),
        ("[ledger]\nurl = 'sqlite:///x/l.db'\n", "/x/l.db"),
        ("[ledger]\nurl = 'sqlite:////abs/l.db'\n", "sqlite:////abs/l.db"),
        ("[ledger]\nurl = 'postgresql://h/db'\n", "postgresql://h/db"),
    ],
)
def test_the_ledger_lies_in_the_project(tmp_path: Path, text: str, end: str) -> None:
    """A relative path starts at the project's folder, not at the current one."""
    (tmp_path / "setpoint.toml").write_text(text)
    assert find_config(tmp_path).ledger_url.reveal().endswith(end)


def test_the_ledger_can_be_named_by_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password does not belong in a file that is committed; a missing variable is named."""
    (tmp_path / "setpoint.toml").write_text("[ledger]\nurl = 'env:LEDGER_URL'\n")
    monkeypatch.setenv("LEDGER_URL", "sqlite:///x/l.db")
    assert find_config(tmp_path).ledger_url.reveal().endswith(f"{tmp_path}/x/l.db")
    monkeypatch.delenv("LEDGER_URL")
    with pytest.raises(UsageError, match=r"LEDGER_URL is not set"):
        _ = find_config(tmp_path).ledger_url


def test_what_may_hold_a_password_cannot_be_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every section, written down or named; the values are there for whoever sends them."""
    (tmp_path / "setpoint.toml").write_text(
        '[ledger]\nurl = "postgresql://u:hush1@h/d"\n'
        '[connections]\na = "postgresql://u:hush2@h/d"\n'
        '[spark]\nremote = "sc://h:15002/;token=hush3"\njars = ["https://u:hush7@h/a.jar"]\n'
        '[spark.conf]\n"x.password" = "hush4"\n"x.cores" = 4\n"x.on" = true\n"y" = "env:KEY"\n'
        '[catalogs.lake]\nuri = "https://h"\ncredential = "hush5"\nwarehouse = "env:KEY"\n'
    )
    monkeypatch.setenv("KEY", "hush6")
    config = find_config(tmp_path)
    printed = f"{config} {config!r} {config.conf} {config.catalogs}"
    assert "hush" not in printed.replace("hush7", ""), "jars are paths, scrubbed when they are told"
    values = {name: value.reveal() for name, value in config.conf.items()}
    assert values == {"x.password": "hush4", "x.cores": "4", "x.on": "true", "y": "hush6"}
    assert config.catalogs["lake"]["warehouse"].reveal() == "hush6"
    assert config.remote.reveal().endswith("hush3")
    found = {part for secret in config.secrets for part in secret.parts()}
    assert {f"hush{number}" for number in range(1, 8)} <= found
