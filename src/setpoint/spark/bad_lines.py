"""Lines of CSV and JSON files that do not fit their schema: found, and told with their place.

Whether a line fits depends on the line and the schema, never on which columns a pipeline uses:
every column is read, although Spark would leave out those that nobody asks for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BufferedReader
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from setpoint.errors import RefusedError, shortened

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import types as T

LINE = "__setpoint_line"
_SHOWN = 300
_READ = 10_000_000  # lines that are searched for one
_STATE = "The target is unchanged; what was staged is not visible to any reader."


def refusing_bad_lines(
    rows: DataFrame, fields: Sequence[T.StructField], format: str, options: Mapping[str, str]
) -> DataFrame:
    """The rows, or an error that names the file, the line and the columns that do not fit."""
    from pyspark.sql import functions as F

    bad = F.raise_error(_message(fields, format, options)).cast("boolean")
    return rows.where(F.when(F.col(LINE).isNotNull(), bad).otherwise(reads_all(fields)))


def refusal(file: Column, column: str, value: Column, kind: str, start: str, end: str) -> Column:
    """The text of an error about one value of a column."""
    from pyspark.sql import functions as F

    parts = F.struct(
        file.alias("file"),
        F.lit(column).alias("columns"),
        F.substr(value, F.lit(1), F.lit(40)).alias("value"),
        F.lit(kind).alias("kind"),
    )
    return F.concat(F.lit(f"{start}SP-R01|"), F.to_json(parts), F.lit(end))


def reads_all(fields: Sequence[T.StructField]) -> Column:
    """A condition that always holds, and for which every column has to be read."""
    from pyspark.sql import functions as F

    from setpoint.spark.contents import quoted

    values = [
        F.col(quoted(field.name)).isNull()
        if "map<" in field.dataType.simpleString()  # has no hash
        else F.col(quoted(field.name))
        for field in fields
    ]
    return F.pmod(F.xxhash64(*values), F.lit(1)) == 0


def _message(fields: Sequence[T.StructField], format: str, options: Mapping[str, str]) -> Column:
    from pyspark.sql import functions as F

    from setpoint.spark.contents import quoted
    from setpoint.spark.workers import OWN_END, OWN_START

    raw = _tokens(fields, format, options)
    unfit = [
        F.when(F.col(quoted(field.name)).isNull() & (raw(field.name) != ""), F.lit(field.name))
        for field in fields
    ]
    parts = F.struct(
        F.col("_metadata.file_path").alias("file"),
        F.substr(F.col(LINE), F.lit(1), F.lit(_SHOWN)).alias("line"),
        F.array_join(F.array(*unfit), ", ").alias("columns"),
        F.lit(", ".join(field.name for field in fields)).alias("schema"),
        F.lit(options.get("sep", options.get("delimiter", ","))).alias("sep"),
    )
    return F.concat(F.lit(f"{OWN_START}SP-R01|"), F.to_json(parts), F.lit(OWN_END))


def _tokens(
    fields: Sequence[T.StructField], format: str, options: Mapping[str, str]
) -> Callable[[str], Column]:
    """The texts that stand in a line, by the name of their column."""
    from pyspark.sql import functions as F

    from setpoint.spark.contents import quoted

    line = F.col(LINE)
    if format == "json":
        return lambda name: F.get_json_object(line, f"$['{name}']")
    schema = ", ".join(f"{quoted(field.name)} string" for field in fields)
    how = {key: text for key, text in options.items() if key in _CSV}
    read = F.from_csv(line, schema, how)
    return lambda name: F.coalesce(read.getField(name), F.lit(""))


_CSV = (
    "sep",
    "delimiter",
    "quote",
    "escape",
    "ignoreLeadingWhiteSpace",
    "ignoreTrailingWhiteSpace",
)


def told_of_line(body: str) -> RefusedError:
    """The error behind the message of a task about a line that does not fit."""
    found: dict[str, Any] = json.loads(body)
    file, columns = _plain(str(found["file"])), str(found.get("columns") or "")
    if "value" in found:
        return _error(
            f"The value {found['value']!r} of {columns} in {file} does not fit {found['kind']}.",
            "Correct the file, or the schema of the source, then run again.",
        )
    line = str(found["line"])
    number = number_of(file, line)
    place = f"line {number:,} of {file}" if number else f"a line of {file}"
    what = f"{place[0].upper()}{place[1:]} does not fit the schema"
    what += f" in {columns}" if columns else f", which has the columns {found['schema']}"
    if _is_header(line, str(found["schema"]), str(found["sep"])):
        return _error(
            f"{what}: it is a header ({shortened(line, 120)}).",
            'Say that the files have one: files(..., options={"header": "true"}).',
        )
    return _error(
        f"{what}: {shortened(line, 200)}",
        "Correct the line, or the schema of the source, then run again. A column that may hold "
        "anything is a string.",
    )


def _error(what: str, next: str) -> RefusedError:
    why = "A value that is not what it should be must not become a null or another value."
    return RefusedError("SP-R01", what, why=why, state=_STATE, next=next)


def _is_header(line: str, schema: str, sep: str) -> bool:
    words = [word.strip(' "').lower() for word in line.split(sep)]
    names = [name.strip().lower() for name in schema.split(",")]
    return bool({*words} & {*names}) and not any(word.isdigit() for word in words)


def number_of(file: str, line: str) -> int | None:
    """The number of the first line of a file that is this one; None if it is not found."""
    wanted = (line.splitlines() or [""])[0].encode()
    with suppress(Exception):  # where the driver cannot read, the text of the line has to do
        for number, read in enumerate(_lines(file), 1):
            if read.rstrip(b"\r\n").startswith(wanted):
                return number
            if number >= _READ:
                break
    return None


def _lines(file: str) -> Iterator[bytes]:
    from pyarrow import fs

    scheme, separator, rest = file.partition("://")
    native = "s3" if scheme in ("s3a", "s3n") else scheme
    system, place = fs.FileSystem.from_uri(f"{native}://{rest}" if separator else file)
    with system.open_input_stream(place) as stream:  # unpacked by its suffix
        yield from BufferedReader(stream)


def _plain(path: str) -> str:
    """A path as a person writes it: Spark spells local ones as URIs."""
    if not path.startswith("file:"):
        return path
    return "/" + unquote(path.removeprefix("file:")).lstrip("/")
