"""`setpoint prove --command` on files that are reached through links, or that cannot be kept."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setpoint import edge
from setpoint.cli.main import main

WINDOW = "2026-04-25"
# A day is emptied and filled again, with the same bytes each time; a mark is written beside it.
JOB = """
import os, pathlib, shutil, sys
import pyarrow as pa, pyarrow.parquet as pq
table, mark = sys.argv[2:4]
folder = f"{table}/d={sys.argv[1]}"
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
pq.write_table(pa.table({"id": [1, 2, 3]}), f"{folder}/part.parquet")
pathlib.Path(mark).write_text(sys.argv[1])
"""
LINK_SWAPPED = """
import os, pathlib, shutil
if os.path.islink("orders"):
    os.unlink("orders")
    os.mkdir("orders")
"""
POINTED_ELSEWHERE = """
import os
os.makedirs("other", exist_ok=True)
os.symlink("other", "next")
os.replace("next", "orders")
"""


def state(*roots: Path) -> dict[str, tuple[Any, ...]]:
    """Every entry with its bytes or its link, its time, its rights and its owner."""
    found = {}
    for root in roots:
        for path in [root, *sorted(root.rglob("*"))] if not root.is_symlink() else [root]:
            info = path.lstat()
            body = os.readlink(path) if path.is_symlink() else ""
            if path.is_file() and not path.is_symlink():
                body = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path)] = (body, info.st_mtime_ns, info.st_mode, info.st_uid, info.st_gid)
    return found


@pytest.fixture
def lake(project_dir: Path) -> Path:
    """A table on another disk, so to speak, and a mark; links in the project lead to both."""
    real = project_dir / "disk" / "orders"
    (real / "d=2026-04-01").mkdir(parents=True)
    (real / f"d={WINDOW}").mkdir(parents=True)
    pq.write_table(pa.table({"id": [7]}), real / "d=2026-04-01" / "part.parquet")
    pq.write_table(pa.table({"id": [8]}), real / f"d={WINDOW}" / "old.parquet")
    (real / f"d={WINDOW}" / "old.parquet").chmod(0o400)
    (project_dir / "disk" / "mark").write_text("before")
    Path("orders").symlink_to(real)
    Path("mark").symlink_to("disk/mark")
    return project_dir


def prove(
    capsys: pytest.CaptureFixture[str],
    *options: str,
    before: str = "",
    words: str = "orders mark",
    table: str = "orders=parquet:orders",
) -> tuple[int, dict[str, Any]]:
    """Prove the job through the command line; its exit code and its answer."""
    Path("job.py").write_text(before + JOB)
    command = f"{sys.executable} job.py {{window}} {words}"
    given = ["--command", command, "--table", table, "--window", WINDOW, "--json"]
    code = main(["prove", *given, "--yes", "--only", "twice", *options])
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    return code, answer.get("error") or answer["data"]["proofs"][0]


def backups() -> list[Path]:
    return list(Path(".setpoint/prove/commands").glob("*"))


def test_a_table_behind_a_link_comes_back_with_its_link(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The link, what it leads to, and the mark behind a link of its own."""
    roots = (lake / "disk/orders", lake / "disk/mark", lake / "orders", lake / "mark")
    before = state(*roots)
    code, proof = prove(capsys, "--state", "mark")
    assert (code, proof["results"][0]["state"]) == (0, "passed")
    assert state(*roots) == before
    assert backups() == []


