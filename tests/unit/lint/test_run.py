"""Many files: settings, suppressions, baseline, cache."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from setpoint.lint import suppressions
from setpoint.lint.baseline import read_baseline, write_baseline
from setpoint.lint.cache import Cache
from setpoint.lint.findings import Finding
from setpoint.lint.kinds import BY_CODE, KINDS
from setpoint.lint.rules import CHECKS
from setpoint.lint.run import find_files, lint
from setpoint.lint.settings import Settings, read_settings

APPEND = 'df.write.mode("append").saveAsTable("orders")'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refuse(why: str) -> Exception:
    return ValueError(why)


def kinds(findings: list[Finding]) -> list[str]:
    return [finding.kind for finding in findings]


def test_every_kind_has_a_rule() -> None:
    """The catalogue and the rules name the same kinds."""
    assert [kind.name for kind in KINDS] == list(CHECKS)
    assert len(BY_CODE) == len(KINDS)


def test_what_is_no_pipeline_is_left_out_of_folders(folder: Path) -> None:
    """Tests and environments are not looked at, unless a file is named."""
    for name in ("job.py", "tests/helper.py", "test_job.py", ".venv/x.py", "notes.txt", "q.sql"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(APPEND, encoding="utf-8")
    found = [file.name for file in find_files([folder], Settings())]
    assert found == ["job.py", "q.sql"]
    assert list(find_files([folder / "test_job.py"], Settings())) == [folder / "test_job.py"]


def test_settings_choose(folder: Path) -> None:
    """Kinds are selected and ignored by code, prefix or name, for all files or for some."""
    (folder / "legacy").mkdir()
    for name in ("job.py", "legacy/old.py"):
        (folder / name).write_text(APPEND, encoding="utf-8")
    table = {"per-file": [{"files": "legacy/*.py", "ignore": ["SP104"], "reason": "retired"}]}
    report = lint([folder], read_settings(table, refuse))
    assert [f.path for f in report.findings] == ["job.py"]
    assert lint([folder], read_settings({"ignore": ["append-write"]}, refuse)).findings == []
    assert lint([folder], read_settings({"select": ["SP101"]}, refuse)).findings == []
    assert len(lint([folder], read_settings({"select": ["SP1"]}, refuse)).findings) == 2


@pytest.mark.parametrize(
    "table",
    [
        {"select": "SP101"},
        {"select": ["SP9"]},
        {"ignore": ["nonsense"]},
        {"exclude": [1]},
        {"baseline": 3},
        {"per-file": {}},
        {"per-file": [{"ignore": ["SP104"], "reason": "x"}]},
        {"per-file": [{"files": "x", "ignore": ["SP104"]}]},
        {"per-file": [{"files": "x", "ignore": ["SP104"], "reason": "x", "more": 1}]},
    ],
)
def test_settings_that_do_not_fit_are_refused(table: dict[str, object]) -> None:
    """A setting that is not understood is an error, not a silence."""
    with pytest.raises(ValueError, match=r"lint\.|kind of findings"):
        read_settings(table, refuse)


def test_a_suppression_needs_a_reason(folder: Path) -> None:
    """With one the finding stands; without one it does not, and the comment is told."""
    (folder / "a.py").write_text(f"{APPEND}  # setpoint: ignore[SP104] the reader dedupes\n")
    (folder / "b.py").write_text(f"{APPEND}  # setpoint: ignore[SP104]\n")
    (folder / "c.py").write_text(
        f"# setpoint: ignore[append-write] loaded once by hand\n{APPEND}\n"
    )
    (folder / "d.py").write_text(f"{APPEND}  # setpoint: ignore[SP101] not this\n")
    (folder / "e.py").write_text(f"{APPEND}  # setpoint: ignore it\n")
    report = lint([folder], Settings())
    assert [(f.path, f.kind) for f in report.findings] == [
        ("b.py", "suppression-without-reason"),
        ("b.py", "append-write"),
        ("d.py", "unused-suppression"),
        ("d.py", "append-write"),
        ("e.py", "suppression-without-reason"),
        ("e.py", "append-write"),
    ]
    assert [f.path for f in report.suppressed] == ["a.py", "c.py"]


def test_a_suppression_inside_sql(folder: Path) -> None:
    """In a SQL file, and in SQL inside a string."""
    (folder / "a.sql").write_text("INSERT INTO t SELECT 1 -- setpoint: ignore[SP104] a seed\n")
    (folder / "b.py").write_text(
        'cur.execute("""\n    -- setpoint: ignore[SP104] a seed\n    INSERT INTO t SELECT 1\n""")\n'
    )
    report = lint([folder], Settings())
    assert report.findings == []
    assert len(report.suppressed) == 2


def test_a_text_about_suppressions_is_none() -> None:
    """Only a real comment counts in Python."""
    source = [
        'TEXT = "# setpoint: ignore[SP104] like this"',
        "# setpoint: ignore[SP104] real",
        "x = 1",
    ]
    assert [s.line for s in suppressions.suppressions(source)] == [2]


def test_only_new_findings_remain_beside_a_baseline(folder: Path) -> None:
    """Known findings may move; an equal line more is new."""
    job = folder / "job.py"
    job.write_text(f"{APPEND}\n")
    file = folder / "baseline.json"
    assert write_baseline(file, lint([job], Settings()).findings) == 1
    first = file.read_text()
    job.write_text(f"import x\n\n    \n{APPEND}\n")
    known = read_baseline(file)
    report = lint([job], Settings(), known=known)
    assert (report.findings, kinds(report.known)) == ([], ["append-write"])
    job.write_text(f"{APPEND}\n{APPEND}\n")
    assert kinds(lint([job], Settings(), known=known).findings) == ["append-write"]
    write_baseline(file, [*report.known])
    assert file.read_text() == first


def test_a_foreign_file_is_no_baseline(tmp_path: Path) -> None:
    """Whatever is not one is refused."""
    for text in ("[]", "{}", '{"schema": "x"}', "nonsense"):
        (tmp_path / "b.json").write_text(text)
        with pytest.raises(ValueError, match=r".+"):
            read_baseline(tmp_path / "b.json")


def test_a_file_that_has_not_changed_is_not_looked_at_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The findings come from the cache until the file changes."""
    (folder / "job.py").write_text(APPEND)
    cold = lint([folder], Settings(), cache_folder=folder / "cache")
    assert (folder / "cache" / ".gitignore").read_text() == "*\n"

    def boom(item: object) -> list[Finding]:
        raise AssertionError(item)

    monkeypatch.setattr("setpoint.lint.run._one", boom)
    warm = lint([folder], Settings(), cache_folder=folder / "cache")
    assert warm.findings == cold.findings
    (folder / "job.py").write_text(APPEND + "\n")
    with pytest.raises(AssertionError):
        lint([folder], Settings(), cache_folder=folder / "cache")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"version": 1}', '{"entries": 4, "version": "x/1"}']
)
def test_a_broken_cache_counts_as_empty(tmp_path: Path, text: str) -> None:
    """A cache is never a reason to fail."""
    (tmp_path / "findings.json").write_text(text)
    assert Cache(tmp_path, lambda: "1").get("x", "job.py") is None


