"""Audits on Spark: row-level ones as conditions for the staging job, set-level ones in one job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame as ClassicFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.errors import (
    PermanentError,
    SetpointError,
    TransientError,
    place_in,
    shortened,
    some_of,
    words_of,
)
from setpoint.model.audit import (
    Accepted,
    Audit,
    AuditResult,
    Custom,
    InRange,
    NotNull,
    Sql,
    Unique,
    rides_along,
)
from setpoint.spark.contents import quoted
from setpoint.spark.expressions import Expression, any_null, counted, literal
from setpoint.spark.failures import explain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLE_ROWS = 5
_CELL = 60
_VIEW = "staged"
_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
# A bitmap pays while the key's range is not much wider than the number of rows: 64 bits a row
# is the memory that a hash table entry would take.
_DENSE = 64


def violation(audit: Audit, schema: T.StructType) -> Expression:
    """The condition under which a row violates a row-level audit."""
    match audit:
        case NotNull():
            return any_null(audit.columns)
        case Accepted():
            column = quoted(audit.column)
            values = ", ".join(literal(value) for value in audit.values if value is not None)
            return f"{column} NOT IN ({values})" if values else f"{column} IS NOT NULL"
        case InRange():
            column = quoted(audit.column)
            outside = [f"{column} < {literal(audit.min)}"] if audit.min is not None else []
            outside += [f"{column} > {literal(audit.max)}"] if audit.max is not None else []
            if isinstance(schema[audit.column].dataType, (T.FloatType, T.DoubleType)):
                outside.append(f"isnan({column})")
            return f"coalesce({' OR '.join(outside)}, false)"
        case Sql():
            return ~F.coalesce(F.expr(audit.text), F.lit(False))
        case _:
            raise TypeError(f"{audit.name} is not a row-level audit")


def count_violations(rows: DataFrame, audits: Mapping[int, Audit]) -> dict[int, int]:
    """Count the violations of row-level audits by their positions, in one job."""
    counts = [counted(violation(audit, rows.schema), str(n)) for n, audit in audits.items()]
    try:
        found = rows.agg(*counts).collect()[0]
    except Exception as error:
        raise explain(error, "counting violations") from error
    return {n: int(found[str(n)]) for n in audits}


def check_columns(audits: Iterable[Audit], schema: T.StructType, label: str) -> None:
    """Refuse audits of columns that the pipeline does not return, before anything is staged."""
    known = set(schema.fieldNames())
    for audit in audits:
        match audit:
            case NotNull() | Unique():
                wanted = audit.columns
            case Accepted() | InRange():
                wanted = (audit.column,)
            case _:
                continue
        missing = [name for name in wanted if name not in known]
        if missing:
            raise PermanentError(
                "SP-A02",
                f"Audit {audit.name} of {label} names {', '.join(missing)}, which the pipeline "
                f"does not return (it returns {some_of(sorted(known), missing[0])}).",
                why="An audit that cannot be evaluated guards nothing.",
                next="Correct the audit or the pipeline, then run again.",
            )


@dataclass(frozen=True)
class _Question:
    """One set-level audit as a frame of one row: how many rows or keys violate it."""

    audit: Audit
    count: DataFrame
    offenders: DataFrame


def set_level(
    audits: Sequence[Audit],
    staged: DataFrame,
    *,
    rows: int,
    constant_columns: Sequence[str] = (),
    bounds: dict[str, tuple[Any, Any]] | None = None,
) -> list[AuditResult]:
    """Evaluate the set-level audits over the staged rows, all counts in one Spark job.

    `constant_columns` hold one value in the whole slice, so they do not help a key to be
    unique; `bounds` are the least and the greatest value of columns that hold no null.
    """
    try:
        return _evaluate(audits, staged, rows, set(constant_columns), bounds or {})
    finally:
        if any(isinstance(audit, Sql) and audit.is_query for audit in audits):
            with suppress(Exception):  # it must not hide why the audits failed
                staged.sparkSession.catalog.dropTempView(_VIEW)


def _evaluate(
    audits: Sequence[Audit],
    staged: DataFrame,
    rows: int,
    constant: set[str],
    bounds: dict[str, tuple[Any, Any]],
) -> list[AuditResult]:
    results: dict[int, AuditResult] = {}
    questions: dict[int, _Question] = {}
    for position, audit in enumerate(audits):
        if rides_along(audit):
            continue
        try:
            answer = _ask(audit, staged, rows, constant, bounds)
        except SetpointError:
            raise
        except Exception as error:
            raise _unevaluable(audit, error) from error
        if isinstance(answer, _Question):
            questions[position] = answer
        elif answer is not None:
            results[position] = answer
    for position, count in _counts(questions).items():
        question = questions[position]
        results[position] = AuditResult(
            name=question.audit.name,
            severity=question.audit.severity,
            passed=count == 0,
            violations=count,
            rows=rows,
            detail=_detail(question.audit, count),
            sample=sample(question.offenders) if count else (),
        )
    return [results[position] for position in sorted(results)]


def sample(frame: DataFrame) -> tuple[dict[str, Any], ...]:
    """A few rows for a person to look at; none if they cannot be read.

    They illustrate a verdict that was reached without them, and must not hide it.
    """
    try:
        rows = frame.limit(SAMPLE_ROWS).collect()
    except Exception:
        return ()
    return tuple({name: shown(value) for name, value in row.asDict().items()} for row in rows)


def _ask(
    audit: Audit,
    staged: DataFrame,
    rows: int,
    constant: set[str],
    bounds: dict[str, tuple[Any, Any]],
) -> _Question | AuditResult | None:
    match audit:
        case Unique():
            return _unique(audit, staged, rows, constant, bounds)
        case Sql():
            staged.createOrReplaceTempView(_VIEW)
            offenders = staged.sparkSession.sql(audit.text)
            return _Question(audit, _count_rows(offenders), offenders)
        case Custom():
            return _custom(audit, staged, rows)
        case _:
            return None


def _unique(
    audit: Unique,
    staged: DataFrame,
    rows: int,
    constant: set[str],
    bounds: dict[str, tuple[Any, Any]],
) -> _Question:
    key = [name for name in audit.columns if name not in constant] or list(audit.columns[:1])
    columns = [F.col(quoted(name)) for name in key]
    groups = staged.groupBy(*columns).agg(F.count(F.lit(1)).alias("rows")).where("rows > 1")
    if len(key) == 1 and _is_dense(staged.schema[key[0]].dataType, bounds.get(key[0]), rows):
        # Exact, and without a shuffle of the keys: one bit per value, counted.
        value = columns[0].cast("long")
        bitmaps = staged.groupBy(F.bitmap_bucket_number(value).alias("bucket")).agg(
            F.bitmap_construct_agg(F.bitmap_bit_position(value)).alias("bits")
        )
        distinct = F.coalesce(F.sum(F.bitmap_count("bits")), F.lit(0))
        return _Question(audit, bitmaps.agg((F.lit(rows) - distinct).alias("found")), groups)
    surplus = F.coalesce(F.sum(F.col("rows") - 1), F.lit(0))
    return _Question(audit, groups.agg(surplus.alias("found")), groups)


def _is_dense(kind: T.DataType, bounds: tuple[Any, Any] | None, rows: int) -> bool:
    if not isinstance(kind, _INTEGERS) or bounds is None or rows < 10_000:
        return False
    least, most = bounds
    return bool(least >= 0 and (most - least) <= rows * _DENSE)


def _custom(audit: Custom, staged: DataFrame, rows: int) -> _Question | AuditResult:
    answer = audit.function(staged)
    if isinstance(answer, ClassicFrame) or hasattr(answer, "sparkSession"):
        return _Question(audit, _count_rows(answer), answer)
    if isinstance(answer, bool):
        return AuditResult(audit.name, audit.severity, answer, 0 if answer else 1, rows)
    if isinstance(answer, int):
        return AuditResult(audit.name, audit.severity, answer == 0, answer, rows)
    raise PermanentError(
        "SP-A02",
        f"Audit {audit.name} returned {type(answer).__name__}.",
        why="The verdict must not be guessed.",
        state="The target is unchanged; the stage was dropped.",
        next="Return True or False, the number of offending rows, or a DataFrame of them.",
    )


def _count_rows(frame: DataFrame) -> DataFrame:
    return frame.agg(F.count(F.lit(1)).alias("found"))


def _counts(questions: dict[int, _Question]) -> dict[int, int]:
    if not questions:
        return {}
    frames = [
        question.count.select(F.lit(position).alias("position"), F.col("found").cast("long"))
        for position, question in questions.items()
    ]
    try:
        answers = reduce(lambda a, b: a.unionAll(b), frames).collect()
    except Exception as error:
        names = ", ".join(question.audit.name for question in questions.values())
        raise explain(error, f"the audits {names}") from error
    return {row["position"]: int(row["found"]) for row in answers}


def _detail(audit: Audit, count: int) -> str:
    if not count:
        return ""
    if isinstance(audit, Unique):
        return f"{count:,} surplus rows share a key with another row"
    return f"{count:,} offending rows"


def _unevaluable(audit: Audit, error: Exception) -> SetpointError:
    explained = explain(error, f"the audit {audit.name}")
    if isinstance(explained, TransientError):
        return explained
    function = audit.function if isinstance(audit, Custom) else None
    code = getattr(function, "__code__", None)
    place = place_in(code.co_filename, error) if code else ""
    return PermanentError(
        "SP-A02",
        f"Audit {audit.name} could not be evaluated{place}: {words_of(error)}",
        why="An audit that cannot be evaluated guards nothing.",
        state="The target is unchanged; the stage was dropped.",
        next="Correct the audit, then run again.",
    )


def shown(value: Any) -> Any:
    """A value as it stands in a sample."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return shortened(str(value), _CELL)