def test_a_link_that_the_command_replaces_by_a_folder_comes_back(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roots = (lake / "disk/orders", lake / "disk/mark", lake / "orders", lake / "mark")
    before = state(*roots)
    prove(capsys, "--state", "mark", before=LINK_SWAPPED)
    assert state(*roots) == before


def test_a_link_that_the_command_points_elsewhere_is_no_proof(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it writes at the other end nobody would bring back between two trials."""
    roots = (lake / "disk/orders", lake / "disk/mark", lake / "orders")
    before = state(*roots)
    code, error = prove(capsys, "--state", "mark", before=POINTED_ELSEWHERE)
    assert (code, error["code"]) == (1, "SP-V22")
    assert "is one to other" in error["what"]
    assert state(*roots) == before


@pytest.mark.parametrize("words", ["orders mark", "orders {m}"])
def test_a_link_to_nothing_leads_to_nothing_again(
    lake: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    """In place the command makes the file at its end; that goes, and the link stays."""
    Path("mark").unlink()
    Path("mark").symlink_to("disk/deep/later")
    (lake / "disk/deep").mkdir()
    code, _ = prove(capsys, "--state", "m=mark", words=words)
    assert code == 0
    assert os.readlink("mark") == "disk/deep/later"
    assert list((lake / "disk/deep").iterdir()) == []


def test_links_in_a_circle_are_refused(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mark").unlink()
    Path("mark").symlink_to("mark")
    code, error = prove(capsys, "--state", "mark")
    assert (code, error["code"]) == (1, "SP-V22")
    assert "links on its way cannot be followed" in error["what"]


@pytest.mark.parametrize("kind", ["out", "dangling", "up"])
def test_links_that_lead_out_of_a_table_are_refused(
    lake: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """Before anything runs; one whose end is named as well is not."""
    end = {"out": lake / "cold", "dangling": lake / "nowhere", "up": lake / "disk"}[kind]
    (lake / "cold").mkdir()
    (lake / "disk/orders/d=2026-03-01").symlink_to(end)
    roots = (lake / "disk/orders", lake / "disk/mark", lake / "orders", lake / "cold")
    before = state(*roots)
    code, error = prove(capsys, "--state", "mark")
    assert (code, error["code"]) == (1, "SP-V22")
    assert f"d=2026-03-01 is a link to {end}" in error["what"]
    if kind == "out":
        code, proof = prove(capsys, "--state", "mark", "--state", "cold")
        assert (code, proof["results"][0]["state"]) == (0, "passed")
    assert state(*roots) == before


def test_a_hard_link_to_elsewhere_is_refused(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.link("disk/mark", "other-name")
    code, error = prove(capsys, "--state", "mark")
    assert (code, error["code"]) == (1, "SP-V22")
    assert "it has another name elsewhere" in error["what"]
    assert Path("other-name").read_text() == "before"


def test_a_copy_leads_nowhere_else(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that writes through the links of a copy writes to the copy."""
    (lake / "disk" / "orders" / f"d={WINDOW}").rename(lake / "cold")
    (lake / "disk" / "orders" / f"d={WINDOW}").symlink_to(lake / "cold")
    roots = (
        lake / "disk/orders",
        lake / "disk/mark",
        lake / "orders",
        lake / "mark",
        lake / "cold",
    )
    before = state(*roots)
    emptied = "import sys, pathlib\nfor old in pathlib.Path(sys.argv[2]).rglob('*.parquet'):\n"
    emptied += "    old.unlink()\n"
    code, proof = prove(capsys, "--state", "m=mark", before=emptied, words="{orders} {m}")
    assert (code, proof["results"][0]["state"]) == (0, "passed"), proof
    assert state(*roots) == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--state", "copy=orders"), "two names of one place"),
        (("--state", "real=disk/orders"), "two names of one place"),
        (("--state", "."), "the copies that a proof makes would lie in it"),
    ],
)
def test_places_that_stand_in_each_others_way_are_refused(
    lake: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], told: str
) -> None:
    code, error = prove(capsys, *options)
    assert code in (1, 2)
    assert told in error["what"]


def started(words: list[str], **settings: Any) -> subprocess.Popen[bytes]:
    with Path("out").open("wb") as out, Path("err").open("wb") as err:
        return subprocess.Popen([sys.executable, *words], stdout=out, stderr=err, **settings)


def proving(script: str) -> list[str]:
    Path("job.py").write_text(script)
    command = f"{sys.executable} job.py {WINDOW} orders mark"
    given = ["--command", command, "--table", "orders=parquet:orders", "--state", "mark"]
    return ["prove", *given, "--window", WINDOW, "--yes", "--json"]


