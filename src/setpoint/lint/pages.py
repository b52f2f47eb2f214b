"""The page of each rule, as `--explain` prints it."""

from __future__ import annotations

from pathlib import Path

from setpoint.lint.kinds import BY_CODE, BY_NAME, Kind

_HERE = Path(__file__).parent
# In the wheel the pages lie beside the code, in a checkout in docs/.
_FOLDERS = (_HERE / "explained", _HERE.parents[2] / "docs" / "lint")


def kind_of(word: str) -> Kind | None:
    """A kind by its code or by its name."""
    return BY_CODE.get(word.upper()) or BY_NAME.get(word.lower())


def page(kind: Kind) -> str:
    """The text of a page; its title alone if the pages were not installed."""
    for folder in _FOLDERS:
        file = folder / f"{kind.name}.md"
        if file.is_file():
            return file.read_text(encoding="utf-8").rstrip()
    return f"# {kind.code} {kind.name}\n\n{kind.title}."
