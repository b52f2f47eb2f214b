"""`setpoint demo`: watch a retry double the rows, and not double them."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint import edge
from setpoint.cli.output import Output
from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.flow.faults import ALWAYS

if TYPE_CHECKING:
    from setpoint.demo.figures import Figures, Promise

PAGE = "demo.html"
_BAR = 40


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", metavar="DIR", help="an empty or new folder for the project; it is kept"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the tables; without --folder only the page stays"
    )
    parser.add_argument("--quick", action="store_true", help="two crash points instead of all")


def execute(options: argparse.Namespace, output: Output) -> int:
    surroundings = _surroundings()
    folder = _folder(options.folder)
    kept = bool(options.keep or options.folder)
    from setpoint.demo.figures import promises
    from setpoint.demo.page import render
    from setpoint.demo.replay import QUICK_POINTS, replay

    points = QUICK_POINTS if options.quick else ALWAYS
    started = edge.utc_now()
    try:
        figures = replay(
            folder, points=points, environment=os.environ, say=output.note, tell=output.tell
        )
    except KeyboardInterrupt:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    except Exception:
        output.note(f"What was made so far is kept in {folder}")
        raise
    seconds = (edge.utc_now() - started).total_seconds()
    checked = promises(figures, points)
    broken = [promise for promise in checked if not promise.kept]
    kept = kept or bool(broken)
    if not kept:
        _remove_all(folder)
    page = folder / PAGE
    page.write_text(
        render(
            figures,
            checked,
            surroundings=surroundings,
            seconds=seconds,
            folder=folder,
            kept=kept,
        ),
        encoding="utf-8",
    )
    data = _data(figures, checked, page=page, folder=folder, kept=kept, seconds=seconds)
    output.answer(data, _text(output, figures, checked, page, kept), ok=not broken)
    return 1 if broken else 0


def _surroundings() -> dict[str, str]:
    """The versions that the demo runs with; one clear error when Java or PySpark is missing."""
    from setpoint import __version__
    from setpoint.spark.jars import spark_version
    from setpoint.spark.java import find_java

    return {
        "setpoint": __version__,
        "PySpark": spark_version(),
        "Java": find_java().version,
        "Python": ".".join(map(str, sys.version_info[:3])),
    }


def _folder(wanted: str | None) -> Path:
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="setpoint-demo-"))
    folder = Path(wanted).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            "SP-C09",
            f"{folder} exists and is not an empty folder.",
            why="The demo writes a project of its own and never mixes it with other files.",
            state=NOTHING_STARTED,
            next="Name a new folder: setpoint demo --folder DIR",
        )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _remove_all(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _data(
    figures: Figures,
    checked: list[Promise],
    *,
    page: Path,
    folder: Path,
    kept: bool,
    seconds: float,
) -> dict[str, Any]:
    return {
        **figures.as_data(),
        "checks": len(checked),
        "broken": [
            {"what": item.what, "expected": item.expected, "found": item.found}
            for item in checked
            if not item.kept
        ],
        "seconds": round(seconds, 1),
        "page": str(page),
        "folder": str(folder),
        "kept": kept,
    }


def _text(
    output: Output, figures: Figures, checked: list[Promise], page: Path, kept: bool
) -> list[str]:
    from setpoint.demo.figures import last

    append, through = last(figures.append), last(figures.setpoint)
    small, small_through = last(figures.append_small), last(figures.setpoint_small)
    broken = [item for item in checked if not item.kept]
    lines = [
        "",
        _bar(output, append, append, "append", "red"),
        _bar(output, through, append, "setpoint", "green"),
        "",
        _bar(output, small, small, "append, small case", "red"),
        _bar(output, small_through, small, "setpoint, small case", "green"),
        "",
    ]
    if broken:
        lines += [
            f"{output.paint('not as promised', 'red')}  {item.what}: {item.found}, "
            f"expected {item.expected}"
            for item in broken
        ]
    else:
        points = len(figures.crash_points)
        lines.append(
            f"{output.paint('as promised', 'green')}  {points} crash points, "
            f"{len(checked)} figures checked"
        )
    lines.append(f"page    {page}")
    if kept:
        lines.append(f"folder  {page.parent}")
    return lines


def _bar(output: Output, rows: int, most: int, name: str, colour: str) -> str:
    bar = _block() * max(round(_BAR * rows / most), 1) if most else ""
    return f"{rows:>9,}  {output.paint(bar, colour)}  {name}"


def _block() -> str:
    """A full block, or a plain sign where the output cannot show one."""
    try:
        "█".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return "#"
    return "█"
