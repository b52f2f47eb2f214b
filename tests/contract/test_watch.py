"""Processes under watch: what leaves the bounds fails in any program, and is told."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from setpoint.prove.watch import kernel

pytestmark = pytest.mark.skipif(kernel.machine() is None, reason="no filter for this system")

# One watched process; what it does comes from the test. It prints what was refused.
_WATCHED = """
import json, os, socket, subprocess, sys
from setpoint.prove.watch.bounds import Bounds
from setpoint.prove.watch.watch import watched
watch = watched()
if isinstance(watch, int):
    sys.exit(watch)
assert not watch.why, watch.why
bounds = Bounds.of("project", "project/sandbox", "")
def tried(do):
    try:
        do()
    except Exception as error:
        return type(error).__name__
    return "done"
told = []
with watch.within(bounds):
{doing}
print(json.dumps({{"told": told, "refused": watch.refused()}}))
sys.exit(7)
"""


def under_watch(doing: str, folder: Path, *words: str) -> dict[str, Any]:
    """Run lines inside the bounds of a project in a folder; what they told and what was refused."""
    (folder / "project" / "sandbox").mkdir(parents=True, exist_ok=True)
    indented = "\n".join(f"    {line}" for line in doing.strip().splitlines())
    script = folder / "watched.py"
    script.write_text(_WATCHED.format(doing=indented))
    done = subprocess.run(
        [sys.executable, str(script), *words], cwd=folder, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_changes_outside_fail_in_every_program(tmp_path: Path) -> None:
    """Also in what a process starts, and in what that starts; the sandbox is free."""
    (tmp_path / "project").mkdir()
    for name in ("kept", "moved", "linked"):
        (tmp_path / "project" / name).write_text("before")
    found = under_watch(
        """
told.append(tried(lambda: open("project/sandbox/free", "w").close()))
told.append(tried(lambda: open("project/new", "w").close()))
told.append(tried(lambda: os.replace("project/moved", "project/sandbox/moved")))
told.append(tried(lambda: os.symlink("x", "project/link")))
told.append(tried(lambda: os.truncate("project/kept", 0)))
told.append(tried(lambda: os.chmod("project/kept", 0)))
words = "rm -f project/kept; sh -c 'echo 1 >> project/linked; echo 2 > project/sandbox/deep'"
subprocess.run(["sh", "-c", words], stderr=subprocess.DEVNULL)
os.mkdir("project/sandbox/more")
os.chdir("project/sandbox/more")
told.append(tried(lambda: open("../../up", "w").close()))
told.append(tried(lambda: os.makedirs("../more", exist_ok=True)))
""",
        tmp_path,
    )
    assert found["told"] == ["done", *["PermissionError"] * 6, "done"]
    files = {item.name: item.read_text() for item in (tmp_path / "project").iterdir()
             if item.is_file()}  # fmt: skip
    assert files == {"kept": "before", "moved": "before", "linked": "before"}
    assert (tmp_path / "project/sandbox/deep").read_text() == "2\n"
    assert any(item.endswith("project/linked in a dash process") or "linked" in item
               for item in found["refused"])  # fmt: skip
    assert len(found["refused"]) == 7


def test_connections_reach_only_processes_of_the_tree(tmp_path: Path, db: Any) -> None:
    """libpq asks the kernel and not Python: a server of somebody else is not reached."""
    db.all("CREATE TABLE log (n int)")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        found = under_watch(
            """
import psycopg
def insert():
    with psycopg.connect(sys.argv[1], connect_timeout=5) as c:
        c.execute("INSERT INTO log VALUES (1)")
told.append(tried(insert))
told.append(tried(insert))
host = ("127.0.0.1", int(sys.argv[2]))
told.append(tried(lambda: socket.create_connection(host)))
told.append(tried(lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", host)))
own = socket.create_server(("127.0.0.1", 0))
told.append(tried(lambda: socket.create_connection(own.getsockname())))
unix = socket.socket(socket.AF_UNIX)
unix.bind("project/sandbox/s")
unix.listen()
told.append(tried(lambda: socket.socket(socket.AF_UNIX).connect("project/sandbox/s")))
""",
            tmp_path,
            db.url,
            str(port),
        )
        with pytest.raises(BlockingIOError):
            server.accept()
    denied = ["OperationalError"] * 2 + ["PermissionError"] * 2
    assert found["told"] == [*denied, "done", "done"]
    assert db.all("SELECT * FROM log") == []
    assert f"a connection to 127.0.0.1:{port}" in " ".join(found["refused"])
    with psycopg.connect(db.url) as connection:
        connection.execute("SELECT 1")


def test_a_watched_process_that_is_watched_already_says_why_not(tmp_path: Path) -> None:
    """The kernel permits one watch: the second one knows that it is blind."""
    inner = "from setpoint.prove.watch.watch import watched; print(watched().unwatched[0])"
    found = under_watch(
        f"told.append(subprocess.run([sys.executable, '-c', {inner!r}], capture_output=True, "
        "text=True).stdout)",
        tmp_path,
    )
    assert "because the system does not permit it" in found["told"][0]


@pytest.mark.parametrize("address", [1, 2**40])
def test_a_call_that_cannot_be_read_passes_and_is_told(tmp_path: Path, address: int) -> None:
    """A pointer that leads nowhere stands for a process whose memory is closed."""
    found = under_watch(
        f"""
import ctypes
number = ctypes.CDLL(None).truncate(ctypes.c_void_p({address}), 0)
told.append(number)
told += watch.missed()
""",
        tmp_path,
    )
    assert found["told"][0] == -1
    assert found["told"][1].startswith("truncate of python")
    assert found["refused"] == []


def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next(tmp_path: Path) -> None:
    """Ctrl-C may come between a question and its answer."""
    found = under_watch(
        """
told.append(tried(lambda: open("project/new", "w").close()))
watch.channel.sendall(b'{"ask": "other", "number": 0}\\n')
""",
        tmp_path,
    )
    assert found["told"] == ["PermissionError"]
    assert len(found["refused"]) == 1


@pytest.mark.parametrize("name", ["x86_64", "aarch64"])
def test_a_filter_lets_everything_pass_but_the_watched_calls(name: str) -> None:
    """Every way through it ends inside, and in an answer."""
    program = kernel.filter_of(kernel.MACHINES[name])
    assert len(program) % 8 == 0
    steps = [(int.from_bytes(program[i : i + 2], "little"), program[i + 2], program[i + 3])
             for i in range(0, len(program), 8)]  # fmt: skip
    for place, (code, yes, no) in enumerate(steps):
        if code in (0x15, 0x45):
            assert place + 1 + max(yes, no) < len(steps)
    assert steps[-1][0] == 0x06
