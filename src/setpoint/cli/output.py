"""Output: answers on stdout, messages on stderr, one JSON envelope with --json."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from setpoint.cli.commands import Completion
from setpoint.errors import PermanentError, SetpointError

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


class Stopped(KeyboardInterrupt):
    """An interrupt, with what was done until then."""

    def __init__(
        self, data: Mapping[str, Any], lines: Sequence[str], error: SetpointError | None = None
    ) -> None:
        super().__init__()
        self.data, self.lines, self.error = data, lines, error


class Output:
    """Where a verb says things; knows whether a person or a program is reading."""

    def __init__(self, verb: str, *, as_json: bool, environment: Mapping[str, str]) -> None:
        self._verb = verb
        self.as_json = as_json
        self.verbose = False
        self.is_process = False
        """Whether the command is all that this process does: then it may divide itself."""
        plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
        self._colour_out = sys.stdout.isatty() and not plain
        self._colour_err = sys.stderr.isatty() and not plain
        self._live = sys.stderr.isatty() and environment.get("TERM") != "dumb"
        self._live_length = 0
        self.completion = Completion()
        self._traces = bool(environment.get("SETPOINT_TRACEBACK"))
        self.scrubbed: Callable[[str], str] = str
        """Takes out of a text what must not be seen; the project says what that is."""

    def answer(self, data: Any, text: str | Iterable[str], *, ok: bool = True) -> None:
        """The verb's answer: the data as JSON, or the text for a person."""
        self._clear()
        if self.as_json:
            self._envelope({"ok": ok, "data": data})
            return
        self._say(*([text] if isinstance(text, str) else text))

    def failed(self, data: Any, text: str | Iterable[str], error: SetpointError) -> None:
        """An answer that carries an error: some windows may have ended well."""
        self._clear()
        if self.as_json:
            self._envelope({"ok": False, "data": data, "error": error.as_dict()})
            return
        self._say(*([text] if isinstance(text, str) else text))

    def line(self, text: str) -> None:
        """A part of the answer that should not wait for the rest; silent with --json."""
        if not self.as_json:
            self._clear()
            self._say(text)

    def event(self, name: str, data: Any) -> None:
        """Something that happened, as a line of JSON before the answer; silent without --json."""
        if self.as_json:
            told = self.completion.value(data)
            body = {"event": name, "schema": f"setpoint.{self._verb}/1", "data": told}
            self._print(json.dumps(body, default=str, ensure_ascii=False))

    @property
    def is_live(self) -> bool:
        """Whether progress is shown on a terminal, in one line that changes."""
        return self._live and not self.verbose

    def tell(self, message: str) -> None:
        """Progress: a live line on a terminal, lines with --verbose, silence otherwise."""
        message = self.scrubbed(message)
        if self.verbose:
            print(message, file=sys.stderr, flush=True)
        elif self._live:
            import shutil

            shown = message[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write("\r" + shown.ljust(self._live_length))
            sys.stderr.flush()
            self._live_length = len(shown)

    def note(self, message: str) -> None:
        """A message for people, always on stderr."""
        self._clear()
        text = self.completion.text(message)
        print(self.scrubbed(text), file=sys.stderr, flush=True)

    def warn(self, message: str) -> None:
        self.note(f"{self._paint('warning', 'yellow', self._colour_err)}  {message}")

    def error(self, error: SetpointError) -> None:
        """An error as four parts, or as the envelope's error."""
        self._clear()
        if self.as_json:
            self._envelope({"ok": False, "error": error.as_dict()})
            return
        text = self.scrubbed(self.completion.text(str(error)))
        print(self._paint(text, "red", self._colour_err), file=sys.stderr, flush=True)

    def interrupted(self, stop: KeyboardInterrupt) -> None:
        """Somebody pressed Ctrl-C, or a scheduler ended the command."""
        error: SetpointError = PermanentError(
            "SP-X02",
            "Interrupted.",
            state="Every window holds either its old rows or the new ones, never a mixture.",
            next="Run the same command again; it is always safe.",
        )
        if isinstance(stop, Stopped):
            error = stop.error or error
            self.failed(stop.data, stop.lines, error)
        if not (isinstance(stop, Stopped) and self.as_json):
            self.error(error)

    def unexpected(self, error: Exception) -> SetpointError:
        """What nobody thought of, as an error; its trace is for whoever asks for it."""
        if self._traces:
            import traceback

            trace = "".join(traceback.format_exception(error))
            print(self.scrubbed(trace), file=sys.stderr, flush=True)
        from setpoint.spark.failures import root_cause

        return PermanentError(
            "SP-X01",
            f"An unexpected error inside setpoint: {type(error).__name__}: {root_cause(error)}",
            state="Every window holds either its old rows or the new ones, never a mixture.",
            next="Please report it with the output of SETPOINT_TRACEBACK=1 and the same command.",
        )

    def paint(self, text: str, colour: str) -> str:
        """Colour for stdout, when a person is looking."""
        return self._paint(text, colour, self._colour_out)

    def _envelope(self, body: dict[str, Any]) -> None:
        told = self.completion.value(body)
        ordered = {"ok": told.pop("ok"), "schema": f"setpoint.{self._verb}/1", **told}
        self._print(json.dumps(ordered, default=str, ensure_ascii=False))

    def _say(self, *lines: str) -> None:
        self._print(*(self.completion.text(line) for line in lines))

    def _print(self, *lines: str) -> None:
        """Lines on stdout. When nobody reads them any more, the work goes on all the same."""
        try:
            for line in lines:
                print(self.scrubbed(line))
            sys.stdout.flush()
        except BrokenPipeError:
            forget_stdout()

    def _clear(self) -> None:
        if self._live_length:
            sys.stderr.write("\r" + " " * self._live_length + "\r")
            sys.stderr.flush()
            self._live_length = 0

    def _paint(self, text: str, colour: str, wanted: bool) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if wanted else text


def forget_stdout() -> None:
    """Its reader has gone; there is nobody left to tell."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def table(rows: Sequence[Sequence[str]], header: Sequence[str]) -> list[str]:
    """Aligned columns, numbers to the right."""
    cells = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return [
        "  ".join(_aligned(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _aligned(cell: str, width: int) -> str:
    number = cell.replace(",", "").replace(".", "").isdigit()
    return cell.rjust(width) if number else cell.ljust(width)
