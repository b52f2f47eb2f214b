"""The documentation is a contract: what the code has, the pages name; what they show, holds."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
from pathlib import Path
from typing import Any

import pytest

import setpoint
from setpoint import testing
from setpoint.cli import init
from setpoint.cli.main import VERBS, main
from setpoint.errors import CODES
from setpoint.flow.faults import ACTIONS, POINTS
from setpoint.flow.status import STATES
from setpoint.model.receipt import Receipt
from setpoint.model.support import LIMITS
from setpoint.model.table import TABLES
from setpoint.model.write import PATTERNS
from setpoint.project.config import SETTINGS

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "bench").glob("*.md")])
REFERENCE = DOCS / "reference"
# fmt: off
GLOSSARY = [
    "pipeline", "window", "grain", "source", "target", "slice", "write pattern", "run", "run key",
    "attempt", "generation", "stage", "audit", "publish", "receipt", "ledger", "unknown commit",
    "recover", "high-water mark", "gap", "backfill", "restate", "effect", "outbox", "fingerprint",
    "fault", "proof", "finding", "suppression", "key", "sequence", "batch", "removal", "tombstone",
    "quarantine", "contradiction", "cursor", "lookback", "superseded", "matrix", "catalog",
    "connection", "metastore", "landing", "origin", "baseline", "taint", "trace",
]
# fmt: on
PUBLIC = {"setpoint": setpoint, "setpoint.testing": testing}
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def sections(text: str, level: int) -> dict[str, str]:
    parts = re.split(rf"^{'#' * level} (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", _FENCE.sub("", read(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("code", CODES)
def test_every_error_code_has_a_cause_and_an_advice(code: str) -> None:
    """The error reference explains each code with its meaning, a cause and what to do."""
    section = sections(read(REFERENCE / "errors.md"), 3)[code].split("\n## ")[0]
    assert CODES[code].lower() in section.lower()
    assert "- Typical cause: " in section
    assert "- What to do: " in section


def test_no_page_names_a_code_that_does_not_exist() -> None:
    """A code that was removed or mistyped is found in every page."""
    named = {code for page in PAGES for code in re.findall(r"SP-[A-Z]\d\d", read(page))}
    assert named <= set(CODES)


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_is_documented(setting: str) -> None:
    """The configuration reference has a row for each setting."""
    assert f"| `{setting}` |" in read(REFERENCE / "configuration.md")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_is_documented(verb: str) -> None:
    """What a verb's help offers stands in its section or among the options of every verb."""
    text = read(REFERENCE / "cli.md")
    parts = sections(text, 2)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit):
        main([verb, "--help"])
    offered = set(re.findall(r"--[a-z][a-z-]*", printed.getvalue().split("exit codes:")[0]))
    known = parts[verb] + parts["Options of every verb"]
    assert not [option for option in sorted(offered) if f"`{option}" not in known]


@pytest.fixture(scope="module")
def generate() -> Any:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_command_line_reference_is_up_to_date(generate: Any) -> None:
    """docs/reference/cli.md is what docs/generate.py makes of the parsers now."""
    assert read(generate.PAGE) == generate.page(), "run: python docs/generate.py"


def test_the_matrix_of_patterns_and_destinations_is_up_to_date(generate: Any) -> None:
    """The tables of docs/reference/patterns.md are what the code says now."""
    text = read(generate.PATTERNS_PAGE)
    assert text == generate.patterns_page(text), "run: python docs/generate.py"


def test_the_table_of_experiments_is_up_to_date(generate: Any) -> None:
    """The table of docs/reference/prove.md is what the registry says now."""
    text = read(generate.PROVE_PAGE)
    assert text == generate.prove_page(text), "run: python docs/generate.py"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_argument_of_a_pattern_is_documented(pattern: Any) -> None:
    """The section of a pattern has a row for each argument and names its choices."""
    section = sections(read(REFERENCE / "patterns.md"), 2)[f"`{pattern.__name__}`"]
    assert not [n for n in pattern.__dataclass_fields__ if f"| `{n}` |" not in section]


