"""Python to a syntax tree, also when parts of it are broken or newer than this interpreter."""

from __future__ import annotations

import ast
import re
import warnings

_ATTEMPTS = 40
_FORMATTED = re.compile(r"\b[rR]?[fF][rR]?\"")
_HOLE = re.compile(r"\{[^{}]*\}")
_TOP = re.compile(r"^(?=[A-Za-z_@])(?!(?:else|elif|except|finally)\b)")


def parse(text: str) -> tuple[ast.Module, tuple[int, ...]]:
    """The tree, and the lines that had to be left out."""
    tree = _try(text)
    if tree is not None:
        return tree, ()
    lines = text.split("\n")
    lost: list[int] = []
    body: list[ast.stmt] = []
    starts = [index for index, line in enumerate(lines) if _TOP.match(line)] or [0]
    blocks = list(zip(starts, [*starts[1:], len(lines)], strict=True))
    index = 0
    while index < len(blocks):
        start, _ = blocks[index]
        # A string over several lines may hold lines that look like the start of a block.
        for last in range(index, min(index + 40, len(blocks))):
            part = _try("\n".join(lines[start : blocks[last][1]]))
            if part is not None:
                body += _moved(part, start)
                index = last
                break
        else:
            end = blocks[index][1]
            body += _repaired(lines[start:end], start, lost)
        index += 1
    return ast.Module(body=body, type_ignores=[]), tuple(sorted(set(lost)))


def _try(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _moved(part: ast.Module, start: int) -> list[ast.stmt]:
    """Statements with the line numbers of their file."""
    ast.increment_lineno(part, start)
    return part.body


def _older(line: str) -> str:
    """A line whose f-string has its own quotes inside its braces, as an older grammar takes it."""
    if not _FORMATTED.search(line):
        return line
    return _HOLE.sub(lambda hole: hole[0].replace('"', "'"), line)


def _repaired(block: list[str], start: int, lost: list[int]) -> list[ast.stmt]:
    """A block without the lines that its parser stumbles over."""
    lines = list(block)
    for _ in range(_ATTEMPTS):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return _moved(ast.parse("\n".join(lines)), start)
        except SyntaxError as error:
            at = (error.lineno or 1) - 1
            while 0 <= at < len(lines) and lines[at].strip() in ("", "pass"):
                at -= 1
            if not 0 <= at < len(lines):
                break
            if (older := _older(lines[at])) != lines[at]:
                lines[at] = older
                continue
            lost.append(start + at + 1)
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            opens = lines[at].rstrip().endswith(":")
            lines[at] = f"{indent}if 1:" if opens else f"{indent}pass"
        except (ValueError, RecursionError, MemoryError):
            break
    lost.append(start + 1)
    return []
