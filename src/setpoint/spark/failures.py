"""Spark's failures in our words: the cause in one line, and whether a retry may heal it."""

from __future__ import annotations

import re

from setpoint.errors import PermanentError, SetpointError, TransientError, shortened
from setpoint.spark.workers import told_by_task

# Signs of a failure of the surroundings, not of the query: executors, network, storage.
_TRANSIENT = re.compile(
    r"executor (lost|heartbeat)|ExecutorLostFailure|FetchFailed|MetadataFetchFailed"
    r"|Connection (refused|reset|timed out)|connection closed|ConnectException|SocketException"
    r"|SocketTimeout|Read timed out|UnknownHostException|NoRouteToHost"
    r"|SlowDown|\bThrottl(ed|ing)|TooManyRequests|503 Service|500 Internal|RequestTimeout"
    r"|\bUNAVAILABLE\b|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|SparkContext was (shut down|stopped)"
    r"|Job aborted due to stage failure: Authorized committer"
    r"|OPERATION_CANCELED|Too many open files",
    re.IGNORECASE,
)
# What Py4J says when a call got no answer at all; it has no Java exception to show then.
_NO_ANSWER = re.compile(r"An error occurred while calling \S+|\w+ does not exist in the JVM")
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
_NOT_WRITABLE = re.compile(
    r"Mkdirs failed to create|Read-only file system|AccessControlException|Permission denied"
)
_PACKAGE = re.compile(r"^[a-z][\w.$]*\.(\w+(?:Exception|Error)):")
# A cause may go on for some lines, before the trace.
_CAUSED_BY = re.compile(r"Caused by: ([^\n]+(?:\n(?!\s+at |Caused by|\t?\.\.\. )[^\n]+){0,6})")
_FILE = re.compile(r"rror while reading file (?:file:/*(?=/))?(\S+?)\.?\s")
_NOISE = re.compile(r"^(\s+at |\.\.\. \d+ more|Driver stacktrace|Traceback|  File )")


def explain(error: BaseException, doing: str, *, code: str = "SP-S04") -> SetpointError:
    """A Spark failure as a SetpointError of the right class, with its cause and no JVM trace."""
    if isinstance(error, SetpointError):
        return error
    if (told := told_by_task(error)) is not None:
        return told
    text = str(error)
    cause = root_cause(error)
    if _NO_SPACE.search(text):
        return PermanentError(
            code,
            f"{_capital(doing)} failed: the disk is full ({cause}).",
            state="The target is unchanged; what was staged is not visible to any reader.",
            next="Make room, then run again. See: setpoint recover",
        )
    if _NOT_WRITABLE.search(text):
        return PermanentError(
            code,
            f"{_capital(doing)} failed: something there cannot be read or written ({cause}).",
            why="It is read-only, or this user has no right to it.",
            state="The target is unchanged; what was staged is not visible to any reader.",
            next="Give this user the right, or correct the path, then run again.",
        )
    if jvm_ended(error):
        return TransientError(
            code,
            f"{_capital(doing)} failed: {cause}",
            why="Something killed it, or it ran out of memory.",
            state="The target is unchanged; what was staged is not visible to any reader.",
            next='Run again; it is always safe. If it comes back: "spark.driver.memory" in '
            "[spark.conf]. Whether the kernel killed it: dmesg | grep -i 'killed process'",
        )
    if is_passing(error):
        return TransientError(
            code,
            f"{_capital(doing)} failed for a passing reason: {cause}",
            state="The target is unchanged; what was staged is not visible to any reader.",
            next="Run again; it is always safe.",
        )
    return PermanentError(
        code,
        f"{_capital(doing)} failed: {cause}",
        state="The target is unchanged; what was staged is not visible to any reader.",
        next="Correct the cause, then run again; it is always safe.",
    )


def is_passing(error: BaseException) -> bool:
    """Whether an error tells of the surroundings, which may be well again in a moment."""
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    return jvm_ended(error) or bool(_TRANSIENT.search(str(error)))


def jvm_ended(error: BaseException) -> bool:
    """Whether Spark's JVM ended under a call: what the call did is not known then."""
    kinds = {kind.__name__ for kind in type(error).__mro__}  # Py4J is not there with Connect alone
    if "Py4JError" not in kinds or "Py4JJavaError" in kinds:
        return False
    return "Py4JNetworkError" in kinds or bool(_NO_ANSWER.fullmatch(str(error).strip()))


def root_cause(error: BaseException) -> str:
    """The part of a Spark error that names the cause, and the file that was read, if it was one."""
    text = str(error) or type(error).__name__
    if jvm_ended(error):
        return f"the JVM of Spark ended ({_short(text)})"
    cause = _cause(error, text)
    file = _FILE.search(text)
    return f"{cause} (reading {file[1]})" if file and file[1] not in cause else cause


def _cause(error: BaseException, text: str) -> str:
    causes = _CAUSED_BY.findall(text)
    python = re.findall(r"^([A-Za-z_.]*(?:Error|Exception|Interrupt)): ?(.*)$", text, re.MULTILINE)
    if python and ("PythonException" in text or type(error).__name__ == "PythonException"):
        return _short(": ".join(part for part in python[-1] if part))
    if causes:
        return _short(_PACKAGE.sub(r"\1:", causes[-1]))
    lines = [line for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    # Py4J's first line names the call, its second what Java said.
    java = [_PACKAGE.sub(r"\1:", line[2:]) for line in lines[1:2] if line.startswith(": ")]
    return _short([*java, *lines, type(error).__name__][0])


def _short(text: str) -> str:
    return shortened(" ".join(text.split()))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
