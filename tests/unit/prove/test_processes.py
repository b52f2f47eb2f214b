"""Processes end with all that they have started, and leave their words in files."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from setpoint import edge
from setpoint.errors import PermanentError
from setpoint.prove.processes import MARK, failed, own_environment, start

# Starts a process that would outlive it: in the same session, or with one of its own.
PARENT = """
import subprocess, sys, time
words = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(words, start_new_session={apart}, process_group={group})
print(child.pid, flush=True)
{then}
"""


def python(code: str, tmp_path: Path, **env: str):  # type: ignore[no-untyped-def]
    return start(
        [sys.executable, "-c", code], {**os.environ, **env}, tmp_path, tmp_path / "logs", "child"
    )


def first_line(process) -> str:  # type: ignore[no-untyped-def]
    while process.running:
        text = process._out.read_text()
        if text.endswith("\n"):
            return str(text.splitlines()[0])
        time.sleep(0.01)
    raise AssertionError(process._err.read_text())


def runs(pid: int) -> bool:
    fields = edge.stat_fields(pid)
    return bool(fields) and fields[0] not in ("Z", "X")


def test_what_a_process_says_is_in_files_of_its_own(tmp_path: Path) -> None:
    """Output, messages and the exit code are there afterwards; a second start keeps the first."""
    said = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path)
    ended = said.wait()
    assert (ended.code, ended.answer, ended.last_words()) == (3, "out\n", "err")
    assert not ended.killed
    again = python("print('more')", tmp_path).wait()
    assert (again.answer, ended.answer) == ("more\n", "out\n")


@pytest.mark.parametrize(("apart", "group"), [("False", "None"), ("False", "0"), ("True", "None")])
def test_kill_ends_what_the_process_has_started(tmp_path: Path, apart: str, group: str) -> None:
    """A child in the same session, in a group of its own, and in a session of its own."""
    if group == "0" and sys.version_info < (3, 11):
        pytest.skip("process_group came with Python 3.11")
    code = PARENT.format(apart=apart, group=group, then="time.sleep(600)")
    if sys.version_info < (3, 11):
        code = code.replace(", process_group=None", "")
    process = python(code, tmp_path)
    child = int(first_line(process))
    assert runs(child)
    ended = process.kill()
    assert ended.signal == signal.SIGKILL
    assert ended.killed
    assert not runs(child)
    assert process.kill() == process.wait() == ended


def test_a_process_that_kills_itself_leaves_nothing_behind(tmp_path: Path) -> None:
    """What a fault does: the driver is gone at once, its children are ended by wait()."""
    then = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    process = python(PARENT.format(apart="False", group="None", then=then), tmp_path)
    ended = process.wait()
    assert ended.signal == signal.SIGKILL
    assert not ended.killed
    assert not runs(int(ended.answer))


def test_a_process_that_hangs_is_ended_and_told_so(tmp_path: Path) -> None:
    """The limit ends it, and the error says that it did not end by itself."""
    ended = python("import time; time.sleep(600)", tmp_path).wait(0.2)
    assert ended.hung
    assert ended.killed
    error = failed("The run", ended)
    assert (error.code, error.why) == ("SP-V11", "It said nothing.")


def test_an_error_holds_the_last_words(tmp_path: Path) -> None:
    """The files go with the sandbox: an error that named them would send people nowhere."""
    said = python("import sys; sys.exit('cannot allocate memory\\nno Java')", tmp_path)
    error = failed("The run", said.wait())
    assert error.why == "Its last words:\n  cannot allocate memory\n  no Java\n"
    assert str(tmp_path) not in str(error)
    assert "--keep" in error.next
    assert python("", tmp_path).wait().told() == "It said nothing."


def test_leaving_the_context_ends_the_process(tmp_path: Path) -> None:
    """An interrupt of the proof leaves no process behind."""
    process = python("import time; time.sleep(600)", tmp_path)
    with pytest.raises(KeyboardInterrupt), process:
        raise KeyboardInterrupt
    assert not runs(process.pid)


def test_a_command_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """One clear line instead of a stack trace."""
    with pytest.raises(PermanentError, match=r"SP-V10.*no-such-command"):
        start(["no-such-command"], os.environ, tmp_path, tmp_path / "logs")


def test_a_process_of_ours_finds_this_setpoint_and_no_foreign_session(tmp_path: Path) -> None:
    """It works in another folder, and faults or sessions of the user's shell are not its own."""
    around = {**os.environ, "SPARK_REMOTE": "sc://x", "SETPOINT_FAULT": "read:kill"}
    around["PYTHONPATH"] = "mine"
    own = own_environment(around)
    assert "SPARK_REMOTE" not in own
    assert "SETPOINT_FAULT" not in own
    assert str(Path("mine").absolute()) in own["PYTHONPATH"]
    code = f"import os, setpoint; print(setpoint.__file__, os.environ[{MARK!r}] != '')"
    ended = start([sys.executable, "-c", code], own, tmp_path, tmp_path / "logs").wait()
    assert ended.answer.split() == [str(Path(sys.modules["setpoint"].__file__ or "")), "True"]
