"""Spark's own ways to write, watched for the length of a block.

A pipeline's function returns rows; what it writes by itself no sandbox can redirect. The calls
that end a write are replaced while the function runs, so that each asks first.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

# By module and class, the calls that change something outside of the frame.
_CALLS: dict[tuple[str, str], str] = {
    ("pyspark.sql.readwriter", "DataFrameWriter"): (
        "save saveAsTable insertInto csv jdbc json orc parquet text xml"
    ),
    ("pyspark.sql.readwriter", "DataFrameWriterV2"): (
        "create replace createOrReplace append overwrite overwritePartitions"
    ),
    ("pyspark.sql.streaming.readwriter", "DataStreamWriter"): "start toTable",
    ("pyspark.sql.merge", "MergeIntoWriter"): "merge",
    ("pyspark.sql.classic.dataframe", "DataFrame"): "foreach foreachPartition",
    ("pyspark.sql.catalog", "Catalog"): "createTable createExternalTable recoverPartitions",
    ("pyspark.core.rdd", "RDD"): (
        "foreach foreachPartition saveAsTextFile saveAsPickleFile saveAsHadoopFile "
        "saveAsNewAPIHadoopFile saveAsHadoopDataset saveAsNewAPIHadoopDataset saveAsSequenceFile"
    ),
    ("pyspark.sql.connect.readwriter", "DataFrameWriter"): (
        "save saveAsTable insertInto csv jdbc json orc parquet text xml"
    ),
    ("pyspark.sql.connect.readwriter", "DataFrameWriterV2"): (
        "create replace createOrReplace append overwrite overwritePartitions"
    ),
    ("pyspark.sql.connect.streaming.readwriter", "DataStreamWriter"): "start toTable",
    ("pyspark.sql.connect.merge", "MergeIntoWriter"): "merge",
    ("pyspark.sql.connect.dataframe", "DataFrame"): "foreach foreachPartition",
    ("pyspark.sql.connect.catalog", "Catalog"): "createTable createExternalTable",
    ("delta.tables", "DeltaTable"): (
        "delete update vacuum generate restoreToVersion restoreToTimestamp upgradeTableProtocol "
        "addFeatureSupport dropFeatureSupport convertToDelta clone cloneAtVersion "
        "cloneAtTimestamp"
    ),
    ("delta.tables", "DeltaMergeBuilder"): "execute",
    ("delta.tables", "DeltaTableBuilder"): "execute",
    ("delta.tables", "DeltaOptimizeBuilder"): "executeCompaction executeZOrderBy",
}
_SESSIONS = (
    ("pyspark.sql.session", "SparkSession"),
    ("pyspark.sql.connect.session", "SparkSession"),
)


@contextmanager
def watched(ask: Callable[[str], None], ask_sql: Callable[[str], None]) -> Iterator[None]:
    """Call `ask` before every write and `ask_sql` with every SQL text; either may raise."""
    with ExitStack() as stack:
        for (module, owner), names in _CALLS.items():
            found = getattr(sys.modules.get(module), owner, None)
            for name in names.split() if found is not None else ():
                if name in vars(found):
                    asking = _asking(vars(found)[name], ask, f"{owner}.{name}")
                    stack.enter_context(_replaced(found, name, asking))
        for module, owner in _SESSIONS:
            found = getattr(sys.modules.get(module), owner, None)
            if found is not None:
                asking = _asking_sql(vars(found)["sql"], ask_sql)
                stack.enter_context(_replaced(found, "sql", asking))
        yield


def files_of(frame: Any) -> frozenset[str]:
    """The files that a frame reads, as local paths or URIs; nothing of what has no files."""
    from pyspark.errors import PySparkException

    if not hasattr(frame, "inputFiles"):
        return frozenset()
    try:
        found = frame.inputFiles()
    except PySparkException:
        return frozenset()  # the run itself tells what is wrong with it
    return frozenset(
        unquote(urlsplit(uri).path) if uri.startswith("file:") else uri for uri in found
    )


def _asking(method: Any, ask: Callable[[str], None], name: str) -> Any:
    plain = getattr(method, "__func__", method)

    @functools.wraps(plain)
    def asked(*args: Any, **kwargs: Any) -> Any:
        ask(name)
        return plain(*args, **kwargs)

    return classmethod(asked) if isinstance(method, classmethod) else asked


def _asking_sql(method: Any, ask_sql: Callable[[str], None]) -> Any:
    @functools.wraps(method)
    def asked(self: Any, sqlQuery: str, *args: Any, **kwargs: Any) -> Any:
        ask_sql(str(sqlQuery))
        return method(self, sqlQuery, *args, **kwargs)

    return asked


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
