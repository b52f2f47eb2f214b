"""Which model speaks for a call. A model returns a value, or None when the call is not its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from setpoint.lint.findings import Place
from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge import (
    airflow,
    cloud,
    database,
    effects,
    files,
    pandas,
    sources,
    spark,
    stores,
)
from setpoint.lint.knowledge.statements import run_sql
from setpoint.lint.texts import shown
from setpoint.lint.values import Connection, Value
from setpoint.lint.vocabulary import vocabulary

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_INSERT = re.compile(r"\s*insert\s+into\s+\w", re.IGNORECASE)
_COPY = re.compile(r"\s*copy\s+([\w.]+)\s+(?:\([^()]*\)\s*)?from\s", re.IGNORECASE)
_CHANGE = re.compile(
    r"\s*(?:insert\s+(?:into|overwrite)\s|merge\s+into\s|delete\s+from\s|truncate\s|drop\s+table\s"
    r"|create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+)?table\s)",
    re.IGNORECASE,
)
Model = Callable[["Machine", Call], Value | None]

# The first model that answers is believed. Sources of taints come first: they are exact names.
_MODELS: tuple[Model, ...] = (
    sources.model,
    airflow.model,
    spark.model,
    pandas.model,
    cloud.model,
    stores.model,
    database.model,
    files.model,
    effects.model,
)

# Calls that hand a clock or random value on.
CONVERSIONS = vocabulary(
    "str int float round repr format isoformat strftime timestamp date time replace",
    "astimezone localize lit to_date to_timestamp date_format date_sub date_add",
    "add_months trunc date_trunc datediff timedelta relativedelta join path purepath",
    "concat concat_ws cast alias dumps loads md5 sha1 sha256 sha512 hexdigest hex encode",
    "decode dict list tuple set sorted zip map enumerate min max abs row dataframe series",
    "createdataframe array col expr when otherwise coalesce struct datetime combine",
    "fromtimestamp utcfromtimestamp fromisoformat strptime to_datetime split strip lower",
    "upper zfill get pop items values keys copy assign deepcopy namedtuple uuid_udf udf",
    "pandas_udf quote urlencode abspath normpath monthrange reversed timezone utc floor",
    "startswith endswith fullmatch fnmatch where",
    "sub subn ljust rjust isocalendar to_pydatetime tz_localize tz_convert normalize quote_plus",
    "ceil subtract add start_of end_of shift timetuple mktime ctime truncate",
)


def known(machine: Machine, call: Call) -> Value | None:
    """What a model says about a call; None when none knows it."""
    for model in _MODELS:
        value = model(machine, call)
        if value is not None:
            return value
    return None


def is_insert(text: Value) -> bool:
    return bool(_INSERT.match(shown(text.parts or ())))


def copied(text: Value) -> str:
    """The table that a COPY of files fills."""
    match = _COPY.match(shown(text.parts or ())[:2000])
    return match[1].lower() if match else ""


def is_change(text: Value) -> bool:
    """Is a text SQL that changes a table?"""
    return bool(_CHANGE.match(shown(text.parts or ())[:2000]))


def run_text(machine: Machine, text: Value) -> None:
    """SQL that another module runs."""
    run_sql(machine, text, Place(1), None, own=True, api="INSERT")


def run_whole(machine: Machine, text: Value) -> None:
    """SQL that another module runs, in one transaction as far as is known."""
    run_sql(machine, text, Place(1), Connection(f"text{machine.order}"), api="INSERT")


def decorated(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Decorators that say something about the schedule."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call):
            name = decorator.func.attr if isinstance(decorator.func, ast.Attribute) else ""
            name = decorator.func.id if isinstance(decorator.func, ast.Name) else name
            if name == "dag":
                machine.value(decorator)
