"""The metastore as we use it: one table, its partitions, and calls that change locations.

The calls go through Spark's own catalog in the JVM. Each of them is one call of the metastore,
and the metastore does each in one transaction of its database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from setpoint.errors import UNTOUCHED, PermanentError, RefusedError, TransientError
from setpoint.spark.classes import java_class
from setpoint.spark.contents import quoted
from setpoint.spark.failures import jvm_ended
from setpoint.spark.metastore import busy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = "setpoint.root"
Spec = Mapping[str, str]
_STATISTICS = re.compile(
    r"spark\.sql\.statistics\.|numRows$|rawDataSize$|totalSize$|numFiles$|COLUMN_STATS_ACCURATE$"
)
_ABSENT = re.compile(r"NoSuchTable|NoSuchDatabase|NoSuchNamespace|_NOT_FOUND")
_FACTORY = "hive.metastore.client.factory.class"
_UNANSWERED = re.compile(
    r"TTransport|Socket|Connection (reset|refused|timed out)|Communications"
    r"|I/O error occurred while sending to the backend"
)


@dataclass(frozen=True)
class Partition:
    """A partition: its values as the metastore spells them, and where its rows lie."""

    spec: Spec
    location: str


@dataclass(frozen=True)
class TableInfo:
    """A table as the metastore describes it; `schema` is Spark's JSON form."""

    location: str
    schema: str
    partition_columns: tuple[str, ...]
    properties: Mapping[str, str]
    created: int

    @property
    def root(self) -> str:
        """The folder below which attempts stage; it stays when the table's location moves."""
        return str(self.properties.get(ROOT) or self.location)


