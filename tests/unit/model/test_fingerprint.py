"""What makes two runs the same run, and what makes them different ones."""

from __future__ import annotations

import datetime as dt
import importlib
import sys
import textwrap
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from setpoint.model.fingerprint import canonical, code_fingerprint, digest, run_key


def test_parts_of_a_digest_cannot_run_into_each_other() -> None:
    """("a", "b") and ("ab",) and ("ab", "") differ."""
    assert len({digest("a", "b"), digest("ab"), digest("ab", ""), digest("", "ab")}) == 4


def test_canonical_text_has_one_spelling() -> None:
    """The order of members does not count; types do."""
    assert canonical({"a": 1, "b": [2]}) == canonical({"b": [2], "a": 1})
    assert canonical(1) != canonical("1")
    assert canonical(dt.date(2026, 4, 25)) != canonical("2026-04-25")
    assert canonical(Decimal("1.0")) != canonical(1.0)
    assert canonical({3, 1, 2}) == canonical({2, 3, 1})
    with pytest.raises(TypeError):
        canonical(object())


BASE: dict[str, Any] = {
    "pipeline": "job",
    "window": "2026-04-25",
    "timezone": "UTC",
    "code": "c",
    "definition": {"every": "day"},
    "parameters": {"factor": 1},
    "inputs": {"orders": "f"},
}


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("pipeline", "job2"),
        ("window", "2026-04-26"),
        ("timezone", "Europe/Berlin"),
        ("code", "d"),
        ("definition", {"every": "hour"}),
        ("parameters", {"factor": 2}),
        ("parameters", {"factor": "1"}),
        ("parameters", {}),
        ("inputs", {"orders": "g"}),
        ("inputs", {"other": "f"}),
    ],
)
def test_every_part_of_a_run_is_in_its_key(part: str, value: Any) -> None:
    """Leave one out and a changed run would be called unchanged."""
    assert run_key(**BASE) == run_key(**dict(reversed(BASE.items())))
    assert run_key(**{**BASE, part: value}) != run_key(**BASE)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Write project modules and import one of them afresh."""
    monkeypatch.syspath_prepend(str(tmp_path))
    counter = iter(range(1000))

    def load(**files: str) -> ModuleType:
        folder = tmp_path / f"v{next(counter)}"
        folder.mkdir()
        for name, text in files.items():
            (folder / f"{name}.py").write_text(textwrap.dedent(text))
            sys.modules.pop(name, None)
        monkeypatch.syspath_prepend(str(folder))
        importlib.invalidate_caches()
        return importlib.import_module("job_module")

    return load


JOB = """
    import helper_module
    from helper_module import rate as imported_rate
    RATE = 2
    def helper(x):
        return x * RATE
    class Shape:
        SIZE = 3
    def job(window):
        '''The words do not count.'''
        return helper(window) + Shape.SIZE + imported_rate(1) + helper_module.OTHER
"""
HELPER = """
    OTHER = 1
    def rate(x):
        return x + deeper(x)
    def deeper(x):
        return x
