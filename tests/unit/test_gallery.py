"""The gallery and the mutants stay what they say: well-formed, complete, and about this source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from setpoint.prove.evidence import CAUSES
from setpoint.prove.experiments import EXPERIMENTS
from setpoint.prove.trials import TRIALS

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "gallery"


@pytest.fixture
def gallery(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules of the gallery, importable for one test."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(GALLERY))
    monkeypatch.syspath_prepend(str(GALLERY / "mutants"))
    yield
    for name in set(sys.modules) - before:
        if str(GALLERY) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.usefixtures("gallery")
def test_every_case_says_what_has_to_be_found() -> None:
    """Broken ones name experiments and a cause, correct ones what they withstand; many of each."""
    from cases import cases
    from judge import causes

    found = cases()
    assert sum(case.broken for case in found) >= 30
    assert sum(not case.broken for case in found) >= 20
    labels = [case.label for case in found]
    assert len(set(labels)) == len(labels)
    for case in found:
        subject = case.sort
        known = {name for name, item in EXPERIMENTS.items() if subject in item.subjects}
        assert case.what, case.label
        assert case.experiments, case.label
        assert set(case.experiments) <= known, case.label
        assert bool(case.causes) == case.broken, case.label
        assert set(case.causes) <= causes(), case.label
        if case.sort == "command":
            assert {"Table", "Lake"} & set(case.fields), case.label


@pytest.mark.usefixtures("gallery")
def test_the_judge_knows_every_cause_that_the_code_can_give() -> None:
    """And no other: a cause that nothing gives any more is not one to wait for."""
    from judge import causes

    given = {
        kind
        for file in (ROOT / "src/setpoint/prove").rglob("*.py")
        for kind in _kinds_in(ast.parse(file.read_text(encoding="utf-8")))
    }
    assert given == set(CAUSES)
    assert given <= causes()


def _kinds_in(module: ast.Module) -> Iterator[str]:
    """The words that code gives as the kind of a cause; those of findings are not spelled here."""
    named: dict[str, list[ast.expr]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.setdefault(node.targets[0].id, []).append(node.value)

    def words(value: ast.expr) -> Iterator[str]:
        match value:
            case ast.Constant(value=str(word)):
                yield word
            case ast.IfExp():
                yield from (*words(value.body), *words(value.orelse))
            case ast.Dict():
                for item in value.values:
                    yield from words(item)
            case ast.Name() | ast.Subscript(value=ast.Name()):
                name = value if isinstance(value, ast.Name) else value.value
                for meant in named.pop(getattr(name, "id", ""), []):
                    yield from words(meant)

    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Name(id="Cause" | "Blame" | "_told"), args=[first, *_]):
                yield from words(first)
            case ast.Dict():
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "cause":
                        yield from words(value)


@pytest.mark.usefixtures("gallery")
def test_every_mutation_finds_its_text() -> None:
    """A guarantee whose source has changed gets another mutation, or none would notice."""
    from mutations import MUTANTS

    assert len({item.name for item in MUTANTS}) == len(MUTANTS) >= 10
    subjects = (GALLERY / "mutants" / "subjects.py").read_text()
    for item in MUTANTS:
        text = (ROOT / "src/setpoint" / item.file).read_text()
        for old, new in item.changes:
            assert text.count(old) == 1, f"{item.name}: {item.file} has no {old!r}"
            assert new != old
            text = text.replace(old, new)
        compile(text, item.file, "exec")
        if not item.tests:
            assert f"def {item.pipeline}(" in subjects
            assert set(item.experiments) <= set(TRIALS)
            continue
        file, _, name = item.tests.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text()
