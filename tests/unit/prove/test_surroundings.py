"""Other surroundings are really other ones, and nothing else than asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from setpoint import edge
from setpoint.prove.clock import LIBRARY, Clock, Reach, find_clock, shift_from
from setpoint.prove.surroundings import Factor, applied, factors

SEEN = """
import datetime, getpass, os, time
print(datetime.datetime.now(datetime.timezone.utc).isoformat())
print(time.strftime("%z"))
print(hash("a text"))
print(getpass.getuser())
began = time.monotonic()
time.sleep(0.01)
print(time.monotonic() - began < 30)
"""


@pytest.fixture(scope="module")
def clock() -> Clock:
    found = find_clock(os.environ)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("no libfaketime works here: pip install 'setpoint[prove]'")
        pytest.skip("no libfaketime works here: pip install 'setpoint[prove]'")
    return found


def seen(*different: Factor) -> list[str]:
    around = applied({**os.environ, "PYTHONHASHSEED": "1", "TZ": "UTC"}, different)
    answer = subprocess.run(
        [sys.executable, "-c", SEEN], env=around, capture_output=True, text=True, check=True
    )
    return answer.stdout.split()


def named(name: str, clock: Clock | None = None) -> Factor:
    return next(item for item in factors(os.environ, clock) if item.name == name)


def test_another_day_on_the_clock(clock: Clock) -> None:
    """The process lives more than three days later, and its waits take no longer."""
    now, *_, waits = seen(named("clock", clock))
    gone = datetime.fromisoformat(now) - edge.utc_now()
    assert abs(gone - timedelta(seconds=clock.shift)) < timedelta(minutes=1)
    assert waits == "True"


@pytest.mark.parametrize(
    ("day", "days", "other_month"),
    [(1, 3, False), (20, 3, False), (26, 4, True), (27, 3, True), (30, 3, True)],
)
def test_the_clock_crosses_the_end_of_a_month_that_is_near(
    day: int, days: int, other_month: bool
) -> None:
    """Never by five days: what tidies up takes files for old then."""
    now = datetime(2026, 4, day, 12, tzinfo=timezone.utc)
    shift, told = shift_from(now)
    later = now + timedelta(seconds=shift)
    assert (shift // 86_400, told, later.month != now.month) == (days, other_month, other_month)


def test_a_process_without_its_environment_is_found_out(clock: Clock) -> None:
    """The clock of such a process was not moved, whatever its parent was told."""
    reach = Reach(clock)
    waits = [sys.executable, "-c", "input()"]
    around = {**os.environ, **clock.changes}
    for words in (waits, ["env", "-i", *waits]):
        child = subprocess.Popen(words, env=around, stdin=subprocess.PIPE)
        while b"python" not in Path(f"/proc/{child.pid}/cmdline").read_bytes().split(b"\0")[0]:
            pass
        while b"libc" not in Path(f"/proc/{child.pid}/maps").read_bytes():
            pass
        for _ in range(2):
            reach.look([child.pid])
        assert bool(reach.unmoved) == (words is not waits)
        child.communicate(b"\n")


@pytest.mark.parametrize(("name", "line"), [("time zone", 1), ("hash seed", 2), ("environment", 3)])
def test_a_factor_changes_one_thing_and_no_other(name: str, line: int) -> None:
    """Where one factor is different, only its own line of what a process sees is."""
    before, after = seen(), seen(named(name))
    assert [n for n in (1, 2, 3) if before[n] != after[n]] == [line]


def test_without_a_clock_everything_else_is_different() -> None:
    """A machine without the library still tries the other factors."""
    assert [item.name for item in factors(os.environ, None)] == [
        "time zone",
        "locale",
        "hash seed",
        "environment",
    ]


def test_values_are_other_than_those_that_hold() -> None:
    """Whatever the user has set already, the factor is a change."""
    for around in (
        {},
        {"TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "4711", "LC_ALL": "C.UTF-8"},
        {"TZ": "Pacific/Pago_Pago", "PYTHONHASHSEED": "4712", "LC_ALL": "C", "LANG": "tr_TR.utf8"},
    ):
        for factor in factors(around, None):
            assert applied(around, [factor]) != around
            assert not [n for n, value in factor.changes.items() if around.get(n) == value]


def test_a_variable_that_code_reads_gets_another_value_of_its_kind() -> None:
    """Numbers stay numbers and switches switches; a variable that is not set stays so."""
    around = {"RATE": "19", "DEBUG": "true", "REGION": "eu"}
    found = factors(around, None, ["RATE", "DEBUG", "REGION", "NONE", "USER"])
    changed = {name: v for item in found if item.of_variable for name, v in item.changes.items()}
    assert changed == {"RATE": "20", "DEBUG": "false", "REGION": "eu-elsewhere"}


def test_what_the_user_preloads_and_tells_java_stays() -> None:
    """Entries are put in front of those that are there."""
    around = {"LD_PRELOAD": "/mine.so", "JDK_JAVA_OPTIONS": "-Xmx1g"}
    different = applied(around, factors(around, Clock("/clock.so")))
    assert different["LD_PRELOAD"] == "/clock.so:/mine.so"
    assert different["JDK_JAVA_OPTIONS"].endswith(" -Xmx1g")


def test_a_library_that_does_not_work_is_not_used(tmp_path: Path) -> None:
    """It is tried before it is believed: a file that shifts nothing is passed over."""
    broken = tmp_path / "libfaketime.so.1"
    broken.write_bytes(b"no library")
    found = find_clock({**os.environ, LIBRARY: str(broken)})
    assert found is None or found.library != str(broken)


def test_a_named_library_comes_first(clock: Clock, tmp_path: Path) -> None:
    """SETPOINT_FAKETIME wins over what is installed."""
    mine = tmp_path / "mine.so"
    mine.write_bytes(Path(clock.library).read_bytes())
    found = find_clock({**os.environ, LIBRARY: str(mine)})
    assert found is not None
    assert found.library == str(mine)