def test_a_table_that_cannot_be_brought_back_keeps_its_backup(lake: Path) -> None:
    """A link on the way is a folder now, with files that nobody knows; the others come back."""
    Path("way").symlink_to("disk")
    replaced = "import os\nif os.path.islink('way'):\n"
    replaced += "    os.unlink('way'); os.makedirs('way/orders')\n"
    roots = (lake / "disk/orders", lake / "disk/mark", lake / "mark")
    before = state(*roots)
    words = [word.replace(" orders ", " way/orders ") for word in proving(replaced + JOB)]
    words[words.index("orders=parquet:orders")] = "orders=parquet:way/orders"
    prover = started(["-m", "setpoint", *words, "--only", "twice"])
    code = prover.wait(60)
    error = json.loads(Path("out").read_text().splitlines()[-1])["error"]
    (folder,) = backups()
    assert (code, error["code"]) == (3, "SP-V23")
    assert f"{lake}/way was a link to disk and is a folder" in error["what"]
    assert str(folder) in error["state"]
    assert error["next"].endswith(f"setpoint prove --restore {folder.absolute()}")
    assert state(*roots) == before
    assert list(folder.rglob("old.parquet")) != []

    Path("way/orders").rename("aside")
    Path("way").rmdir()
    assert main(["prove", "--restore", str(folder)]) == 0
    assert os.readlink("way") == "disk"
    assert backups() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_proof_that_is_ended_restores_and_keeps_its_results(
    lake: Path, number: signal.Signals
) -> None:
    """The third run hangs: what the second has shown is told and kept."""
    roots = (lake / "disk/orders", lake / "disk/mark", lake / "orders", lake / "mark")
    before = state(*roots)
    counted = "import pathlib, os, time\nruns = pathlib.Path('runs')\n"
    counted += "runs.write_text((runs.read_text() if runs.exists() else '') + 'x')\n"
    hanging = "if len(runs.read_text()) == 3:\n    pathlib.Path('pid').write_text(str(os.getpid()))"
    words = proving(counted + JOB + hanging + "\n    time.sleep(600)\n")
    # Whoever runs the tests may have it ignored, and a process that was told to ignores it too.
    ignored = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    prover = started(["-m", "setpoint", *words, "--only", "twice,thrice"])
    signal.signal(signal.SIGHUP, ignored)
    while not (Path("pid").exists() and Path("pid").read_text()) and prover.poll() is None:
        time.sleep(0.01)
    prover.send_signal(number)
    code = prover.wait(60)
    answer = json.loads(Path("out").read_text().splitlines()[-1])
    assert (code, answer["error"]["code"]) == (130, "SP-X02"), Path("err").read_text()
    assert "Restored and compared: parquet:" in answer["error"]["state"]
    (proof,) = answer["data"]["proofs"]
    assert [(item["experiment"], item["state"]) for item in proof["results"]] == [
        ("twice", "passed")
    ]
    assert (proof["verdict"], proof["proven"], proof["untried"]) == (
        "not finished", False, ["thrice"],
    )  # fmt: skip
    (kept,) = Path(".setpoint/proofs").rglob("*.json")
    assert json.loads(kept.read_text())["verdict"] == "not finished"
    assert state(*roots) == before
    assert backups() == []
    assert not edge.is_alive(*edge.identity_of(int(Path("pid").read_text())))


# The prover dies at the n-th file that it brings back, as a machine does.
KILLED = """
import os, signal, sys
from setpoint.cli.main import main
from setpoint.prove.command import trees
left, put = [int(sys.argv[1])], trees._put
def dying(path, make):
    if "disk" in str(path):
        left[0] -= 1
        if left[0] == 0:
            make(path.with_name(f".{path.name}.setpoint-restored"))
            os.kill(os.getpid(), signal.SIGKILL)
    put(path, make)
trees._put = dying
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("at", [1, 2])
def test_a_restore_that_is_killed_is_made_good_by_the_next_proof(
    lake: Path, at: int, capsys: pytest.CaptureFixture[str]
) -> None:
    roots = (lake / "disk/orders", lake / "disk/mark", lake / "orders", lake / "mark")
    before = state(*roots)
    Path("killed.py").write_text(KILLED)
    prover = started(["killed.py", str(at), *proving(JOB), "--only", "twice"])
    assert prover.wait(60) == -signal.SIGKILL, Path("err").read_text()
    assert state(*roots) != before
    (folder,) = backups()
    assert (folder / "restore.json").exists()
    code, _ = prove(capsys, "--state", "mark")
    assert code == 0
    assert state(*roots) == before
    assert backups() == []


def test_no_room_for_the_backup_touches_nothing(lake: Path) -> None:
    """A limit on the size of files stands for a full disk: the copy cannot be written."""
    (lake / "disk/orders/d=2026-04-01/big").write_bytes(b"x" * 1_000_000)
    before = state(lake / "disk/orders", lake / "disk/mark", lake / "orders", lake / "mark")

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))

    prover = started(["-m", "setpoint", *proving(JOB), "--only", "twice"], preexec_fn=small)
    code = prover.wait(60)
    answer = json.loads(Path("out").read_text().splitlines()[-1])
    assert (code, answer["error"]["code"]) == (3, "SP-V28")
    assert "parquet:" in answer["error"]["what"]
    assert state(lake / "disk/orders", lake / "disk/mark", lake / "orders", lake / "mark") == before
    assert backups() == []
