"""`setpoint`: parses the command line, runs a verb, turns errors into exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

# The verbs and their one-line help; `setpoint --help` imports none of them.
VERBS: dict[str, str] = {
    "init": "start a project: a setpoint.toml and a first pipeline",
    "run": "bring windows of a pipeline to the state of one clean run",
    "backfill": "publish the missing and failed windows of a pipeline, or those you name",
    "plan": "show what a run would do, and why; runs no Spark job",
    "status": "show done, missing, failed and stale windows; runs no Spark job",
    "show": "show a window: receipt, attempts, steps, audits",
    "recover": "settle unknown commits and list what crashed attempts left",
    "check": "look for duplicates and grain mismatch in any table",
    "prove": "try a pipeline under everything that production does to it, in a sandbox",
    "lint": "find what makes existing pipelines give other rows when they run again",
    "keys": "tell which columns of a table make a key, and what is wrong with one",
    "doctor": "look at this machine and project: Java, Spark, jars, ledger",
    "demo": "watch a retry double the rows, and not double them",
}
EXIT_CODES = """exit codes:
  0  done, or nothing to do
  1  the answer is no: an audit failed, a check or lint found something, a proof failed
  2  the call or the configuration is wrong
  3  failed; running again is safe
  4  the outcome of a commit is unknown: setpoint recover
  130  interrupted; running again is safe"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        from setpoint.errors import NOTHING_STARTED, UsageError

        raise UsageError(
            "SP-C01",
            f"The command line could not be understood: {message}.",
            state=NOTHING_STARTED,
            next=f"See: {self.prog} --help",
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0
    if words[0] == "--version":
        from setpoint import __version__

        print(f"setpoint {__version__}")
        return 0
    return _run_verb(words, alone=arguments is None)


def _run_verb(words: list[str], *, alone: bool) -> int:
    from setpoint.cli.commands import Completion
    from setpoint.cli.output import Output, forget_stdout
    from setpoint.errors import SetpointError

    verb = words[0]
    output = Output(verb, as_json="--json" in words, environment=os.environ)
    output.is_process = alone
    try:
        if verb not in VERBS:
            _Parser(prog="setpoint").error(f"there is no verb {verb!r:.80}")
        module = import_module(f"setpoint.cli.{verb}")
        parser = _Parser(
            prog=f"setpoint {verb}",
            description=VERBS[verb][0].upper() + VERBS[verb][1:] + ".",
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.configure(parser)
        parser.add_argument(
            "--json", action="store_true", help="JSON on stdout; its last line is the answer"
        )
        parser.add_argument("--config", metavar="FILE", help="the setpoint.toml to use")
        parser.add_argument(
            "-v", "--verbose", action="store_true", help="tell every step on stderr"
        )
        options = parser.parse_args(words[1:])
        output.verbose = options.verbose
        output.completion = Completion.of(options)
        code: int = module.execute(options, output)
    except SetpointError as error:
        output.error(error)
        code = error.exit_code
    except KeyboardInterrupt as stop:
        output.interrupted(stop)
        code = 130
    except BrokenPipeError:
        forget_stdout()
        code = 0
    except Exception as error:
        output.error(output.unexpected(error))
        code = 3
    return code


def _help() -> str:
    width = max(len(verb) for verb in VERBS)
    verbs = "\n".join(f"  {verb:<{width}}  {text}" for verb, text in VERBS.items())
    return (
        "usage: setpoint VERB [options]\n\n"
        "Idempotent pipelines for Apache Spark: however often a window runs, its target ends\n"
        "in the state of one clean run.\n\n"
        f"verbs:\n{verbs}\n\n"
        "options:\n  -h, --help  this text; setpoint VERB --help tells more\n"
        f"  --version   the version\n\n{EXIT_CODES}"
    )


if __name__ == "__main__":
    sys.exit(main())
