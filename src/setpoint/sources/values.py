"""Whether a Python value is of an Arrow type, and not merely convertible to it.

Arrow cuts fractions off and takes a number for a time; here that does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import Any


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is what the type means; None fits everywhere."""
    from pyarrow import types as t

    if value is None:
        return True
    if t.is_boolean(kind):
        return isinstance(value, bool)
    if t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind):
        return _is_number(value, kind)
    if t.is_string(kind) or t.is_large_string(kind):
        return isinstance(value, str)
    if t.is_binary(kind) or t.is_large_binary(kind):
        return isinstance(value, (bytes, bytearray))
    if t.is_date(kind):
        return isinstance(value, date) and not isinstance(value, datetime)
    if t.is_timestamp(kind):
        # Without a zone a time is taken for UTC; the other way round the zone would be lost.
        return isinstance(value, datetime) and (kind.tz is not None or value.tzinfo is None)
    if t.is_duration(kind):
        return isinstance(value, timedelta)
    return _is_nested(value, kind)


def _is_number(value: Any, kind: Any) -> bool:
    from pyarrow import types as t

    if isinstance(value, bool):
        return False
    if t.is_integer(kind):
        return isinstance(value, Integral)
    if t.is_decimal(kind):
        return isinstance(value, (Decimal, Integral))
    return isinstance(value, Real)


def _is_nested(value: Any, kind: Any) -> bool:
    from pyarrow import types as t

    if t.is_list(kind) or t.is_large_list(kind):
        return isinstance(value, (list, tuple)) and all(fits(v, kind.value_type) for v in value)
    if t.is_struct(kind):
        inner = {field.name: field.type for field in kind}
        if not isinstance(value, Mapping) or not set(value) <= set(inner):
            return False
        return all(fits(item, inner[name]) for name, item in value.items())
    if t.is_map(kind):
        if not isinstance(value, Mapping):
            return False
        return all(fits(k, kind.key_type) and fits(v, kind.item_type) for k, v in value.items())
    return True
