"""Proofs on the command line: what status says about them, and what a pull request proves."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from setpoint.cli.main import main
from setpoint.model.proof import Proof, Result
from setpoint.project.config import find_config
from setpoint.project.discover import pipelines
from setpoint.prove.certificate import certify, code_of

PIPELINE = """
from setpoint import delta, pipeline

@pipeline(every="day", target=delta("out/{name}", partition_by="d"), start="2026-11-01")
def {name}(window):
    return {value}
"""


def write(folder: Path, name: str, value: int = 1) -> None:
    (folder / "pipelines").mkdir(exist_ok=True)
    (folder / "pipelines" / f"{name}.py").write_text(PIPELINE.format(name=name, value=value))


@pytest.fixture
def project(project_dir: Path) -> Path:
    (project_dir / "setpoint.toml").write_text('[pipelines]\npaths = ["pipelines"]\n')
    (project_dir / ".gitignore").write_text(".setpoint/\n")
    for name in ("daily", "other"):
        write(project_dir, name)
    git(project_dir, "init", "-q", "-b", "main")
    git(project_dir, "add", "-A")
    git(project_dir, "commit", "-q", "-m", "first")
    return project_dir


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def prove(project: Path, state: Any = "passed") -> None:
    """Keep a proof of daily as it is now."""
    code = code_of(pipelines(find_config(project))["daily"])
    began = dt.datetime(2026, 11, 15, 12, tzinfo=dt.timezone.utc)
    result = Result("twice", state, "")
    certify(Proof("daily", "2026-11-14", (result,), code, "quick", began=began), project)


def verdicts(capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["status", "--json"]) == 0
    data = json.loads(capfd.readouterr().out)["data"]
    return {item["pipeline"]: item["proof"] for item in data["pipelines"]}


def test_status_tells_which_pipelines_are_proven(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Proven with its window and day, not proven with what failed, and never tried."""
    prove(project)
    found = verdicts(capfd)
    assert found["other"]["verdict"] == "never tried"
    assert found["daily"]["verdict"] == "proven"
    assert found["daily"]["window"] == "2026-11-14"
    prove(project, "failed")
    found = verdicts(capfd)
    assert (found["daily"]["verdict"], found["daily"]["failed"]) == ("not proven", ["twice"])
    assert main(["status"]) == 0
    assert "not proven on 2026-11-15 with 2026-11-14" in capfd.readouterr().out


def test_a_proof_is_stale_when_the_code_changed(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A comment and another file leave it as it was; another answer does not."""
    prove(project)
    text = (project / "pipelines" / "daily.py").read_text()
    (project / "pipelines" / "daily.py").unlink()
    # Files are loaded once per process, so the next state is another file.
    (project / "pipelines" / "moved.py").write_text(f"# a comment\n{text}")
    assert verdicts(capfd)["daily"]["verdict"] == "proven"
    (project / "pipelines" / "moved.py").unlink()
    (project / "pipelines" / "again.py").write_text(text.replace("return 1", "return 2"))
    assert verdicts(capfd)["daily"]["verdict"] == "stale"


def test_nothing_is_proven_when_nothing_changed(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The answer is yes, and the reports are there for whoever waits for them."""
    assert main(["prove", "--ci", "--since", "main", "--junit", "r/p.xml"]) == 0
    said = capfd.readouterr()
    assert "nothing to prove: no pipeline has changed" in said.out
    assert "none; 2 unchanged" in said.err
    assert list(ET.parse(project / "r" / "p.xml").getroot()) == []


def test_a_changed_pipeline_that_cannot_be_tried_fails_the_build(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It has its place in the reports, and the exit code is that of its error."""
    write(project, "other", 2)
    words = ["--window", "2026-11", "--junit", "p.xml", "--html", "p.html"]
    assert main(["prove", "--ci", "--since", "HEAD", *words, "--json"]) == 2
    body = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert body["ok"] is False
    assert body["data"]["proofs"] == []
    (failed,) = body["data"]["not_tried"]
    assert (failed["pipeline"], failed["error"]["code"]) == ("other", "SP-C01")
    suite = ET.parse(project / "p.xml").getroot()[0]
    assert (suite.get("name"), suite.get("failures")) == ("other", "1")
    assert "names 30 windows" in (project / "p.html").read_text(encoding="utf-8")
    assert not (project / ".setpoint" / "proofs").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--ci"],
        ["--ci", "--since", ""],
        ["--since", ""],
        ["daily", "--ci", "--since", "main"],
        ["--ci", "--since", "gone"],
    ],
)
def test_ci_needs_a_revision_and_no_name(
    project: Path, words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """Usage errors, before anything is started."""
    assert main(["prove", *words]) == 2
    assert capfd.readouterr().err.startswith(("SP-C01  --ci goes with --since", "SP-V31"))
