"""Every error a user can meet: one base, stable codes, four parts.

An error says what happened, why it matters, in what state the data is now, and what to do
next. `CODES` is the catalogue; `docs/reference/errors.md` explains each one and a test keeps
the two in step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

UNCHANGED = "The target is unchanged."
NOTHING_STARTED = "Nothing was started; the target is unchanged."
# For what may be met after other windows of the same command were published.
UNTOUCHED = "This changed no window."
_NAMES = 20

CODES: dict[str, str] = {
    # usage and configuration
    "SP-C01": "the command line could not be understood",
    "SP-C02": "no project configuration was found",
    "SP-C03": "the project configuration is not valid",
    "SP-C04": "no pipeline has that name",
    "SP-C05": "a pipeline file could not be loaded",
    "SP-C06": "a parameter is unknown or its value does not fit",
    "SP-C07": "a destructive command needs a confirmation",
    "SP-C08": "a package that this needs is not installed",
    "SP-C09": "a file or folder that init would write already exists",
    # pipeline definitions
    "SP-D01": "the pipeline's definition is not valid",
    "SP-D02": "the pipeline's grain is not known",
    "SP-D03": "the target has no column that the window can own",
    "SP-D04": "the partition is coarser than the window",
    "SP-D05": "two pipelines write to the same target",
    "SP-D06": "an audit's definition is not valid",
    "SP-D07": "a source's definition is not valid",
    "SP-D08": "the pipeline was called without one of its inputs",
    "SP-D09": "the write pattern's definition is not valid",
    "SP-D10": "the target cannot keep the promise with this write pattern",
    "SP-D11": "a pipeline with spans=True asks for the one date of its window",
    # windows
    "SP-W01": "the text is not a window id",
    "SP-W02": "the window does not belong to this grain",
    "SP-W03": "the range of windows is not valid",
    "SP-W04": "the time zone is not known",
    # Spark
    "SP-S01": "no Spark session could be made",
    "SP-S02": "no Java runtime was found",
    "SP-S03": "a connector jar is missing",
    "SP-S04": "a Spark job failed",
    "SP-S05": "the pipeline's own code failed",
    "SP-S06": "the engine behind the Spark session cannot keep the promise",
    # reads
    "SP-R01": "a source could not be read",
    "SP-R02": "a source has no such time column",
    "SP-R03": "a cursor holds nulls",
    "SP-R04": "a source changed while it was read",
    "SP-R05": "what the last publish has read cannot be read again",
    "SP-R06": "rows arrived late, and the source's policy is to refuse them",
    "SP-R07": "a window of another pipeline that is read was not published",
    "SP-R08": "an input that is given for a window holds rows of other windows",
    # HTTP APIs, landing and functions of rows
    "SP-H01": "an API did not answer as it should",
    "SP-H02": "an API's credentials are missing or refused",
    "SP-H03": "an API refused the request",
    "SP-H04": "the pages of an API do not add up",
    "SP-H05": "an item does not fit its schema",
    "SP-H06": "a landed copy answers another question",
    "SP-H07": "a landed copy could not be made or read",
    "SP-H08": "a function's rows do not fit their schema",
    "SP-H09": "an API sends more, or takes longer, than is permitted",
    # keys
    "SP-K01": "a value or a column cannot be part of a key",
    "SP-K02": "the table holds no rows to judge a key by",
    # what the pipeline returned
    "SP-O01": "the pipeline did not return a DataFrame",
    "SP-O02": "a row lies outside the window",
    "SP-O03": "the columns do not fit the target",
    "SP-O04": "a column that must not be null holds nulls",
    "SP-O05": "a column name or type cannot be stored in the target",
    "SP-O06": "a key holds nulls",
    "SP-O07": "rows under one key contradict each other",
    # determinism
    "SP-N01": "the rows depend on more than the window and its inputs",
    "SP-N02": "there is no logical time here",
    # audits
    "SP-A01": "an audit failed",
    "SP-A02": "an audit could not be evaluated",
    # targets and the commit
    "SP-T01": "the target could not be reached",
    "SP-T02": "the target is not what the pipeline expects",
    "SP-T03": "the target refuses this kind of write",
    "SP-P01": "the commit was refused by the target",
    "SP-P02": "it is not known whether the commit landed",
    "SP-P03": "another run keeps publishing the same window",
    "SP-P04": "the staged files do not add up",
    # ledger
    "SP-L01": "the ledger could not be used",
    # proofs
    "SP-V01": "the sample of a proof could not be understood",
    "SP-V02": "a proof was asked for a window that it has not prepared",
    "SP-V03": "the sandbox of a proof could not be made",
    "SP-V04": "a proof has no PostgreSQL server to write to",
    "SP-V05": "a proof has no metastore to write to",
    "SP-V06": "the pipeline's function writes by itself",
    "SP-V07": "the chosen experiments are not known",
    "SP-V08": "the clean run of a proof failed",
    "SP-V09": "the pipeline's function reads its own target past its sources",
    "SP-V10": "a process of a proof could not be started",
    "SP-V11": "a process of a proof did not end",
    "SP-V12": "a process of a proof failed",
    "SP-V13": "a small cluster could not be started for a proof",
    "SP-V14": "what a proof has made in a scratch database could not be removed",
    "SP-V20": "a command to prove, or one of its tables, could not be understood",
    "SP-V21": "the command fails when it is run once",
    "SP-V22": "a table cannot be restored after a proof",
    "SP-V23": "a table could not be restored",
    "SP-V24": "there is nothing to restore",
    "SP-V25": "another proof is under way on the same tables",
    "SP-V26": "the command does not write the table that was named",
    "SP-V27": "the command writes nothing, so nothing can be proven",
    "SP-V28": "the state before a proof could not be kept",
    "SP-V29": "kept tables are not known to be this user's",
    "SP-V30": "a report of a proof could not be written",
    "SP-V31": "a git revision could not be looked at",
    "SP-V40": "an input of a test cannot be used",
    # anything else
    "SP-X01": "an unexpected error inside setpoint",
    "SP-X02": "interrupted",
}


class SetpointError(Exception):
    """The base of all errors; catch this to catch everything setpoint raises on purpose."""

    exit_code = 3

    def __init__(
        self,
        code: str,
        what: str,
        *,
        why: str = "",
        state: str = UNCHANGED,
        next: str = "",
    ) -> None:
        if code not in CODES:
            raise KeyError(f"{code} is not in the catalogue of error codes")
        super().__init__(code, what)
        self.code = code
        self.what = what
        self.why = why
        self.state = state
        self.next = next

    def __str__(self) -> str:
        said = [part for part in (self.what, self.why, self.state) if part]
        # A list ends its own lines.
        ended = [part if part.endswith((".", "!", "?", "\n")) else f"{part}." for part in said]
        # What to do next stays as it is: it may end in a command to copy.
        parts = [*ended, self.next] if self.next else ended
        spaced = (part if part.endswith("\n") else f"{part} " for part in parts)
        return f"{self.code}  {''.join(spaced)}".rstrip()

    def as_dict(self) -> dict[str, str]:
        """The error as the `error` member of the JSON envelope."""
        return {
            "code": self.code,
            "what": self.what,
            "why": self.why,
            "state": self.state,
            "next": self.next,
        }

    def scrub(self, scrubbed: Callable[[str], str]) -> None:
        """Take out of its parts what must not be seen."""
        self.what, self.why = scrubbed(self.what), scrubbed(self.why)
        self.state, self.next = scrubbed(self.state), scrubbed(self.next)


class UsageError(SetpointError):
    """The call or the configuration is wrong: change it, a retry cannot help."""

    exit_code = 2


class DefinitionError(UsageError):
    """A pipeline's definition is wrong; found when it is loaded, without Spark."""


