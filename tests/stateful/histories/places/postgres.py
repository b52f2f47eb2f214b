"""A PostgreSQL table in a database of its own, changed by SQL."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

import psycopg

from histories.places.place import Place
from histories.rows import Row, ordered

_NUMBERS = itertools.count()


class PostgresPlace(Place):
    kind = "postgres"
    able = frozenset({"swap", "renew"})
    table = "out"

    def __init__(self, server: str) -> None:
        super().__init__()
        self._server, self._database = server, f"history{os.getpid()}x{next(_NUMBERS)}"
        _ask(server, f"CREATE DATABASE {self._database}")
        self._url = server.replace("/postgres?", f"/{self._database}?", 1)
        self.connections = {"test": self._url}

    def exists(self) -> bool:
        return bool(_ask(self._url, "SELECT to_regclass('public.out') IS NOT NULL")[0][0])

    def rows(self) -> tuple[Row, ...]:
        if not self.exists():
            return ()
        return ordered(_ask(self._url, f"SELECT {', '.join(Row._fields)} FROM out"))

    def append(self, rows: Iterable[Row]) -> None:
        self._change([], rows)

    def delete(self, key: int) -> None:
        self._change([f"DELETE FROM out WHERE id = {key}"])

    def update(self, key: int, text: str, shift: int) -> None:
        self._change([f"UPDATE out SET v = '{text}', seq = seq + {shift} WHERE id = {key}"])

    def overwrite(self, rows: Iterable[Row]) -> None:
        self._change(["DELETE FROM out"], rows)

    def compact(self) -> None:
        _ask(self._url, "VACUUM FULL out")

    def swap_columns(self) -> None:
        self._change(
            f"ALTER TABLE out RENAME COLUMN {old} TO {new}"
            for old, new in (("v", "x"), ("w", "v"), ("x", "w"))
        )

    def renew_column(self) -> None:
        self._change(["ALTER TABLE out DROP COLUMN w", "ALTER TABLE out ADD COLUMN w text"])

    def close(self) -> None:
        _ask(self._server, f"DROP DATABASE {self._database} WITH (FORCE)")

    def _change(self, statements: Iterable[str], rows: Iterable[Row] = ()) -> None:
        names = ", ".join(Row._fields)
        marks = ", ".join(["%s"] * len(Row._fields))
        with psycopg.connect(self._url) as connection:
            for text in statements:
                connection.execute(text.encode())
            for row in rows:
                connection.execute(f"INSERT INTO out ({names}) VALUES ({marks})".encode(), row)


def _ask(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        answer = connection.execute(query.encode())
        return answer.fetchall() if answer.description else []
