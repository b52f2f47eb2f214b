"""`setpoint lint` as people and programs meet it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from setpoint.cli.main import main

JOB = """from datetime import datetime

df = spark.table("raw")
df.write.mode("append").saveAsTable("orders")
df.withColumn("loaded_at", F.current_timestamp()).write.mode("overwrite").saveAsTable("x")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = main(["lint", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_person_sees_the_line_the_reason_and_the_repair(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors are shown, infos are counted."""
    assert main(["lint", "job.py"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "job.py:4:10: SP104 append-write"
    assert lines[1] == '  | df.write.mode("append").saveAsTable("orders")'
    assert lines[2].endswith("and a repetition adds them again.")
    assert lines[3].startswith("  Repair: ")
    assert lines[-2] == "1 error in 1 file: 1 append-write; 1 info (--info shows them)"
    assert main(["lint", "--info"]) == 1
    assert "SP101 wall-clock  (info)" in capsys.readouterr().out


def test_a_program_gets_one_object(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The envelope holds the findings of both severities."""
    code, body = answer(capsys, "job.py")
    assert (code, body["ok"], body["schema"]) == (1, False, "setpoint.lint/1")
    first = body["data"]["findings"][0]
    assert {"rule", "kind", "path", "line", "column", "severity", "message"} <= set(first)
    assert (first["rule"], first["line"], first["severity"]) == ("SP104", 4, "error")
    assert body["data"]["infos"] == 1


def test_nothing_found_is_zero(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Infos fail nothing."""
    assert main(["lint", "--ignore", "SP104"]) == 0
    assert capsys.readouterr().out.startswith("no errors in 1 file; 1 info")


def test_sarif_and_annotations(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both formats name the file, the line and the rule."""
    assert main(["lint", "--format", "sarif"]) == 1
    log = json.loads(capsys.readouterr().out)
    assert log["version"] == "2.1.0"
    result = log["runs"][0]["results"][0]
    place = result["locations"][0]["physicalLocation"]
    assert (result["ruleId"], place["region"]["startLine"]) == ("SP104", 4)
    assert place["artifactLocation"]["uri"] == "job.py"
    assert main(["lint", "--format", "github"]) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("::error file=job.py,line=4,col=10,title=SP104 append-write::")


def test_explain_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """By code or by name, in whatever case."""
    for word in ("SP104", "sp104", "append-write"):
        assert main(["lint", "--explain", word]) == 0
        assert capsys.readouterr().out.startswith("# SP104 append-write\n")
    assert main(["lint", "--explain", "SP999"]) == 2


def test_a_baseline_lets_an_old_repository_start(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is known passes, what is new fails."""
    assert main(["lint", "--baseline", "known.json", "--write-baseline"]) == 0
    assert main(["lint", "--baseline", "known.json"]) == 0
    (folder / "new.py").write_text('df.write.mode("append").saveAsTable("other")\n')
    capsys.readouterr()
    code, body = answer(capsys, "--baseline", "known.json")
    assert code == 1
    assert [f["path"] for f in body["data"]["findings"]] == ["new.py"]
    assert body["data"]["baseline"] == 2


def test_repairs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--diff shows and changes nothing, --fix changes, and what is left is told."""
    job = folder / "job.py"
    job.write_text(
        "def load(day):\n"
        "    df = spark.table('raw').filter(f\"d = '{day}'\")\n"
        "    df.write.mode('overwrite').partitionBy('d').parquet('out')\n"
    )
    before = job.read_text()
    assert main(["lint", "--diff"]) == 1
    assert '+    df.write.mode(\'overwrite\').option("partitionOverwriteMode", "dynamic")' in (
        capsys.readouterr().out
    )
    assert job.read_text() == before
    assert main(["lint", "--fix"]) == 0
    assert "partitionOverwriteMode" in job.read_text()
    assert main(["lint", "--diff"]) == 0


def test_settings_of_the_project(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest setpoint.toml counts; what it does not understand is refused."""
    (folder / "setpoint.toml").write_text('[lint]\nignore = ["append-write"]\n')
    assert main(["lint"]) == 0
    (folder / "setpoint.toml").write_text('[lint]\nignore = ["nonsense"]\n')
    assert main(["lint"]) == 2
    (folder / "setpoint.toml").write_text("[lint]\nunknown = 1\n")
    assert main(["lint"]) == 2
    assert "SP-C03" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["nowhere.py"],
        ["--select", "nonsense"],
        ["--baseline", "nowhere.json"],
        ["--write-baseline"],
        ["--format", "xml"],
    ],
)
def test_a_wrong_call_is_told(
    folder: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and what to do."""
    assert main(["lint", *words]) == 2
    assert "SP-C01" in capsys.readouterr().err


def test_a_missing_parser_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Without sqlglot there is one clear line."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["lint"]) == 2
    assert "pip install 'setpoint[lint]'" in capsys.readouterr().err


def test_it_needs_no_spark(folder: Path) -> None:
    """Neither pyspark nor deltalake nor SQLAlchemy is imported, and --help imports no rule."""
    import subprocess
    import sys

    script = (
        "import sys; from setpoint.cli.main import main; main(['lint', 'job.py']);"
        "bad = {'pyspark', 'deltalake', 'sqlalchemy', 'pyarrow'} & set(sys.modules);"
        "assert not bad, bad;"
        "assert 'sqlglot' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
