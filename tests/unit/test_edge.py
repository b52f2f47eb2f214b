"""The edge: clock, entropy, process identity."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import timedelta

from setpoint.edge import is_alive, new_attempt_id, process_identity, utc_now


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