class Metastore:
    """One table in the metastore of a session."""

    def __init__(self, session: SparkSession, database: str, table: str) -> None:
        if not hasattr(session, "_jsparkSession"):
            raise PermanentError(
                "SP-S06",
                "A Parquet table cannot be published through Spark Connect.",
                why="Locations of partitions are moved in the driver's catalog, and a Connect "
                "session has no way to it.",
                state=UNTOUCHED,
                next="Use a classic session: set [spark] master instead of remote.",
            )
        self.session = session
        self._database, self._table = database, table

    @property
    def name(self) -> str:
        """The table as SQL names it."""
        return f"{quoted(self._database)}.{quoted(self._table)}"

    def table(self) -> TableInfo | None:
        """The table, or None; refused when it is of a kind that no location swap can serve."""
        with self._reading():
            try:
                found = self._catalog.getTable(self._database, self._table)
            except Exception as error:
                if _ABSENT.search(str(error)):
                    self._refuse_without_database()
                    return None
                raise
            body, schema = json.loads(self._json(found)), str(found.schema().json())
        self._refuse_unfit(body)
        return TableInfo(
            location=plain(body["storage"]["locationUri"]),
            schema=schema,
            partition_columns=tuple(body["partitionColumnNames"]),
            properties=body["properties"],
            created=int(body["createTime"]),
        )

    def _refuse_without_database(self) -> None:
        if not self._catalog.databaseExists(self._database):
            raise self._unfit(
                f"The metastore has no database {self._database}",
                f"Create it: CREATE DATABASE {quoted(self._database)}",
            )

    def default_location(self) -> str:
        """Where a new table of this name goes."""
        with self._reading():
            database = json.loads(self._json(self._catalog.getDatabase(self._database)))
        return f"{plain(database['locationUri']).rstrip('/')}/{self._table.lower()}"

    def partitions(self) -> list[Partition]:
        """All partitions of the table, in one call."""
        with self._reading():
            found = json.loads(self._json(self._listed()))
        return [Partition(item["spec"], plain(item["storage"]["locationUri"])) for item in found]

    def swaps_several(self) -> bool:
        """Whether one call moves several partitions in one transaction; Hive's metastore does."""
        hadoop = self.session.sparkContext._jsc.hadoopConfiguration()
        factory = hadoop.get(_FACTORY) or ""
        return not factory or factory.startswith("org.apache.hadoop.hive.")

    def create(
        self, schema_json: str, partition_by: Sequence[str], location: str, root: str
    ) -> None:
        """Create the table; one that is not partitioned has its rows from the start."""
        kind = self._class("org.apache.spark.sql.types.DataType").fromJson(schema_json)
        parts = ", ".join(quoted(name) for name in partition_by)
        self.session.sql(
            f"CREATE TABLE {self.name} ({kind.toDDL()}) USING parquet "
            f"{f'PARTITIONED BY ({parts}) ' if parts else ''}LOCATION {_literal(location)} "
            f"TBLPROPERTIES ({_literal(ROOT)} = {_literal(root)})"
        )

    def add_columns(self, schema_json: str) -> None:
        kind = self._class("org.apache.spark.sql.types.DataType").fromJson(schema_json)
        self.session.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({kind.toDDL()})")

    def add(self, partitions: Sequence[Partition]) -> None:
        """Add partitions, all in one call."""
        storage = self._catalog.getTable(self._database, self._table).storage()
        nothing = self._class("scala.Option").empty()
        made = [
            self._class("org.apache.spark.sql.catalyst.catalog.CatalogTablePartition")(
                self._map(item.spec), self._moved(storage, item.location), self._map({}), 0, 0,
                nothing,
            )
            for item in partitions
        ]  # fmt: skip
        self._catalog.createPartitions(self._database, self._table, self._seq(made), False)

    def move(self, partitions: Sequence[Partition]) -> None:
        """Set the locations of existing partitions, all in one call."""
        wanted = {frozenset(item.spec.items()): item.location for item in partitions}
        listed = self._listed()
        specs = [frozenset(item["spec"].items()) for item in json.loads(self._json(listed))]
        changed = []
        for position, spec in enumerate(specs):
            if spec in wanted:
                old = listed.apply(position)
                parameters = json.loads(self._json(old.parameters()))
                changed.append(
                    _copied(
                        old,
                        storage=self._moved(old.storage(), wanted[spec]),
                        parameters=self._map(_without_statistics(parameters)),
                        stats=self._class("scala.Option").empty(),
                    )
                )
        if len(changed) != len(wanted):
            raise TransientError(
                "SP-P01",
                f"A partition of {self.name} was dropped in the moment of the publish.",
                state="The window holds its old rows, but for those that were dropped.",
                next="Run again; it is always safe.",
            )
        self._catalog.alterPartitions(self._database, self._table, self._seq(changed))

    def move_table(self, location: str, root: str) -> None:
        """Set the location of the whole table, and remember where its root is."""
        old = self._catalog.getTable(self._database, self._table)
        if old.stats().isDefined():
            # Rather no statistics than those of other rows: engines answer counts from them.
            self._catalog.alterTableStats(
                self._database, self._table, self._class("scala.Option").empty()
            )
            old = self._catalog.getTable(self._database, self._table)
        properties = json.loads(self._json(old.properties()))
        self._catalog.alterTable(
            _copied(
                old,
                storage=self._moved(old.storage(), location),
                properties=self._map({**_without_statistics(properties), ROOT: root}),
            )
        )

    def refresh(self, other: SparkSession) -> None:
        """Let this session and another one forget what they know of the table's files."""
        with self._reading():
            for session in {id(item): item for item in (self.session, other)}.values():
                session.catalog.refreshTable(self.name)

    def unanswered(self, error: Exception) -> bool:
        """Whether a failed call may yet be carried out: its answer is what was lost."""
        return jvm_ended(error) or bool(_UNANSWERED.search(_with_causes(error)))

    def _class(self, name: str) -> Any:
        return java_class(self.session, name)

    @property
    def _catalog(self) -> Any:
        return self.session._jsparkSession.sharedState().externalCatalog()

    def _listed(self) -> Any:
        nothing = self._class("scala.Option").empty()
        return self._catalog.listPartitions(self._database, self._table, nothing)

    def _json(self, value: Any) -> str:
        """A Scala value in one answer: through Py4J each member would be a call of its own."""
        return str(self._mapper.writeValueAsString(value))

    @cached_property
    def _mapper(self) -> Any:
        mapper = self._class("com.fasterxml.jackson.databind.ObjectMapper")()
        mapper.registerModule(
            self._class("com.fasterxml.jackson.module.scala.DefaultScalaModule")()
        )
        return mapper

    def _moved(self, storage: Any, location: str) -> Any:
        uri = self._class("org.apache.hadoop.fs.Path")(spelled(location)).toUri()
        return _copied(storage, locationUri=self._class("scala.Option").apply(uri))

    def _seq(self, items: Sequence[Any]) -> Any:
        listed = self._class("java.util.ArrayList")()
        for item in items:
            listed.add(item)
        return self._class("scala.jdk.javaapi.CollectionConverters").asScala(listed).toSeq()

    def _map(self, values: Mapping[str, str]) -> Any:
        made = self._class("java.util.HashMap")()
        for name, value in values.items():
            made.put(name, value)
        return self._class("org.apache.spark.api.python.PythonUtils").toScalaMap(made)

    def _refuse_unfit(self, body: Mapping[str, Any]) -> None:
        provider = str(body.get("provider") or "")
        serde = str(body["storage"].get("serde") or "").lower()
        properties = body["properties"]
        if body["tableType"]["name"] == "VIEW":
            raise self._unfit(f"{self.name} is a view")
        if provider != "parquet" and not (provider == "hive" and "parquet" in serde):
            raise self._unfit(f"{self.name} is a {provider or 'foreign'} table, not Parquet")
        if str(properties.get("transactional", "")).lower() == "true":
            raise self._unfit(f"{self.name} is a transactional Hive table, which Hive alone writes")
        if body.get("bucketSpec"):
            raise self._unfit(f"{self.name} is bucketed, and staged files are not")
        if body["partitionColumnNames"] and not body["tracksPartitionsInCatalog"]:
            raise self._unfit(
                f"{self.name} does not keep its partitions in the metastore",
                f"Repair it once: MSCK REPAIR TABLE {self.name}",
            )

    def _unfit(self, what: str, next: str = "Name another table.") -> RefusedError:
        return RefusedError(
            "SP-T02",
            f"{what}.",
            why="A publish sets the location of a Parquet table or of its partitions.",
            next=next,
        )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except RefusedError:
            raise
        except Exception as error:
            raise unreachable(error) from error


