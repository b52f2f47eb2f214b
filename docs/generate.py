"""Writes what the docs take from the code: python docs/generate.py

That is docs/reference/cli.md, from the parsers, and the tables between the markers of
docs/reference/patterns.md, from the matrix, and of docs/reference/prove.md, from the registry of
experiments. A test compares the files with what this module makes, so the pages cannot fall
behind the code.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from setpoint.cli.main import EXIT_CODES, VERBS
from setpoint.model.support import LIMITS, MATRIX
from setpoint.model.table import TABLES
from setpoint.model.write import PATTERNS
from setpoint.prove.experiments import EXPERIMENTS

PAGE = Path(__file__).parent / "reference" / "cli.md"
PATTERNS_PAGE = Path(__file__).parent / "reference" / "patterns.md"
PROVE_PAGE = Path(__file__).parent / "reference" / "prove.md"
LABELS = {
    "delta": "Delta Lake",
    "iceberg": "Apache Iceberg",
    "parquet": "Parquet in a metastore",
    "postgres": "PostgreSQL",
}

HEAD = """\
# Command line

This page is generated from the parsers: `python docs/generate.py`.

```
setpoint VERB [options]
```

Answers go to stdout. Messages, warnings and progress go to stderr. Ctrl-C is safe at any moment:
every window then holds its old rows or its new ones.

## Options of every verb

| option | meaning |
|---|---|
| `--json` | one JSON object on stdout: `{"ok": …, "schema": "setpoint.VERB/1", "data": …}`, \
or `"error"` with `code`, `what`, `why`, `state` and `next` |
| `--config FILE` | the `setpoint.toml` to use; default: the one of this folder, or the nearest \
one above it |
| `-v`, `--verbose` | tell every step on stderr |
| `-h`, `--help` | the help of the verb |

`setpoint --help` lists the verbs, `setpoint --version` tells the version.

## Windows

`--window` takes an id, a range `A..B` (both ends included), or a list `A,C..D`. A coarser id
stands for all its windows: `2026-04` is every day of April for a daily pipeline. Without a window
the latest complete one is taken; it is printed, and recorded as resolved from the clock. Ids are
explained in [windows](windows.md).
"""


def page() -> str:
    """The whole page as it should be."""
    sections = [HEAD, _exit_codes(), *(_verb(verb) for verb in VERBS)]
    return "\n".join(sections)


def patterns_page(text: str) -> str:
    """The page of the write patterns with its generated parts as they should be."""
    return _filled(PATTERNS_PAGE, text, {"matrix": _matrix(), "limits": _limits()})


def prove_page(text: str) -> str:
    """The page of proofs with its table of experiments as it should be."""
    return _filled(PROVE_PAGE, text, {"experiments": _experiments()})


def _filled(page: Path, text: str, parts: dict[str, str]) -> str:
    for name, part in parts.items():
        start, end = f"<!-- {name}: python docs/generate.py -->", f"<!-- end of {name} -->"
        before, found, rest = text.partition(start)
        _, ended, after = rest.partition(end)
        if not found or not ended:
            raise ValueError(f"{page.name} has no markers for {name}")
        text = f"{before}{start}\n{part}\n{end}{after}"
    return text


def _experiments() -> str:
    lines = ["| experiment | set | what is done | as in | for |", "|---" * 5 + "|"]
    for item in EXPERIMENTS.values():
        which, subjects = "quick" if item.quick else "full", " and ".join(item.subjects)
        lines.append(f"| `{item.name}` | {which} | {item.what} | {item.why} | {subjects} |")
    return "\n".join(lines)


def _matrix() -> str:
    kinds = [table.kind for table in TABLES]
    lines = ["| | " + " | ".join(LABELS[kind] for kind in kinds) + " |", "|---" * 5 + "|"]
    for pattern in PATTERNS:
        cells = [_mechanism(pattern.name, kind) for kind in kinds]
        lines.append(f"| **`{pattern.__name__}`** | {' | '.join(cells)} |")
    return "\n".join(lines)


def _mechanism(pattern: str, kind: str) -> str:
    cell = next((cell for key, cell in MATRIX.items() if key == (pattern, kind)), None)
    if cell is None:
        return "refused (`SP-D10`)"
    return f"{cell.mechanism} ({cell.only_if})" if cell.only_if else cell.mechanism


def _limits() -> str:
    parts = []
    for table in TABLES:
        page = f"[{LABELS[table.kind]}](../explanation/{table.kind}.md)"
        parts.append("\n".join([f"**{page}**\n", *(f"- {line}" for line in LIMITS[table.kind])]))
    return "\n\n".join(parts)


def parser_of(verb: str) -> argparse.ArgumentParser:
    """The verb's own arguments, without those of every verb."""
    parser = argparse.ArgumentParser(prog=f"setpoint {verb}", add_help=False)
    import_module(f"setpoint.cli.{verb}").configure(parser)
    return parser


def _exit_codes() -> str:
    rows = []
    for line in EXIT_CODES.splitlines()[1:]:
        code, _, meaning = line.strip().partition("  ")
        rows.append(f"| {code} | {meaning.strip()} |")
    return "## Exit codes\n\n| code | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"


def _verb(verb: str) -> str:
    lines = [f"## {verb}\n", f"{VERBS[verb][0].upper()}{VERBS[verb][1:]}.\n"]
    actions = [a for a in parser_of(verb)._actions if a.help != argparse.SUPPRESS]
    lines.append(
        f"```\nsetpoint {' '.join([verb, *(_usage(action) for action in actions)])}\n```\n"
    )
    if actions:
        lines.append("| argument | meaning |\n|---|---|")
        lines += [f"| {_name(action)} | {_cell(action)} |" for action in actions]
        lines.append("")
    return "\n".join(lines)


def _usage(action: argparse.Action) -> str:
    if not action.option_strings:
        name = str(action.metavar or action.dest)
        return f"[{name}]" if action.nargs in ("?", "*") else name
    text = action.option_strings[-1]
    if action.nargs != 0:
        text += f" {_value(action)}"
    return text if action.required else f"[{text}]"


def _name(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    value = "" if action.nargs == 0 else f" {_value(action)}"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _value(action: argparse.Action) -> str:
    if action.metavar:
        return str(action.metavar)
    if action.choices:
        return "{" + ",".join(str(choice) for choice in action.choices) + "}"
    return action.dest.upper()


def _cell(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    text = PATTERNS_PAGE.read_text(encoding="utf-8")
    PATTERNS_PAGE.write_text(patterns_page(text), encoding="utf-8")
    text = PROVE_PAGE.read_text(encoding="utf-8")
    PROVE_PAGE.write_text(prove_page(text), encoding="utf-8")
