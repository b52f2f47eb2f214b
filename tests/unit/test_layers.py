"""The command line answers fast because heavy packages are imported late."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import setpoint.errors

HEAVY = ("pyspark", "deltalake", "sqlalchemy", "pyarrow", "pandas", "numpy")
LIGHT = ("edge", "errors", "model", "flow", "project", "cli")
PACKAGE = Path(setpoint.errors.__file__).parent


def light_modules() -> list[str]:
    """Every module of the layers that must start without a heavy package."""
    names = []
    for layer in LIGHT:
        if (PACKAGE / layer).is_dir():
            found = pkgutil.walk_packages([str(PACKAGE / layer)], f"setpoint.{layer}.")
            names += [f"setpoint.{layer}", *(module.name for module in found)]
        elif (PACKAGE / f"{layer}.py").is_file():
            names.append(f"setpoint.{layer}")
    return [name for name in names if not name.endswith(".__main__")]


@pytest.mark.parametrize("package", HEAVY)
def test_light_layers_leave_heavy_packages_alone(package: str, loaded: frozenset[str]) -> None:
    """Importing all of model, flow, project and cli does not import a heavy package."""
    assert package not in loaded


def test_light_layers_are_found() -> None:
    """The walk finds modules, so that the test above cannot pass on nothing."""
    assert "setpoint.errors" in light_modules()
    assert any(name.startswith("setpoint.model.") for name in light_modules())


@pytest.fixture(scope="module")
def loaded() -> frozenset[str]:
    """The modules of a fresh interpreter after it has imported all light layers."""
    lines = [f"import {name}" for name in light_modules()]
    script = "\n".join([*lines, "import sys", "print(*sys.modules, sep='\\n')"])
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return frozenset(answer.stdout.split())
