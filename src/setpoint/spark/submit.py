"""How a JVM gets its settings: by files that only this user can read, not by its command line.

Every user of a machine sees the command lines of all its processes, and a setting of Spark may
be a password.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_FLAG = "--properties-file"


@contextmanager
def submit_arguments(conf: Mapping[str, str]) -> Iterator[None]:
    """Have spark-submit read its settings from a file while the block starts a JVM.

    The files are needed until the JVM runs, and are gone after that.
    """
    before = os.environ.get(_ARGUMENTS)
    words = shlex.split(before if before is not None else "pyspark-shell")
    # Readable by this user alone: mkdtemp makes it so.
    folder = Path(tempfile.mkdtemp(prefix="setpoint-"))
    try:
        settings = {**conf}
        if options := settings.get(JAVA_OPTIONS, ""):
            settings[JAVA_OPTIONS] = _in_a_file(options, folder / "java-options")
        file = folder / "spark.properties"
        rest, base = _without_file(words)
        _private(file, _read(base) + "\n" + _as_properties(settings))
        os.environ[_ARGUMENTS] = shlex.join([_FLAG, str(file), *rest])
        yield
    finally:
        if before is None:
            os.environ.pop(_ARGUMENTS, None)
        else:
            os.environ[_ARGUMENTS] = before
        shutil.rmtree(folder, ignore_errors=True)


def _without_file(words: list[str]) -> tuple[list[str], Path | None]:
    """The user's own arguments, and the file of settings that they, or Spark's home, name."""
    rest, named = [*words], None
    while _FLAG in rest:
        at = rest.index(_FLAG)
        named = Path(rest[at + 1]) if at + 1 < len(rest) else None
        del rest[at : at + 2]
    return rest, named or _defaults()


def _defaults() -> Path | None:
    """Spark reads spark-defaults.conf only as long as no other file is named."""
    if not (folder := os.environ.get("SPARK_CONF_DIR")):
        from pyspark.find_spark_home import _find_spark_home

        folder = os.path.join(_find_spark_home(), "conf")  # type: ignore[no-untyped-call]
    return Path(folder, "spark-defaults.conf")


def _read(file: Path | None) -> str:
    if file is not None:
        with suppress(FileNotFoundError):
            return file.read_text(encoding="utf-8")
    return ""


def _in_a_file(options: str, file: Path) -> str:
    """Java's options as a file that Java itself reads: they would be words of its command."""
    quoted = (word.replace("\\", "\\\\").replace('"', '\\"') for word in shlex.split(options))
    _private(file, "".join(f'"{word}"\n' for word in quoted))
    return f"@{file}"


def _as_properties(settings: Mapping[str, str]) -> str:
    """Settings as Java reads them from a file, whatever characters they hold."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in settings.items())


def _escaped(text: str) -> str:
    plain = set("-_./,$*()[]{}<>@%^+|~?;'\"`&")
    return "".join(
        letter
        if (letter.isalnum() and letter.isascii()) or letter in plain
        else "".join(f"\\u{unit:04x}" for unit in _units(letter))
        for letter in text
    )


def _units(letter: str) -> Iterator[int]:
    code = letter.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(code[i : i + 2], "big") for i in range(0, len(code), 2))


def _private(file: Path, text: str) -> None:
    with os.fdopen(
        os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as out:
        out.write(text)
