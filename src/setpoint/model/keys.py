"""Surrogate keys and row hashes in plain Python: the encoding that Spark's side repeats.

A value becomes a text that says its type family and where it ends; the texts are put together,
behind a version, and hashed. No two different lists of values have the same text, so two keys
are equal when their values are. The page docs/reference/keys.md is the specification; changing
a byte here means a new version, because tables hold the keys of the old one.

Not to be confused with the content fingerprint of a receipt, which stands for a set of rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from hashlib import sha256
from typing import Any

from setpoint.errors import UsageError

KEY_VERSION = "key1;"
ROW_VERSION = "row1;"
# 128 bits of SHA-256: among a billion keys, two are equal by chance with odds of 1.5 in 10^21.
KEY_LENGTH = 32
NULL = "~"

_NOTHING_WRITTEN = "Nothing was written."
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_ONE_NAN = 0x7FF8000000000000
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Months:
    """A year-month interval, for which Python has no type: so many months."""

    months: int


def surrogate_key_of(*values: Any) -> str:
    """The surrogate key of the parts of a business key, as `surrogate_key` makes it in Spark."""
    if not values:
        raise no_columns("surrogate_key_of", "surrogate_key_of(country, customer_no)")
    return hashed(KEY_VERSION.encode() + b"".join(encoded(value) for value in values))


def row_hash_of(row: Any, *, exclude: Iterable[str] = ()) -> str:
    """The hash of a row's columns and their names, in any order, as `row_hash` makes it in Spark.

    `row` is a mapping of names to values, or a Row.
    """
    columns = dict(row) if isinstance(row, Mapping) else dict(_members(row) or ())
    left_out = {exclude} if isinstance(exclude, str) else set(exclude)
    unknown = sorted(left_out - set(columns))
    if unknown:
        raise no_such_column(unknown[0], columns)
    kept = {name: value for name, value in columns.items() if name not in left_out}
    if not kept:
        raise no_columns("row_hash_of", 'row_hash_of({"id": 1, "status": "new"})')
    return hashed(ROW_VERSION.encode() + _struct(kept.items()))


def hashed(text: bytes) -> str:
    """The digest of an encoded text."""
    return sha256(text).hexdigest()[:KEY_LENGTH]


def encoded(value: Any) -> bytes:
    """The text of one value; no text is the beginning of another one."""
    # bool before int and datetime before date: each is a kind of the other in Python.
    match value:
        case None:
            return NULL.encode()
        case bool():
            return b"b1" if value else b"b0"
        case int():
            return f"n{int(value)};".encode()
        case Decimal():
            return f"n{_plain(value)};".encode()
        case float():
            return f"f{_double(value):X};".encode()
        case str():
            return _text(value)
        case bytes() | bytearray() | memoryview():
            return f"x{bytes(value).hex().upper()};".encode()
        case datetime():
            if value != value:
                raise no_encoding("pandas.NaT", "Give None.")
            tag, zone = ("l", timezone.utc) if value.tzinfo is None else ("t", value.tzinfo)
            return f"{tag}{(value.replace(tzinfo=zone) - _EPOCH) // _MICROSECOND};".encode()
        case date():
            return f"d{value.toordinal() - _EPOCH.toordinal()};".encode()
        case time():
            return f"c{_since_midnight(value)};".encode()
        case timedelta():
            return f"i{value // _MICROSECOND};".encode()
        case Months():
            return f"y{value.months};".encode()
        case Mapping():
            entries = sorted(encoded(key) + encoded(item) for key, item in value.items())
            return f"m{len(entries)}:".encode() + b"".join(entries)
        case _:
            return _nested(value)


def struct_head(count: int) -> str:
    """How the text of a struct, or of a whole row, begins."""
    return f"r{count}:"


def name_text(name: str) -> str:
    """A field's name as it stands in the text of a struct."""
    return _text(name).decode()


def no_columns(function: str, example: str) -> UsageError:
    return UsageError(
        "SP-K01",
        f"{function} was called without a column.",
        why="The key of nothing is the same for every row.",
        state=_NOTHING_WRITTEN,
        next=f"For example: {example}",
    )


