"""`setpoint lint`: find the pipelines that will double their rows."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

from setpoint import __version__
from setpoint.cli.output import Output
from setpoint.errors import NOTHING_STARTED, UsageError, some_of
from setpoint.lint.baseline import read_baseline, write_baseline
from setpoint.lint.findings import Finding
from setpoint.lint.kinds import BY_CODE
from setpoint.lint.pages import kind_of, page
from setpoint.lint.report.data import as_data, github, sarif
from setpoint.lint.report.text import text_report
from setpoint.lint.run import Report, lint
from setpoint.lint.settings import Settings, codes
from setpoint.project.config import find_config, invalid

_CACHE = Path(".setpoint") / "lint"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="files and folders; default: this folder"
    )
    parser.add_argument(
        "--select", action="append", default=[], metavar="CODES", help="only these kinds or codes"
    )
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="CODES", help="not these kinds or codes"
    )
    parser.add_argument("--info", action="store_true", help="show findings of severity info too")
    parser.add_argument(
        "--format", choices=("text", "github", "sarif"), default="text", help="default: text"
    )
    parser.add_argument("--explain", metavar="CODE", help="print the page of a rule")
    parser.add_argument(
        "--baseline", metavar="FILE", help="findings that are known; only new ones fail"
    )
    parser.add_argument(
        "--write-baseline", action="store_true", help="write today's findings to the baseline"
    )
    parser.add_argument("--fix", action="store_true", help="make the safe repairs")
    parser.add_argument("--diff", action="store_true", help="show the repairs, change no file")
    parser.add_argument(
        "--unsafe-fixes", action="store_true", help="with --fix or --diff: those to review, too"
    )
    parser.add_argument("--no-cache", action="store_true", help="look at every file again")
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="processes; default: one per core, at most 8"
    )


def execute(options: argparse.Namespace, output: Output) -> int:
    if options.explain:
        return _explain(options.explain, output)
    _require_parser()
    settings, root = _settings(options)
    paths = [Path(name) for name in options.paths or ["."]]
    for path in paths:
        if not path.exists():
            raise _usage(f"There is no file or folder {str(path)!r:.200}")
    file = _baseline_file(options, settings, root)
    known = _known(file) if file is not None and not options.write_baseline else Counter()
    cache = None if options.no_cache else root / _CACHE
    report = lint(paths, settings, cache_folder=cache, known=known, jobs=options.jobs)
    if options.write_baseline:
        return _write_baseline(file, report, output)
    if options.fix or options.diff:
        fixed = _fix(report, options, output)
        if options.diff:
            return 1 if fixed else 0
        report = lint(paths, settings, cache_folder=cache, known=known, jobs=options.jobs)
    _answer(report, options, output)
    return 1 if report.errors else 0


def _answer(report: Report, options: argparse.Namespace, output: Output) -> None:
    data = as_data(report)
    lines: list[str]
    if options.format == "sarif":
        lines = [json.dumps(sarif(report, __version__), ensure_ascii=False)]
    elif options.format == "github":
        lines = list(github(report))
    else:
        lines = list(text_report(report, output.paint, infos=options.info))
    output.answer(data, lines, ok=not report.errors)


def _explain(word: str, output: Output) -> int:
    kind = kind_of(word)
    if kind is None:
        raise _usage(f"There is no rule {word!r:.60}; there are {some_of(BY_CODE, word)}")
    text = page(kind)
    output.answer({"rule": kind.code, "kind": kind.name, "title": kind.title, "page": text}, text)
    return 0


def _require_parser() -> None:
    from importlib.util import find_spec

    if find_spec("sqlglot") is None:
        raise UsageError(
            "SP-C08",
            "Reading SQL needs the package sqlglot, which is not installed.",
            why="Half of what lint looks for stands in SQL texts.",
            state=NOTHING_STARTED,
            next="Install it: pip install 'setpoint[lint]'",
        )


def _settings(options: argparse.Namespace) -> tuple[Settings, Path]:
    config = find_config(Path.cwd(), options.config)
    settings = config.lint

    def refuse(why: str) -> Exception:
        return _usage(why[0].upper() + why[1:])

    chosen = [word for words in options.select for word in words.split(",")]
    ignored = [word for words in options.ignore for word in words.split(",")]
    if chosen:
        settings = replace(settings, select=codes(chosen, refuse))
    if ignored:
        settings = replace(settings, ignore=settings.ignore | codes(ignored, refuse))
    return settings, config.root


def _baseline_file(options: argparse.Namespace, settings: Settings, root: Path) -> Path | None:
    if options.baseline:
        return Path(options.baseline)
    if settings.baseline:
        return root / settings.baseline
    if options.write_baseline:
        raise _usage(
            "--write-baseline needs a file: --baseline FILE, or lint.baseline in the settings"
        )
    return None


def _known(file: Path) -> Counter[str]:
    try:
        return read_baseline(file)
    except FileNotFoundError:
        raise _usage(
            f"There is no baseline {str(file)!r:.200}; make one: setpoint lint --write-baseline"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise invalid(file, f"the baseline cannot be read: {error}") from error


def _write_baseline(file: Path | None, report: Report, output: Output) -> int:
    assert file is not None
    number = write_baseline(file, report.findings)
    output.answer(
        {"baseline": str(file), "findings": number},
        f"{number:,} findings are known from now on: {file}",
    )
    return 0


def _fix(report: Report, options: argparse.Namespace, output: Output) -> int:
    """Repairs files, or shows how; tells how many findings that meets."""
    from setpoint.lint.fixes import difference, fixes, repaired

    by_path: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_path.setdefault(finding.path, []).append(finding)
    fixed = 0
    shown: list[str] = []
    for path, findings in by_path.items():
        content = Path(path).read_bytes()
        found = [fix for _, fix in fixes(path, content, findings)]
        chosen = [fix for fix in found if fix.safe or options.unsafe_fixes]
        if not chosen:
            continue
        fixed += len(chosen)
        after = repaired(content, (edit for fix in chosen for edit in fix.edits))
        if options.diff:
            shown += difference(path, content, after)
        else:
            Path(path).write_bytes(after)
            output.note(f"repaired  {path}: {', '.join(sorted({fix.message for fix in chosen}))}")
    if options.diff:
        output.answer({"repairs": fixed, "diff": "\n".join(shown)}, shown, ok=not fixed)
        output.note("1 repair" if fixed == 1 else f"{fixed} repairs")
    return fixed


def _usage(what: str) -> UsageError:
    return UsageError("SP-C01", f"{what}.", state=NOTHING_STARTED, next="See: setpoint lint --help")
