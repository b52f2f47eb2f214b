"""From a URL to a database that is ready: driver, transactions, schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Insert,
    Table,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.schema import CreateSchema

from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.ledger.failure import (
    BEFORE_PUBLISH,
    LedgerError,
    foreign_database,
    newer_schema,
    unusable,
)
from setpoint.ledger.tables import SCHEMA_VERSION, LedgerTables
from setpoint.model.secret import Secret
from setpoint.targets.postgres.urls import (
    KEPT_ALIVE,
    PERCENT_ENCODE,
    is_ambiguous,
    several_hosts,
)

# How long a locked SQLite file is waited for: to record work, and for anything else. History must
# not hold up a command that has nothing to do.
SQLITE_BUSY_SECONDS = 30.0
BRIEFLY = 2.0
POSTGRES_CONNECT_SECONDS = 10
# Its own schema, because `setpoint.receipts` is the PostgreSQL target's table.
POSTGRES_SCHEMA = "setpoint_ledger"
# Any constant will do as long as every setpoint uses the same one.
CREATION_LOCK = 7_356_114_209_001

# What a URL may say about how long a server is waited for.
_WAITING = ("connect_timeout", *KEPT_ALIVE)
_DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}


class Database:
    """An open ledger database: its engine, its tables, and its name for messages."""

    def __init__(self, url: str | Secret) -> None:
        self._url = Secret.of(url, whole=False)
        parsed = _parse(self._url.reveal())
        self._is_sqlite = parsed.get_backend_name() == "sqlite"
        self.file = parsed.database if self._is_sqlite else None
        self.where = self.file or _without_secrets(parsed)
        self.tables = LedgerTables(None if self._is_sqlite else POSTGRES_SCHEMA)
        with self.failing_as(BEFORE_PUBLISH):
            if self.file is not None:
                Path(self.file).parent.mkdir(parents=True, exist_ok=True)
            self._engine = _sqlite_engine(parsed) if self._is_sqlite else _postgres_engine(parsed)
            self._writing_engine = self._engine.execution_options(writes=True)
            try:
                self._prepare()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def reading(self, state: str) -> Iterator[Connection]:
        """A read transaction; a failure is told with `state` as the state of the data."""
        with self.failing_as(state), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, state: str, patience: float = SQLITE_BUSY_SECONDS) -> Iterator[Connection]:
        """A write transaction, committed at the end of the block.

        `patience` is how many seconds it waits for another one of a SQLite file.
        """
        engine = self._writing_engine.execution_options(patience=patience)
        with self.failing_as(state), engine.begin() as connection:
            yield connection

    def upsert(self, table: Table, only_if_differs: tuple[str, ...] = ()) -> Insert:
        """An INSERT that replaces the row with the same primary key.

        With `only_if_differs` a row that is equal in these columns is not written again.
        """
        # The two databases spell this alike, but SQLAlchemy keeps one class for each, and
        # loading the one for PostgreSQL is not free.
        if self._is_sqlite:
            from sqlalchemy.dialects.sqlite import insert as dialect_insert
        else:
            from sqlalchemy.dialects.postgresql import insert as dialect_insert  # type: ignore[assignment]
        statement = dialect_insert(table)
        new = statement.excluded
        differs = [table.c[name].is_distinct_from(new[name]) for name in only_if_differs]
        return statement.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_={column.name: new[column.name] for column in table.c if not column.primary_key},
            where=or_(*differs) if differs else None,
        )

    @contextmanager
    def failing_as(self, state: str) -> Iterator[None]:
        """Turn whatever a database or its driver raises into a `LedgerError`."""
        try:
            yield
        except DBAPIError as error:
            raise self._unusable(str(error.orig), state) from error
        # Drivers also let through errors of their own and of Python: a file that cannot be
        # made, a stored value that cannot be decoded, a number too large for a column.
        except (SQLAlchemyError, sqlite3.Error, OSError, ValueError, OverflowError) as error:
            raise self._unusable(str(error), state) from error

    def _unusable(self, reason: str, state: str) -> LedgerError:
        return unusable(self.where, self._url.scrubbed(reason), state, self.file)

    def _prepare(self) -> None:
        if self._is_sqlite:
            self._switch_to_wal()
        with self._engine.connect() as connection:
            version = self._version(connection)
        if version is None or version < SCHEMA_VERSION:
            with self._writing_engine.begin() as connection:
                version = self._create(connection)
        if version > SCHEMA_VERSION:
            raise newer_schema(self.where, version, SCHEMA_VERSION)

    def _version(self, connection: Connection) -> int | None:
        if not inspect(connection).has_table("ledger_schema", schema=self.tables.schema):
            return None
        return connection.scalar(select(self.tables.version.c.version))

    def _create(self, connection: Connection) -> int:
        """Create the tables unless another process did while this one waited for the lock."""
        if not self._is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:k)"), {"k": CREATION_LOCK})
        existing = self._version(connection)
        if existing is not None and existing < SCHEMA_VERSION:
            # So far every version only added tables to the one before.
            self.tables.metadata.create_all(connection)
            connection.execute(update(self.tables.version).values(version=SCHEMA_VERSION))
            return SCHEMA_VERSION
        if existing is not None:
            return existing
        inspector = inspect(connection)
        if self._is_sqlite and inspector.get_table_names():
            raise foreign_database(self.where)
        schema = self.tables.schema
        if schema is not None and not inspector.has_schema(schema):
            connection.execute(CreateSchema(schema))
        self.tables.metadata.create_all(connection, checkfirst=False)
        connection.execute(insert(self.tables.version).values(version=SCHEMA_VERSION))
        return SCHEMA_VERSION

    def _switch_to_wal(self) -> None:
        """Let readers and a writer work side by side; the file remembers this mode.

        The switch needs the file to itself. Where it cannot have that, because processes make
        the same ledger at once, they work one after the other until a later opening switches.
        """
        # On the driver's connection: inside a transaction the switch is silently ignored.
        with closing(self._engine.raw_connection()) as raw, suppress(sqlite3.OperationalError):
            raw.cursor().execute("PRAGMA journal_mode=WAL")


def _parse(url: str) -> URL:
    if is_ambiguous(url):
        raise _bad_url("The ledger's URL cannot be understood.", f" {PERCENT_ENCODE}.")
    try:
        parsed = make_url(several_hosts(url))
    except (ArgumentError, ValueError):
        raise _bad_url("The ledger's URL cannot be understood.") from None
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise _bad_url(f"The ledger cannot be kept in {parsed.drivername!r}.")
    if driver.startswith("postgresql"):
        return parsed.set(drivername=driver)
    if parsed.database in (None, "", ":memory:"):
        raise _bad_url("The ledger's URL names no file.")
    return parsed.set(drivername=driver, database=str(Path(str(parsed.database)).absolute()))


def _bad_url(what: str, hint: str = "") -> UsageError:
    return UsageError(
        "SP-C03",
        what,
        why="setpoint keeps its ledger in a SQLite file or in PostgreSQL.",
        state=NOTHING_STARTED,
        next=f"Write sqlite:///path/to/ledger.db or postgresql://user@host/database.{hint}",
    )


def _without_secrets(url: URL) -> str:
    host = url.host or url.query.get("host") or "localhost"
    hosts = host if isinstance(host, str) else ",".join(host)
    return f"postgresql://{hosts}/{url.database or ''}"


def _sqlite_engine(url: URL) -> Engine:
    # isolation_level None hands transactions to the events below: the driver's own handling
    # would begin them too late for a read that is followed by a write.
    engine = create_engine(url, connect_args={"timeout": BRIEFLY, "isolation_level": None})

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: object) -> None:
        # With WAL this risks the last moments of history in a power cut, never the file.
        connection.execute("PRAGMA synchronous=NORMAL")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A write transaction takes its lock first: upgrading a read lock fails without waiting.
        options = connection.get_execution_options()
        seconds = options.get("patience", SQLITE_BUSY_SECONDS if options.get("writes") else BRIEFLY)
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.execute(f"PRAGMA busy_timeout={round(seconds * 1000)}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")

    return engine


def _postgres_engine(url: URL) -> Engine:
    try:
        # Prepared statements break behind transaction poolers and gain nothing here; the ping
        # replaces connections that died while a long run was busy in Spark.
        return create_engine(
            url,
            pool_pre_ping=True,
            connect_args={
                "prepare_threshold": None,
                "connect_timeout": POSTGRES_CONNECT_SECONDS,
                **KEPT_ALIVE,
                **{name: value for name, value in url.query.items() if name in _WAITING},
            },
        )
    except ImportError:
        raise UsageError(
            "SP-C08",
            "A ledger in PostgreSQL needs the package psycopg.",
            why="It is not installed with setpoint by default.",
            state=NOTHING_STARTED,
            next="Install it: pip install 'psycopg[binary]'",
        ) from None