def unreachable(error: Exception) -> TransientError:
    """The metastore did not answer, in one line."""
    text = _with_causes(error)
    if "Another instance of Derby" in text or "XSDB6" in text:
        return busy()
    return TransientError(
        "SP-T01",
        f"The metastore could not be read: {' '.join(text.splitlines()[-1].split())[:300]}",
        why="It says where the rows of the table are.",
        next="Check the metastore and [spark.conf], then run again.",
    )


def _with_causes(error: Exception) -> str:
    """The messages of an error and of the Java exceptions behind it."""
    messages = [str(error)]
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while cause is not None and len(messages) < 30:
        messages.append(str(cause.toString()))
        cause = cause.getCause()
    return "\n".join(messages)


def plain(uri: str) -> str:
    """A location as we spell it: a bare path on a local disk, else scheme, host and path."""
    parsed = urlparse(uri)
    path = unquote(parsed.path)
    if parsed.scheme in ("", "file"):
        return path
    return f"{parsed.scheme}://{parsed.netloc}{path}"


def spelled(location: str) -> str:
    """A location as the metastore has it: with a scheme."""
    return location if "://" in location else f"file:{location}"


def _without_statistics(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if not _STATISTICS.match(name)}


def _copied(value: Any, **members: Any) -> Any:
    """A Scala case class with some members replaced, found by their names."""
    names = [value.productElementName(i) for i in range(value.productArity())]
    given = [
        members[name] if name in members else getattr(value, f"copy$default${position + 1}")()
        for position, name in enumerate(names)
    ]
    return value.copy(*given)


def _literal(text: str) -> str:
    """A text as a SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