def no_such_column(name: object, columns: Iterable[str]) -> UsageError:
    return UsageError(
        "SP-K01",
        f"There is no column {name!r:.80} (there is {', '.join(columns):.400}).",
        state=_NOTHING_WRITTEN,
        next="Give each column by its name, as the schema spells it; make a column of an "
        "expression first, with withColumn.",
    )


def no_encoding(what: str, advice: str) -> UsageError:
    return UsageError(
        "SP-K01",
        f"{what} cannot be part of a key.",
        why="It has no spelling that is the same in Spark and in Python.",
        state=_NOTHING_WRITTEN,
        next=advice,
    )


def _nested(value: Any) -> bytes:
    members = _members(value)
    if members is not None:
        return _struct(members)
    if isinstance(value, Sequence):
        return f"a{len(value)}:".encode() + b"".join(encoded(item) for item in value)
    raise no_encoding(
        f"A value of type {type(value).__name__}",
        "Give None, bool, int, Decimal, float, str, bytes, date, datetime, time, timedelta, "
        "Months, a list, a dict, a Row, a named tuple or a dataclass; numpy: value.item().",
    )


def _members(value: Any) -> list[tuple[str, Any]] | None:
    """The fields of a Row, a named tuple or a dataclass; None for anything else."""
    names = getattr(value, "__fields__", None) or getattr(value, "_fields", None)
    if isinstance(value, tuple) and names:
        return list(zip(names, value, strict=True))
    if is_dataclass(value) and not isinstance(value, type):
        return [(item.name, getattr(value, item.name)) for item in fields(value)]
    return None


def _struct(members: Iterable[tuple[str, Any]]) -> bytes:
    held = list(members)
    names = [name for name, _ in held]
    if len(set(names)) < len(names):
        raise no_encoding("A struct with two fields of one name", "Rename one of them.")
    parts = [_text(name) + encoded(value) for name, value in sorted(held, key=lambda pair: pair[0])]
    return struct_head(len(parts)).encode() + b"".join(parts)


def _text(value: str) -> bytes:
    try:
        written = str.encode(value, "utf-8")
    except UnicodeEncodeError as error:
        raise no_encoding(
            f"The text {value!r:.80}, which holds half a surrogate pair,",
            "Decode it as it was meant, or give the bytes.",
        ) from error
    return f"s{len(written)}:".encode() + written


def _plain(value: Decimal) -> str:
    """The number without exponent, superfluous zeros or a minus before zero."""
    if not value.is_finite():
        raise no_encoding(f"The decimal {value}", "Spark's decimals are finite: give None.")
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _since_midnight(value: time) -> int:
    if value.tzinfo is not None:
        raise no_encoding("A time of day with a time zone", "Give it without tzinfo.")
    minutes = value.hour * 60 + value.minute
    return (minutes * 60 + value.second) * 1_000_000 + value.microsecond


def _double(value: float) -> int:
    """Spark's xxhash64 of a double: a different number for each of its values.

    Spark has no function that gives the bits of a double, and its text depends on the version of
    Java. The hash of eight bytes can be inverted step by step, so nothing is lost by it.
    """
    if value != value:
        bits = _ONE_NAN
    else:
        # There is one zero.
        (bits,) = struct.unpack(">Q", struct.pack(">d", value if value else 0.0))
    mixed = (42 + 0x27D4EB2F165667C5 + 8) & _MASK
    mixed ^= (_turned((bits * 0xC2B2AE3D27D4EB4F) & _MASK, 31) * 0x9E3779B185EBCA87) & _MASK
    mixed = (_turned(mixed, 27) * 0x9E3779B185EBCA87 + 0x85EBCA77C2B2AE63) & _MASK
    mixed = ((mixed ^ (mixed >> 33)) * 0xC2B2AE3D27D4EB4F) & _MASK
    mixed = ((mixed ^ (mixed >> 29)) * 0x165667B19E3779F9) & _MASK
    return mixed ^ (mixed >> 32)


def _turned(value: int, places: int) -> int:
    return ((value << places) | (value >> (64 - places))) & _MASK