"""


def fingerprint(load: Callable[..., ModuleType], job: str = JOB, helper: str = HELPER) -> str:
    return code_fingerprint(load(job_module=job, helper_module=helper).job)


def test_the_same_code_has_the_same_fingerprint(module: Callable[..., ModuleType]) -> None:
    """Another process, another folder, the same statement."""
    assert fingerprint(module) == fingerprint(module)


def test_code_that_is_loaded_again_counts(module: Callable[..., ModuleType]) -> None:
    """As a notebook does it, which keeps the modules and functions that it loads again."""
    loaded = module(job_module=JOB, helper_module=HELPER)
    before = code_fingerprint(loaded.job)
    file = Path(loaded.helper_module.__file__ or "")
    file.write_text(file.read_text().replace("OTHER = 1", "OTHER = 12"))
    importlib.reload(loaded.helper_module)
    assert code_fingerprint(loaded.job) != before


def test_comments_docstrings_and_layout_do_not_count(module: Callable[..., ModuleType]) -> None:
    """A reworded comment does not rewrite a year of windows."""
    other = JOB.replace("The words do not count.", "Other words.").replace(
        "return helper(window)", "# why\n        return (  helper(window) )"
    )
    assert fingerprint(module) == fingerprint(module, other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x * RATE", "x - RATE"),
        ("RATE = 2", "RATE = 3"),
        ("SIZE = 3", "SIZE = 4"),
        ("helper(window) +", "helper(window) -"),
        ("imported_rate(1)", "imported_rate(2)"),
    ],
)
def test_a_change_the_function_reaches_counts(
    module: Callable[..., ModuleType], old: str, new: str
) -> None:
    """Helpers, constants and classes are part of the code."""
    assert old in JOB
    assert fingerprint(module) != fingerprint(module, JOB.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [("return x\n", "return -x\n"), ("x + deeper(x)", "x"), ("OTHER = 1", "OTHER = 2")],
)
def test_a_change_in_an_imported_project_module_counts(
    module: Callable[..., ModuleType], old: str, new: str
) -> None:
    """Also two calls away."""
    assert old in textwrap.dedent(HELPER)
    changed = textwrap.dedent(HELPER).replace(old, new)
    assert fingerprint(module) != fingerprint(module, JOB, changed)


CORNERS: list[tuple[str, str, str | None]] = [
    (
        "a default of a helper",
        "def helper(x, by=2):\n    return x * by\ndef job(w):\n    return helper(w)\n",
        "def helper(x, by=3):\n    return x * by\ndef job(w):\n    return helper(w)\n",
    ),
    (
        "a keyword default of a helper",
        "def helper(x, *, by=2):\n    return x * by\ndef job(w):\n    return helper(w)\n",
        "def helper(x, *, by=3):\n    return x * by\ndef job(w):\n    return helper(w)\n",
    ),
    (
        "a decorator of a helper",
        "def twice(f):\n    return lambda x: f(f(x))\n"
        "def thrice(f):\n    return lambda x: f(f(f(x)))\n"
        "@twice\ndef helper(x):\n    return x + 1\ndef job(w):\n    return helper(w)\n",
        "def twice(f):\n    return lambda x: f(f(x))\n"
        "def thrice(f):\n    return lambda x: f(f(f(x)))\n"
        "@thrice\ndef helper(x):\n    return x + 1\ndef job(w):\n    return helper(w)\n",
    ),
    (
        "a base class of a class",
        "class Base:\n    def size(self):\n        return 1\n"
        "class Shape(Base):\n    pass\ndef job(w):\n    return Shape().size()\n",
        "class Base:\n    def size(self):\n        return 2\n"
        "class Shape(Base):\n    pass\ndef job(w):\n    return Shape().size()\n",
    ),
    (
        "a function that a method calls",
        "def size():\n    return 1\nclass Shape:\n    def area(self):\n        return size()\n"
        "def job(w):\n    return Shape().area()\n",
        "def size():\n    return 2\nclass Shape:\n    def area(self):\n        return size()\n"
        "def job(w):\n    return Shape().area()\n",
    ),
    (
        "a partial's function",
        "from functools import partial\ndef add(a, b):\n    return a + b\n"
        "inc = partial(add, 1)\ndef job(w):\n    return inc(w)\n",
        "from functools import partial\ndef add(a, b):\n    return a - b\n"
        "inc = partial(add, 1)\ndef job(w):\n    return inc(w)\n",
    ),
    (
        "a partial's argument",
        "from functools import partial\ndef add(a, b):\n    return a + b\n"
        "inc = partial(add, 1)\ndef job(w):\n    return inc(w)\n",
        "from functools import partial\ndef add(a, b):\n    return a + b\n"
        "inc = partial(add, 2)\ndef job(w):\n    return inc(w)\n",
    ),
    (
        "a function in a table of functions",
        "def f(x):\n    return x\nTABLE = {'a': f}\ndef job(w):\n    return TABLE['a'](w)\n",
        "def f(x):\n    return -x\nTABLE = {'a': f}\ndef job(w):\n    return TABLE['a'](w)\n",
    ),
    (
        "a module that an imported module uses",
        "import helper_module\ndef job(w):\n    return helper_module.f(w)\n",
        None,
    ),
]


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [pytest.param(*corner, id=corner[0]) for corner in CORNERS],
)
def test_changes_behind_a_corner_count(
    module: Callable[..., ModuleType], name: str, one: str, other: str | None
) -> None:
    """A changed result with an unchanged fingerprint would be served as unchanged."""
    if other is None:
        files = {"job_module": one, "helper_module": "import deep_module\ndef f(x):\n"
                 "    return deep_module.g(x)\n"}  # fmt: skip
        texts = [
            {**files, "deep_module": "def g(x):\n    return x\n"},
            {**files, "deep_module": "def g(x):\n    return -x\n"},
        ]
    else:
        texts = [{"job_module": one}, {"job_module": other}]
    found = []
    for files in texts:
        job = module(**files).job
        found.append((job(5), code_fingerprint(job)))
    assert found[0][0] != found[1][0], name
    assert found[0][1] != found[1][1], name