def test_a_cache_that_came_with_a_clone_silences_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One without findings, as somebody else has made it for the same file, is not believed."""
    (folder / "job.py").write_text(APPEND)
    theirs, mine = tmp_path / "their-home", tmp_path / "my-home"
    monkeypatch.setenv("SETPOINT_HOME", str(theirs))
    monkeypatch.setattr("setpoint.lint.run._one", lambda item: [])
    assert lint([folder], Settings(), cache_folder=folder / "cache").findings == []
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SETPOINT_HOME", str(mine))
    found = lint([folder], Settings(), cache_folder=folder / "cache").findings
    assert kinds(found) == ["append-write"]


def test_a_cache_of_another_place_is_not_believed(tmp_path: Path) -> None:
    """Also one of this user: it may have been copied, and changed on the way."""
    cache = Cache(tmp_path / "a", lambda: "1")
    cache.put("key", [])
    cache.save()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert Cache(tmp_path / "a", lambda: "1").get("key", "job.py") == []
    assert Cache(tmp_path / "b", lambda: "1").get("key", "job.py") is None
    text = (tmp_path / "a" / "findings.json").read_text()
    (tmp_path / "a" / "findings.json").write_text(text.replace('"key"', '"other"'))
    assert Cache(tmp_path / "a", lambda: "1").get("other", "job.py") is None


def test_without_a_key_nothing_is_kept_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home that cannot be made only costs time."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("SETPOINT_HOME", str(tmp_path / "file" / "home"))
    cache = Cache(tmp_path, lambda: "1")
    cache.put("key", [])
    cache.save()
    assert Cache(tmp_path, lambda: "1").get("key", "job.py") is None


def test_another_judge_empties_the_cache(tmp_path: Path) -> None:
    """Findings of another version of lint are not believed."""
    cache = Cache(tmp_path, lambda: "1")
    cache.put("key", [])
    cache.save()
    assert Cache(tmp_path, lambda: "1").get("key", "job.py") == []
    assert Cache(tmp_path, lambda: "2").get("key", "job.py") is None


def test_many_files_are_looked_at_by_several_processes(folder: Path) -> None:
    """The report is the same, in the order of the files."""
    for number in range(60):
        (folder / f"job_{number:02}.py").write_text(f"{APPEND}\n# {number}\n")
    one = lint([folder], Settings(), jobs=1)
    two = lint([folder], Settings(), jobs=2)
    assert one.findings == two.findings
    assert Counter(kinds(two.findings)) == {"append-write": 60}


def test_a_file_that_cannot_be_read_is_told(folder: Path) -> None:
    """It is left out, and said so."""
    (folder / "big.py").write_bytes(b"#" * 2_000_001)
    (folder / "gone.py").symlink_to(folder / "nowhere.py")
    report = lint([folder / "big.py", folder], Settings())
    assert [entry.split(":")[0] for entry in report.skipped] == ["big.py"]
