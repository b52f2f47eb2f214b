"""Loading files of a format so that their rows depend on nothing but their content.

Types are never guessed from the values that happen to be there, and a value that does not fit
its type is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.model.origin import Files
from setpoint.spark.bad_lines import LINE, reads_all, refusal, refusing_bad_lines
from setpoint.spark.contents import quoted
from setpoint.spark.workers import OWN_END, OWN_START

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class Folders:
    """The columns that folders like `order_date=2026-04-25` tell, below a base.

    They are texts, but for those that are dates in every folder and for what the schema says.
    """

    base: str
    names: Sequence[str]
    dates: Sequence[str]

    def added_to(self, schema: T.StructType) -> T.StructType:
        """The columns of the files and of their folders."""
        known = {name.lower() for name in schema.names}
        kinds = {
            name: T.DateType() if name in self.dates else T.StringType() for name in self.names
        }
        more = [T.StructField(n, kind) for n, kind in kinds.items() if n.lower() not in known]
        return T.StructType([*schema.fields, *more])


def load(session: SparkSession, files: Files, places: Sequence[str], folders: Folders) -> DataFrame:
    """All rows of the files at some places; an empty frame without any."""
    if files.schema:
        columns = session.createDataFrame([], files.schema).schema
    else:
        # The columns of all files, not those of whichever is looked at first.
        merged = session.read.option("mergeSchema", "true").option("recursiveFileLookup", "true")
        columns = merged.options(**files.options).parquet(*places).schema
    wanted = folders.added_to(columns)
    if not places:
        return session.createDataFrame([], wanted)
    if files.format == "parquet":
        reader = session.read.options(**{**files.options, "basePath": folders.base})
        return reader.schema(wanted).parquet(*places)
    return _exact(session, files, places, folders, wanted)


def _exact(
    session: SparkSession,
    files: Files,
    places: Sequence[str],
    folders: Folders,
    wanted: T.StructType,
) -> DataFrame:
    """CSV and JSON: Spark rounds decimals without a word, so they are read as texts first."""
    # What to do with lines that do not fit is ours to say, unless the user has said it.
    judged = not any(name.lower() == "mode" for name in files.options)
    given = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": LINE} if judged else {}
    if files.format == "csv":
        given["enforceSchema"] = "false"  # with a header, columns go by its names
    rounded = {
        field.name: field.dataType
        for field in wanted.fields
        if isinstance(field.dataType, T.DecimalType) and "locale" not in files.options
    }
    texts = [
        T.StructField(f.name, T.StringType() if f.name in rounded else f.dataType)
        for f in wanted.fields
    ]
    options = {**given, **files.options, "basePath": folders.base}
    every = [*texts, T.StructField(LINE, T.StringType())] if judged else texts
    frame = session.read.format(files.format).options(**options).schema(T.StructType(every))
    rows = frame.load(list(places))
    known = [field for field in texts if field.name not in folders.names]
    if judged:
        rows = refusing_bad_lines(rows, known, files.format, files.options)
    else:
        rows = rows.where(reads_all(known))
    return rows.select(
        *(
            _decimal(field.name, rounded[field.name]).alias(field.name)
            if field.name in rounded
            else F.col(quoted(field.name))
            for field in wanted.fields
        )
    )


def _decimal(name: str, kind: T.DecimalType) -> Column:
    text = F.trim(F.col(quoted(name)))
    value = text.try_cast(kind)
    # With an exponent the digits do not tell their places.
    other = text.rlike("[eE]") & ~text.try_cast("decimal(38,18)").eqNullSafe(value)
    beyond = text.rlike(rf"\.\d{{{kind.scale}}}\d*[1-9][^eE]*$") | other
    file = F.col("_metadata.file_path")
    message = refusal(file, name, text, kind.simpleString(), OWN_START, OWN_END)
    unfit = text.isNotNull() & (value.isNull() | beyond)
    return F.when(unfit, F.raise_error(message).cast(kind)).otherwise(value)
