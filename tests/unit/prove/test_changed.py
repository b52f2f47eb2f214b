"""Which pipelines changed since a revision, in real repositories."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from setpoint.errors import UsageError
from setpoint.project.config import find_config
from setpoint.prove.changed import Changes, changed_since

PIPELINE = """\
from setpoint import delta, pipeline
{imports}

@pipeline(every="day", target=delta("out/{name}", partition_by="d"))
def {name}(window, least=1):
    {body}
"""


class Repository:
    """A project below a repository, with a commit to compare with."""

    def __init__(self, top: Path) -> None:
        self.top, self.root = top, top / "warehouse"
        self.write("warehouse/setpoint.toml", '[pipelines]\npaths = ["flows"]\n')
        self.pipeline("steady")
        self.pipeline("moving")
        self.git("init", "-q", "-b", "main")
        self.commit("first")

    def write(self, place: str, text: str) -> None:
        file = self.top / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def pipeline(self, name: str, body: str = "return None", imports: str = "") -> None:
        text = PIPELINE.format(name=name, body=body, imports=imports)
        self.write(f"warehouse/flows/{name}.py", text)

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        found = subprocess.run(
            ["git", *who, *words], cwd=self.top, check=True, capture_output=True, text=True
        )
        return found.stdout

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def since(self, revision: str = "main") -> Changes:
        return changed_since(find_config(self.root), revision)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_code_definition_and_new_pipelines_count(repository: Repository) -> None:
    """Comments do not; the checkout, its index and its branches stay as they are."""
    repository.pipeline("moving", "return 2", "# a comment")
    repository.pipeline("steady", "return None  # the same")
    repository.pipeline("new")
    before = repository.git("status", "--porcelain"), repository.git("for-each-ref")
    index = (repository.top / ".git" / "index").read_bytes()
    found = repository.since()
    assert set(found.changed) == {"moving", "new"}
    assert (found.unchanged, found.removed, found.notes) == (("steady",), (), ())
    assert (repository.git("status", "--porcelain"), repository.git("for-each-ref")) == before
    assert (repository.top / ".git" / "index").read_bytes() == index
    assert not list(repository.top.rglob("__pycache__"))


def test_a_module_on_the_path_is_taken_from_the_revision(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package beside the project, as installed for development, changes what uses it."""
    monkeypatch.setenv("PYTHONPATH", f"{repository.top / 'src'}:{':'.join(sys.path)}")
    repository.write("src/rates.py", "def rate():\n    return 1\n")
    repository.pipeline("moving", "return rates.rate()", "import rates")
    repository.commit("with a module")
    repository.write("src/rates.py", "def rate():\n    return 2\n")
    found = repository.since("HEAD")
    assert (found.changed, found.unchanged) == (("moving",), ("steady",))


def test_a_module_that_comes_from_the_present_makes_all_changed(repository: Repository) -> None:
    """What would be compared with itself proves nothing."""
    repository.write("lib/rates.py", "def rate():\n    return 1\n")
    place = repository.top / "lib"
    imports = f"import sys\nsys.path.insert(0, {str(place)!r})\nimport rates"
    repository.pipeline("moving", "return rates.rate()", imports)
    repository.commit("with a path of its own")
    repository.write("lib/rates.py", "def rate():\n    return 2\n")
    found = repository.since("HEAD")
    assert set(found.changed) == {"moving", "steady"}
    assert "take modules from the present folder (rates)" in found.notes[0]


def test_what_changed_on_the_other_branch_does_not_count(repository: Repository) -> None:
    """A pull request is compared with the place where it left main."""
    repository.git("checkout", "-q", "-b", "work")
    repository.pipeline("moving", "return 5")
    repository.commit("work")
    repository.git("checkout", "-q", "main")
    repository.pipeline("steady", "return 7")
    repository.commit("meanwhile")
    repository.git("checkout", "-q", "work")
    assert repository.since("main").changed == ("moving",)


def test_a_revision_that_cannot_be_loaded_makes_all_changed(repository: Repository) -> None:
    """The note says why."""
    repository.pipeline("moving", "return (")
    repository.commit("broken")
    repository.pipeline("moving")
    (repository.root / "flows" / "steady.py").unlink()
    found = repository.since("HEAD")
    assert found.changed == ("moving",)
    assert "could not be loaded" in found.notes[0]
    assert "SyntaxError" in found.notes[0]


def test_a_project_that_the_revision_does_not_have(repository: Repository) -> None:
    """All of it is new."""
    repository.git("mv", "warehouse", "lake")
    repository.root = repository.top / "lake"
    found = repository.since("HEAD")
    assert set(found.changed) == {"moving", "steady"}
    assert found.notes == (
        "The revision does not have this project: all pipelines count as changed.",
    )


def test_revisions_and_folders_that_git_does_not_know(
    repository: Repository, tmp_path: Path
) -> None:
    """A usage error that says what git says; an option is not taken for a revision."""
    for revision in ("nowhere", "--help"):
        with pytest.raises(UsageError, match=r"SP-V31.*Fetch it"):
            repository.since(revision)
    alone = tmp_path / "alone"
    alone.mkdir()
    with pytest.raises(UsageError, match=r"not a git repository.*Go to the folder"):
        changed_since(find_config(alone), "main")


def test_a_pipeline_that_cannot_be_loaded_now_is_told_as_always(repository: Repository) -> None:
    """The error is the one that every other verb has."""
    repository.pipeline("moving", "return (")
    with pytest.raises(UsageError, match="SP-C05"):
        repository.since()
