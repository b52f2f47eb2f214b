"""Prove every case of the gallery, and show what was caught, by what, and why.

python gallery/run.py                     all cases; the last line is `caught N/N, passed M/M`
python gallery/run.py append uuid         the cases whose names hold one of these texts
python gallery/run.py --markdown FILE     also write the table to a page
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cases import Case, cases
from judge import Judgement
from workshop import workshop

_WIDTHS = (48, 10, 24, 22)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Prove the cases of the gallery.")
    parser.add_argument("names", nargs="*", help="texts of which a case's name holds one")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    options = parser.parse_args(words)
    chosen = [case for case in cases() if _is_meant(case, options.names)]
    judgements: list[Judgement] = []
    with workshop() as place:
        for case in chosen:
            judgement = place.try_case(case)
            judgements.append(judgement)
            print(_line(judgement), flush=True)
            if judgement.wrong:
                print(f"  WRONG  {judgement.wrong}", flush=True)
    if options.markdown:
        options.markdown.write_text(markdown(judgements), encoding="utf-8")
    print(summary(judgements))
    return 1 if any(judgement.wrong for judgement in judgements) else 0


def summary(judgements: Sequence[Judgement]) -> str:
    """`caught N/N, passed M/M`."""
    broken = [judgement for judgement in judgements if judgement.case.broken]
    correct = [judgement for judgement in judgements if not judgement.case.broken]
    caught, passed = (sum(not item.wrong for item in group) for group in (broken, correct))
    return f"caught {caught}/{len(broken)}, passed {passed}/{len(correct)}"


def markdown(judgements: Sequence[Judgement]) -> str:
    """The table as a page has it: what each case is, and what the proof said."""
    rows = []
    for judgement in judgements:
        case, (_, said, caught, cause) = judgement.case, judgement.cells
        tried = caught if case.broken else ", ".join(case.experiments)
        rows.append(f"| `{case.label}` | {case.what} | {said} | {tried} | {cause} |")
    head = "| case | what | verdict | caught by, or tried | cause |\n|---|---|---|---|---|"
    return "\n".join([head, *rows, "", summary(judgements), ""])


def _is_meant(case: Case, texts: Sequence[str]) -> bool:
    return not texts or any(text in case.label for text in texts)


def _line(judgement: Judgement) -> str:
    cells = zip(judgement.cells, _WIDTHS, strict=True)
    mark = "WRONG" if judgement.wrong else "ok"
    return (
        f"{'  '.join(f'{cell:<{width}}' for cell, width in cells)}  {mark} {judgement.seconds:.0f}s"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
