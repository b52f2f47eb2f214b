"""What fills a generation of a landed copy: the items of an API, or the rows of any source."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from setpoint.errors import RefusedError, SetpointError
from setpoint.model.http import Http
from setpoint.model.ports import HoldingPort, RemarkPort, Remarks, SourcePort
from setpoint.model.run import Pinned
from setpoint.model.window import Window
from setpoint.sources.http.client import Client, Surroundings
from setpoint.sources.http.items import Item
from setpoint.sources.http.listing import read_listing
from setpoint.spark.failures import root_cause
from setpoint.targets.delta.storage import Storage
from setpoint.targets.storage import reaching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GROUP_ITEMS, _GROUP_BYTES = 10_000, 8_000_000
_TEXT = {"type": "string", "nullable": True, "metadata": {}}
ITEM_SCHEMA = json.dumps(
    {"type": "struct", "fields": [{"name": "id", **_TEXT}, {"name": "item", **_TEXT}]}
)


@dataclass(frozen=True)
class Filled:
    """What was written for a generation, as its record tells it."""

    schema: str
    items: int
    contents: str
    pages: int | None = None
    readings: int = 1
    notes: tuple[str, ...] = ()


class Supply(Protocol):
    """An origin that can be asked for a window."""

    def request(self) -> Mapping[str, object]:
        """What it is asked, besides the window."""
        ...

    def connectors(self) -> frozenset[str]: ...

    def fill(self, session: Any, window: Window, storage: Storage, folder: str) -> Filled:
        """Ask it, and write what it returns into a folder; nothing refers to the files yet."""
        ...


class ItemFile:
    """Items on their way into one Parquet file, a row group at a time."""

    def __init__(self, storage: Storage, path: str) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self._storage, self._path = storage, path
        self._schema = pa.schema([("id", pa.string()), ("item", pa.string())])
        self._stream = storage.writer(path)
        self._writer = parquet.ParquetWriter(self._stream, self._schema, compression="zstd")
        self._ids: list[str] = []
        self._texts: list[str] = []
        self._size = 0

    def put(self, item: Item) -> None:
        self._ids.append(item.id)
        self._texts.append(item.text)
        self._size += len(item.text)
        if len(self._ids) >= _GROUP_ITEMS or self._size >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        if self._ids:
            self._flush()
        with reaching(self._storage.uri):
            self._writer.close()
            self._stream.close()

    def discard(self) -> None:
        # The writer first: it would complain about a closed stream when it is forgotten.
        with suppress(OSError, SetpointError):
            self._writer.close()
            self._stream.close()
        self._storage.remove(self._path)

    def _flush(self) -> None:
        import pyarrow as pa

        columns = [pa.array(self._ids, pa.string()), pa.array(self._texts, pa.string())]
        with reaching(self._storage.uri):
            self._writer.write_batch(pa.record_batch(columns, schema=self._schema))
        self._ids, self._texts, self._size = [], [], 0


class HttpSupply:
    """The items of an HTTP API, fetched by this process."""

    def __init__(self, origin: Http, around: Surroundings) -> None:
        self._origin, self._around = origin, around

    def request(self) -> Mapping[str, object]:
        return {"kind": self._origin.kind, **self._origin.request()}

    def connectors(self) -> frozenset[str]:
        return frozenset()

    def fill(self, session: Any, window: Window, storage: Storage, folder: str) -> Filled:
        def open_file(number: int) -> ItemFile:
            return ItemFile(storage, f"{folder}/items-{number}.parquet")

        with Client(self._origin, self._around) as client:
            found = read_listing(client, self._origin, window, open_file)
        return Filled(
            schema=ITEM_SCHEMA,
            items=found.items,
            contents=found.contents,
            pages=found.pages,
            readings=found.readings,
        )


def _check_types(label: str, schema: str) -> None:
    """Refuse columns that a landed copy cannot hold, before anything is written."""
    from deltalake import Schema

    try:
        Schema.from_json(schema)
    except Exception as error:
        raise RefusedError(
            "SP-H07",
            f"{label} has a column of a type that cannot be landed: {root_cause(error)}",
            why="Landed copies are Delta tables.",
            next="Leave the column out of the origin, or cast it there.",
        ) from error


class FrameSupply:
    """The rows of a source, as its own adapter reads them.

    The adapter is made when it is needed: what is landed is looked at and read without the
    origin, whose connection may not be known here.
    """

    def __init__(self, make: Callable[[], SourcePort], request: Mapping[str, object]) -> None:
        self._make, self._request = make, request

    @cached_property
    def _inner(self) -> SourcePort:
        return self._make()

    def request(self) -> Mapping[str, object]:
        return self._request

    def connectors(self) -> frozenset[str]:
        try:
            return self._inner.connectors()
        except SetpointError:
            # The origin may be gone by now.
            return frozenset()

    def fill(self, session: SparkSession, window: Window, storage: Storage, folder: str) -> Filled:
        try:
            return self._written(session, window, storage, folder)
        finally:
            if isinstance(self._inner, HoldingPort):
                self._inner.release(window)

    def _written(
        self, session: SparkSession, window: Window, storage: Storage, folder: str
    ) -> Filled:
        from pyspark.sql import functions as F

        from setpoint.spark.contents import HASH, hash_sql
        from setpoint.spark.failures import explain
        from setpoint.spark.stage import write_parquet

        pinned = self._inner.pin([window])[window]
        frame = self._inner.read(session, window, pinned)
        notes = self._remarked(session, window, pinned)
        _check_types(self._inner.label, frame.schema.json())
        try:
            hashed = frame.select("*", F.expr(hash_sql(frame.schema)).alias(HASH))
            path = storage.spark_path(folder)
            observed = write_parquet(hashed, path, counts={}, leave_out=[HASH])
        except Exception as error:
            raise explain(error, f"landing {self._inner.label}", code="SP-R01") from error
        self._inner.confirm(window, pinned)
        contents = observed.contents or f"unknown, of {folder}"
        return Filled(frame.schema.json(), observed.rows, contents, notes=notes)

    def _remarked(self, session: SparkSession, window: Window, pinned: Pinned) -> tuple[str, ...]:
        """What is left out of the copy, which is all that is ever read again."""
        if not isinstance(self._inner, RemarkPort):
            return ()
        remarks = self._inner.remarks(session, {window: pinned}).get(window, Remarks())
        if remarks.refusal is not None:
            raise remarks.refusal
        return remarks.notes
