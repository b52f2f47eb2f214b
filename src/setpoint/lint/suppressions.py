"""Comments that let a finding stand: `setpoint: ignore[SP104] why it is all right`.

The reason is not decoration. Whoever reads the line next has to decide whether it still holds,
so a comment without one is a finding itself, and so is one that no finding needs any more.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

from setpoint.lint.findings import Finding, Place
from setpoint.lint.kinds import BARE_SUPPRESSION, BY_CODE, BY_NAME, META, UNUSED_SUPPRESSION

_COMMENT = re.compile(r"(#|--)\s*setpoint:\s*ignore\s*(?:\[([^\]]*)\])?[ \t]*(.*)$")
_MENTION = "setpoint: ignore"


@dataclass(frozen=True)
class Suppression:
    """One comment: the line it is for, the codes, the reason."""

    line: int
    covers: int
    codes: frozenset[str]
    reason: str


def suppressions(source: Sequence[str]) -> list[Suppression]:
    """The suppressing comments of a file."""
    if not any("setpoint:" in line for line in source):
        return []
    comments = _comment_lines(source)
    found = []
    for number, line in enumerate(source, 1):
        match = _COMMENT.search(line)
        if match is None or (match[1] == "#" and comments is not None and number not in comments):
            continue
        alone = not line[: match.start()].strip(" \t\"',")
        words = [word.strip() for word in (match[2] or "").split(",") if word.strip()]
        codes = frozenset(BY_NAME[word].code if word in BY_NAME else word for word in words)
        reason = match[3].strip().rstrip('",\\n').strip()
        found.append(Suppression(number, _next(source, number) if alone else number, codes, reason))
    return found


def _comment_lines(source: Sequence[str]) -> set[int] | None:
    """Lines with a real comment; None when the file is not Python that can be read."""
    lines = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(source) + "\n").readline):
            if token.type == tokenize.COMMENT and _MENTION in token.string:
                lines.add(token.start[0])
    except (tokenize.TokenError, SyntaxError, ValueError):
        return None
    return lines


def _next(source: Sequence[str], number: int) -> int:
    for later in range(number, len(source)):
        text = source[later].strip()
        if text and not _COMMENT.search(text):
            return later + 1
    return number


def apply(
    path: str, source: Sequence[str], findings: list[Finding]
) -> tuple[list[Finding], list[Finding]]:
    """The findings that stay, and those that a comment lets stand."""
    comments = suppressions(source)
    if not comments:
        return findings, []
    kept, silenced = [], []
    used: set[int] = set()
    for finding in findings:
        match = next((c for c in comments if _covers(c, finding)), None)
        if match is None:
            kept.append(finding)
        else:
            used.add(match.line)
            silenced.append(finding)
    for comment in comments:
        kept += _complaints(path, source, comment, comment.line in used)
    return sorted(kept, key=Finding.order), silenced


def _covers(comment: Suppression, finding: Finding) -> bool:
    right_line = comment.covers == finding.place.line
    return right_line and finding.code in comment.codes and bool(comment.reason)


def _complaints(
    path: str, source: Sequence[str], comment: Suppression, used: bool
) -> list[Finding]:
    place = Place(comment.line)
    text = source[comment.line - 1]
    unknown = sorted(code for code in comment.codes if code not in BY_CODE)
    if not comment.codes or unknown:
        what = f"{unknown[0]} is no code of lint" if unknown else "The comment names no code"
        return [
            Finding(
                BARE_SUPPRESSION,
                META[BARE_SUPPRESSION],
                place,
                f"{what}, so it suppresses nothing.",
                "Name the code: # setpoint: ignore[SP104] the reason",
                path=path,
                text=text,
            )
        ]
    if not comment.reason:
        return [
            Finding(
                BARE_SUPPRESSION,
                META[BARE_SUPPRESSION],
                place,
                "The comment gives no reason, so it suppresses nothing.",
                "Say behind the bracket why the finding may stand.",
                path=path,
                text=text,
            )
        ]
    if used:
        return []
    return [
        Finding(
            UNUSED_SUPPRESSION,
            META[UNUSED_SUPPRESSION],
            place,
            f"No finding of {', '.join(sorted(comment.codes))} is here to suppress.",
            "Remove the comment.",
            "info",
            path,
            text,
        )
    ]
