"""Scores lint on labelled files: python bench/lint_score.py LABELS TEXTS_DIR [--json]

LABELS has one JSON object per line: a public file with the lines that are violations, the
look-alikes that are not, and the ambiguous lines that are left out. TEXTS_DIR holds the files
as OWNER+NAME/PATH; they are other people's and are not part of this repository.

Precision: of the error findings outside ambiguous lines, the share that meets a labelled line.
Recall: of the hard violations, the share that an error finding meets.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import defaultdict
from pathlib import Path

from setpoint.lint.analyse import analyse


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("labels", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--misses", action="store_true", help="list what is wrong")
    options = parser.parse_args()
    labels = [json.loads(line) for line in options.labels.read_text().splitlines() if line.strip()]
    score = Score()
    missing = []
    for label in labels:
        file = options.texts / label["repo"].replace("/", "+") / label["path"]
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != label["sha256"]:
            missing.append(f"{label['repo']}/{label['path']}")
            continue
        score.add(label, analyse(label["path"], file.read_bytes()))
    if missing:
        print(f"{len(missing)} texts are missing or differ: {', '.join(missing)}", file=sys.stderr)
    report = score.report(files=len(labels) - len(missing))
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        print_report(report, score if options.misses else None)
    return 0 if not missing else 1


class Score:
    """Counts hits and misses per kind."""

    def __init__(self) -> None:
        self.true: dict[str, int] = defaultdict(int)
        self.false: dict[str, int] = defaultdict(int)
        self.met: dict[str, int] = defaultdict(int)
        self.hard: dict[str, int] = defaultdict(int)
        self.wrong: list[str] = []

    def add(self, label, findings) -> None:
        name = f"{label['repo']}/{label['path']}"
        errors = [f for f in findings if f.severity == "error"]
        ambiguous = {item["line"] for item in label.get("ambiguous", [])}
        for finding in errors:
            if any(meets(finding, item) for item in label["lines"]):
                self.true[finding.kind] += 1
            elif finding.line not in ambiguous:
                self.false[finding.kind] += 1
                self.wrong.append(f"FALSE {name}:{finding.line} {finding.kind}: {finding.message}")
        for item in label["lines"]:
            if item["grade"] != "hard":
                continue
            self.hard[item["kind"]] += 1
            if any(meets(finding, item) for finding in errors):
                self.met[item["kind"]] += 1
            else:
                self.wrong.append(
                    f"MISSED {name}:{item['line']} {item['kind']}: {item.get('note', '')}"
                )

    def report(self, files: int) -> dict:
        kinds = sorted({*self.true, *self.false, *self.hard})
        rows = {
            kind: row(self.true[kind], self.false[kind], self.met[kind], self.hard[kind])
            for kind in kinds
        }
        total = row(*(sum(c.values()) for c in (self.true, self.false, self.met, self.hard)))
        return {"files": files, "kinds": rows, "all": total}


def meets(finding, item) -> bool:
    lines = {item["line"], *item.get("alt_lines", [])}
    kinds = {item["kind"], *item.get("alt_kinds", [])}
    return finding.line in lines and finding.kind in kinds


def row(true: int, false: int, met: int, hard: int) -> dict:
    return {
        "true": true,
        "false": false,
        "precision": round(true / (true + false), 3) if true + false else None,
        "met": met,
        "hard": hard,
        "recall": round(met / hard, 3) if hard else None,
    }


def print_report(report: dict, score: Score | None) -> None:
    print(f"{'kind':<28}{'true':>6}{'false':>7}{'precision':>11}{'met':>6}{'hard':>6}{'recall':>8}")
    for kind, figures in [*report["kinds"].items(), ("all", report["all"])]:
        cells = [figures[name] for name in ("true", "false", "precision", "met", "hard", "recall")]
        shown = ["-" if cell is None else str(cell) for cell in cells]
        print("{:<28}{:>6}{:>7}{:>11}{:>6}{:>6}{:>8}".format(kind, *shown))
    print(f"{report['files']} files")
    for line in score.wrong if score else []:
        print(line)


if __name__ == "__main__":
    sys.exit(main())