class RefusedError(SetpointError):
    """The answer is no: an audit failed or the rows may not be published."""

    exit_code = 1


class TransientError(SetpointError):
    """A failure that a retry may heal: a conflict, a time-out, a lost connection."""


class PermanentError(SetpointError):
    """A failure that a retry will meet again until something is changed."""


class UnknownCommitError(SetpointError):
    """The outcome of a commit was not seen: neither success nor failure."""

    exit_code = 4


def words_of(error: BaseException) -> str:
    """An error of the user's own code: its kind, and what it says if anything, in one line.

    What Spark says goes on with plans and traces: of that, the line that names the cause.
    """
    text = str(error).split("JVM stacktrace", 1)[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Py4J's first line names the call, its second what Java said.
    java = [line[2:] for line in lines[1:2] if line.startswith(": ")]
    sparks = type(error).__module__.startswith(("pyspark", "py4j"))
    said = java[0] if java else " ".join(lines[:1] if sparks else lines)
    return ": ".join(part for part in (type(error).__name__, shortened(said)) if part)


def place_in(file: str, error: BaseException) -> str:
    """The line of the user's file that the error came through."""
    import traceback

    trace = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in trace if frame.filename == file]
    return f" at {os.path.basename(file)}:{lines[-1]}" if lines else ""


def counted(number: int, word: str) -> str:
    """A number of things: "1 row", "2,000 rows"."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def for_example(rows: Sequence[object]) -> str:
    """The first of some rows for a message, cut to a readable length; nothing without rows."""
    return f" For example: {shortened(str(rows[0]))}." if rows else ""


def some_of(names: Iterable[str], wanted: str = "") -> str:
    """Names for a message; of many the first ones, and before them those that resemble `wanted`."""
    known = list(names)
    if len(known) <= _NAMES:
        return ", ".join(known)
    from difflib import get_close_matches

    alike = get_close_matches(wanted, known)
    first = [*alike, *(name for name in known if name not in alike)][:_NAMES]
    return f"{', '.join(first)} and {len(known) - _NAMES:,} more"


def shortened(text: str, most: int = 400) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
