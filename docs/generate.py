"""Writes docs/reference/cli.md from the parsers: python docs/generate.py

A test compares the file with what this module makes, so the page cannot fall behind the code.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from setpoint.cli.main import EXIT_CODES, VERBS

PAGE = Path(__file__).parent / "reference" / "cli.md"

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