def test_every_destination_has_its_limits() -> None:
    """What cannot be promised is said for every kind of table, and for nothing else."""
    assert set(LIMITS) == {table.kind for table in TABLES}
    assert all(LIMITS.values())


def test_every_environment_variable_of_ours_is_documented() -> None:
    """Each SETPOINT_ variable that the source names has a row in the environment reference."""
    files = (ROOT / "src").rglob("*.py")
    used = {name for file in files for name in re.findall(r"SETPOINT_[A-Z]+", read(file))}
    page = read(REFERENCE / "environment.md")
    assert used
    assert not [name for name in sorted(used) if f"| `{name}` |" not in page]


def test_every_crash_point_and_action_is_documented() -> None:
    """The environment reference names the points and actions, the promise what each leaves."""
    environment = read(REFERENCE / "environment.md")
    promise = read(DOCS / "explanation" / "promise.md")
    assert not [p for p in POINTS if f"| `{p}` |" not in environment]
    assert not [p for p in POINTS if f"| `{p}` |" not in promise]
    assert not [a for a in ACTIONS if f"| `{a}" not in environment]


def test_every_state_of_a_window_and_field_of_a_receipt_is_documented() -> None:
    """The receipts page explains what status and show print."""
    page = read(REFERENCE / "receipts.md")
    assert not [state for state in STATES if f"| `{state}` | {STATES[state]} |" not in page]
    assert not [name for name in Receipt.__dataclass_fields__ if f"`{name}`" not in page]


@pytest.mark.parametrize("word", GLOSSARY)
def test_every_word_is_in_the_glossary(word: str) -> None:
    """One word per concept, and each one is explained."""
    assert f"| **{word}** |" in read(DOCS / "glossary.md")


@pytest.mark.parametrize("name", [n for n in setpoint.__all__ if n != "__version__"])
def test_every_public_name_is_documented(name: str) -> None:
    """A name that can be imported from setpoint stands as code in a reference or how-to page."""
    pages = [*REFERENCE.glob("*.md"), *(DOCS / "how-to").glob("*.md")]
    shown = re.compile(rf"`[^`\n]*\b{name}\b[^`\n]*`")
    assert any(shown.search(read(page)) for page in pages)


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_for_tests_is_documented(name: str) -> None:
    """So is what can be imported from setpoint.testing."""
    assert re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", read(REFERENCE / "testing.md"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    """Links and images between the pages resolve, headings included."""
    broken = []
    for link in _LINK.findall(_FENCE.sub("", read(page))):
        if "://" in link or link.startswith("mailto:"):
            continue
        file, _, anchor = link.partition("#")
        aim = (page.parent / file).resolve() if file else page
        if not aim.exists() or (anchor and aim.suffix == ".md" and anchor not in anchors(aim)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_in_the_pages_compiles(page: Path) -> None:
    """Each block of Python is whole enough to be parsed."""
    for language, block in _FENCE.findall(read(page)):
        if language == "python":
            ast.parse(block)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_in_the_pages_imports_public_names_only(page: Path) -> None:
    """What an example imports from setpoint exists and is public."""
    for language, block in _FENCE.findall(read(page)):
        if language != "python":
            continue
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module in PUBLIC:
                assert {alias.name for alias in node.names} <= set(PUBLIC[node.module].__all__)


def test_the_example_is_what_init_writes() -> None:
    """The pipeline in the README is, letter for letter, the file of `setpoint init`."""
    blocks = [block for language, block in _FENCE.findall(read(ROOT / "README.md")) if language]
    assert init.PIPELINE in blocks


def test_every_page_can_be_reached_from_the_readme() -> None:
    """No page is an orphan: links lead from the README to all of them."""
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        for link in _LINK.findall(read(page)):
            if "://" not in link:
                todo.append((page.parent / link.partition("#")[0]).resolve())
    assert not [name_of(page) for page in PAGES if page not in reached]
