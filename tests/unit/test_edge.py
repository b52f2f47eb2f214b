"""The edge: clock, entropy, process identity."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from setpoint.edge import (
    is_alive,
    is_signed,
    new_attempt_id,
    process_identity,
    signature,
    utc_now,
)


def test_the_clock_is_in_utc() -> None:
    """The wall clock carries its zone, and that is UTC."""
    assert utc_now().utcoffset() == timedelta(0)


def test_attempt_ids_are_distinct_hexadecimal() -> None:
    """Attempt ids are 16 lowercase hexadecimal digits and do not repeat."""
    ids = {new_attempt_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch(r"[0-9a-f]{16}", name) for name in ids)


def test_this_process_is_alive() -> None:
    """A process finds itself alive by its recorded identity."""
    assert is_alive(*process_identity()) is True


def test_an_ended_process_is_not_alive() -> None:
    """An ended process is known to be dead, before and after its parent has waited for it."""
    script = "from setpoint.edge import process_identity; print(*process_identity())"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    output, _ = child.communicate()
    host, pid, *started = output.split()
    assert is_alive(host, int(pid), started[0] if started else "") is False


def test_a_reused_process_id_is_another_process() -> None:
    """The same process id with another start mark is not the recorded process."""
    host, pid, started = process_identity()
    assert not started or is_alive(host, pid, started + "0") is False


def test_another_host_cannot_be_asked() -> None:
    """Whether a process of another host lives cannot be told from here."""
    _, pid, started = process_identity()
    assert is_alive("another-host.invalid", pid, started) is None


def test_a_signature_is_this_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is made once, and nobody else can read it."""
    monkeypatch.setenv("SETPOINT_HOME", str(tmp_path / "mine"))
    mine = signature("text")
    assert is_signed("text", mine)
    assert not is_signed("other", mine)
    assert not is_signed("text", "")
    assert not is_signed("text", None)
    assert (tmp_path / "mine" / "key").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("SETPOINT_HOME", str(tmp_path / "theirs"))
    assert not is_signed("text", mine)


def test_a_key_that_others_can_read_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have come with a clone, and then others know it."""
    monkeypatch.setenv("SETPOINT_HOME", str(tmp_path))
    (tmp_path / "key").write_bytes(b"known to all")
    (tmp_path / "key").chmod(0o644)
    assert is_signed("text", signature("text"))
    assert (tmp_path / "key").read_bytes() != b"known to all"


def test_processes_that_need_a_key_at_once_get_the_same(tmp_path: Path) -> None:
    """Of several that make it, one wins."""
    ask = "from setpoint.edge import signature; print(signature('text'))"
    environment = {**os.environ, "SETPOINT_HOME": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", ask], stdout=subprocess.PIPE, env=environment)
        for _ in range(8)
    ]
    answers = {process.communicate()[0] for process in started}
    assert len(answers) == 1
    assert len(answers.pop().strip()) == 64
    assert os.listdir(tmp_path) == ["key"]
