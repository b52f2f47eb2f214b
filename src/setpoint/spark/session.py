"""The one place that makes Spark sessions.

A session that is already there (spark-submit, a notebook, a platform) is used as it is and never
stopped. Otherwise setpoint connects to the configured address or master, or starts a local
session, and stops what it started.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from setpoint.errors import (
    UNTOUCHED,
    PermanentError,
    SetpointError,
    TransientError,
    UsageError,
    words_of,
)
from setpoint.model.secret import NOTHING, Secret, revealed, scrubbed, settings_of
from setpoint.spark.failures import explain, is_passing, root_cause
from setpoint.spark.jars import resolve, spark_version
from setpoint.spark.launch import jvm_runs, start_jvm, stop_jvm, tuned_conf
from setpoint.spark.metastore import local_metastore, named_by, refuse_busy_metastore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
# Hive's metastore is part of PySpark, jars included; it is chosen when a session starts.
HIVE = "hive"
CATALOG = "spark.sql.catalogImplementation"
NO_CONNECTORS: frozenset[str] = frozenset()
REDACTION = "spark.redaction.regex"
_REDACTED = "(redacted)"
_SENSITIVE = "pwd|passphrase|credential|(api|account|private|shared)[._-]?key"


@dataclass(frozen=True)
class SparkSettings:
    """The [spark] section of the configuration; empty means a local session."""

    master: str | None = None
    remote: Secret = NOTHING
    conf: Mapping[str, Secret] = field(default_factory=dict)
    jars: tuple[str, ...] = ()
    root: str = ""
    """The project's folder: a local metastore and its warehouse lie below it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "conf", settings_of(self.conf))
        object.__setattr__(self, "remote", Secret.of(self.remote or "", whole=False))


class Sessions:
    """Gives out the Spark session, made when it is first asked for; a context manager.

    Use one per command. Leaving the context stops the session only if it was made here.
    """

    def __init__(self, settings: SparkSettings | None = None) -> None:
        self._settings = settings or SparkSettings()
        self._lock = threading.Lock()
        self._own: SparkSession | None = None
        self._connectors = NO_CONNECTORS
        self._checked: SparkSession | None = None

    def __enter__(self) -> Sessions:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is KeyboardInterrupt and self._own is not None and not _is_connect(self._own):
            with suppress(Exception):  # what is under way ends with errors that nobody asked for
                self._own.sparkContext.setLogLevel("OFF")
        self.close()

    @property
    def started(self) -> bool:
        """Whether a session was made here and still runs."""
        return self._own is not None and _is_running(self._own)

    def get(self, connectors: frozenset[str] = NO_CONNECTORS) -> SparkSession:
        """The session, with these connectors on it; started, or started again, if need be."""
        with self._lock:
            if self._own is not None and _is_running(self._own):
                if connectors <= self._connectors:
                    return self._own
                if not _is_connect(self._own):
                    # A JVM takes connector jars at its start only.
                    connectors |= self._connectors
                    self._stop_own()
                else:
                    require_connectors(self._own, connectors)
                    return self._own
            elif (active := active_session()) is not None:
                if self._checked is not active:
                    engine_check(active)
                    self._checked = active
                require_connectors(active, connectors)
                return active
            self._own = self._make(connectors)
            self._connectors = connectors
            return self._own

    def close(self) -> None:
        """Stop the session if it was made here; harmless when called again."""
        with self._lock:
            self._stop_own()

    def _make(self, connectors: frozenset[str]) -> SparkSession:
        spark_version()  # one clear line when PySpark is not installed
        settings = self._settings
        remote = settings.remote
        if not remote and not settings.master and os.environ.get("SPARK_REMOTE"):
            remote = Secret("env:SPARK_REMOTE", whole=False)
        if remote:
            spark = _connect(remote, settings.conf)
            engine_check(spark)
            require_connectors(spark, connectors)
            return spark
        logging.getLogger().addFilter(_is_no_interrupt)
        return _start(settings, connectors)

    def _stop_own(self) -> None:
        own, self._own = self._own, None
        if own is None:
            return
        connect = _is_connect(own)
        if _is_running(own):
            own.stop()
        if not connect:
            stop_jvm()


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Py4J logs where Ctrl-C met it; it reaches the caller as an exception all the same."""
    return not str(record.msg).startswith("KeyboardInterrupt while sending command")


def active_session() -> SparkSession | None:
    """A session somebody else has made in this process, classic or Connect, if there is one."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # spark-submit has started the JVM and configured it; this attaches to it.
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate()
    if "pyspark.sql.connect.session" in sys.modules:
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        connect = ConnectSession.getActiveSession() or ConnectSession._get_default_session()
        if connect is not None:
            return connect  # type: ignore[return-value]
    if "pyspark.sql" in sys.modules:
        from pyspark.sql.session import SparkSession as ClassicSession

        # The active session belongs to a thread, the instantiated one to the process.
        classic = ClassicSession._instantiatedSession
        if classic is not None and _is_running(classic):
            return ClassicSession.getActiveSession() or classic
    return None


def engine_check(spark: SparkSession) -> None:
    """Refuse an engine that speaks Spark's protocol but is not Apache Spark.

    Such engines ignore options on which the promise rests, without a word. Apache Spark answers
    version() with its version and the revision it was built from. The query is folded into a
    constant by the planner: no Spark job runs.
    """
    if not _is_connect(spark):
        return
    try:
        version = spark.version
        answer = str(spark.sql("SELECT version() FROM VALUES (1)").collect()[0][0])
    except Exception as error:
        doing = "asking the Connect server for its version"
        raise explain(error, doing, code="SP-S01") from error
    if not is_apache_spark(version, answer):
        raise _not_spark(version, answer)


def is_apache_spark(version: str, answer: str) -> bool:
    """Whether the answer to version() is Apache Spark's: its version and a full revision."""
    match = re.fullmatch(r"(\d+\.\d+\.\d+)\S* [0-9a-f]{40}", answer)
    return match is not None and version.startswith(match[1])


def _not_spark(version: str, answer: str) -> PermanentError:
    return PermanentError(
        "SP-S06",
        f"The engine behind this Connect address calls itself Spark {version} "
        f"but answers version() with {answer!r}.",
        why="Engines that imitate Spark ignore write options that keep other slices safe.",
        state=UNTOUCHED,
        next="Point [spark] remote at an Apache Spark Connect server.",
    )


def _start(settings: SparkSettings, connectors: frozenset[str]) -> SparkSession:
    from pyspark.sql import SparkSession

    jars = [*settings.jars]
    for jar in jars:
        refuse_missing_jar(jar)
    if not settings.jars:
        # Jars that the user names replace the cached ones: two versions would clash.
        jars += [str(path) for name in sorted(connectors - {HIVE}) for path in resolve(name)]
    conf = tuned_conf(
        settings.master or "local[*]",
        connector_conf(revealed(settings.conf), connectors, settings.root),
        jars,
    )
    conf.setdefault(REDACTION, redaction(settings.conf))
    secrets = tuple(settings.conf.values())
    refuse_busy_metastore(conf)
    with uninterrupted():
        start_jvm(conf, secrets)
        try:
            return SparkSession.builder.config(map={**conf}).getOrCreate()
        except Exception as error:
            where = scrubbed(f"on {conf['spark.master']}", secrets)
            failure = _not_started(where, error, secrets)  # only a JVM that runs has the words
            stop_jvm()
            raise failure from error


def redaction(conf: Mapping[str, Secret]) -> str:
    """Which settings Spark itself hides in its logs and pages: its own choice, and ours."""
    # Hadoop's settings are listed without the prefix that they have among Spark's.
    named = [
        re.escape(name.removeprefix("spark.hadoop."))
        for name, value in conf.items()
        if value.variable
    ]
    return "|".join(["(?i)secret|password|token|access[.]?key", _SENSITIVE, *named])


ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""Signals by which somebody asks a process to end."""


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back whatever asks this process to end for the length of a block, until its end.

    An interrupt between Python and a JVM that is not there yet leaves neither in a known state,
    and looks like a failure of Spark.
    """
    # What the bridge to the JVM logs about an interrupt is of no use to anybody.
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: arrived.append(number))
        for number in ENDING
        if signal.getsignal(number) not in (signal.SIG_IGN, None)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])


def connector_conf(
    conf: Mapping[str, str], connectors: frozenset[str], root: str = ""
) -> dict[str, str]:
    """The user's configuration with what the connectors need added to it."""
    result = dict(conf)
    names = [name for name in result.get("spark.sql.extensions", "").split(",") if name]
    wanted = [EXTENSIONS[name] for name in sorted(connectors - {HIVE})]
    names += [name for name in wanted if name not in names]
    if names:
        result["spark.sql.extensions"] = ",".join(names)
    if "delta" in connectors:
        result.setdefault("spark.sql.catalog.spark_catalog", DELTA_CATALOG)
    if HIVE in connectors:
        result[CATALOG] = "hive"
        if root and named_by(result) is None:
            result |= local_metastore(root, result)
    return result


def _connect(remote: Secret, conf: Mapping[str, Secret]) -> SparkSession:
    from pyspark.sql import SparkSession

    address, settings = remote.reveal(), revealed(conf)
    try:
        spark = SparkSession.builder.remote(address).getOrCreate()
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        for key, value in settings.items():
            spark.conf.set(key, value)
        return spark
    except ImportError as error:
        raise UsageError(
            "SP-C08",
            "The packages for Spark Connect are not installed.",
            why=words_of(error),
            state=UNTOUCHED,
            next="Install them: pip install 'setpoint[connect]'",
        ) from error
    except Exception as error:
        # What follows the address may be a token.
        place, _, rest = address.partition(";")
        secrets = (Secret(rest), remote, *conf.values())
        raise _not_started(f"at {scrubbed(place, [remote])}", error, secrets) from error


def own_session(session: SparkSession) -> SparkSession:
    """A session beside the given one, with its settings and nothing shared that is set later."""
    if _is_connect(session):
        return session.cloneSession()  # type: ignore[attr-defined, no-any-return]
    own = session.newSession()
    for name, value in (tuple(setting) for setting in session.sql("SET").collect()):
        if value.endswith(_REDACTED):
            # The command hides what may be a secret, and so would break what depends on it.
            value = session.conf.get(name)
        if own.conf.get(name, None) != value and own.conf.isModifiable(name):
            own.conf.set(name, value)
    return own


def require_connectors(spark: SparkSession, connectors: frozenset[str]) -> None:
    """Refuse a session that lacks a connector; a running session cannot take one up."""
    for name in sorted(connectors):
        if not _has_connector(spark, name):
            if name == HIVE:
                raise UsageError(
                    "SP-S03",
                    "The active Spark session has no Hive metastore.",
                    why="The metastore says where a Parquet table's rows are, and a running "
                    "session cannot take one up.",
                    state=UNTOUCHED,
                    next="Start the session with SparkSession.builder.enableHiveSupport().",
                )
            raise UsageError(
                "SP-S03",
                f"The active Spark session has no {name} connector.",
                why="The target needs it for this kind of write, and a running session "
                "cannot take it up.",
                state=UNTOUCHED,
                next=f"Start the session with spark.sql.extensions={EXTENSIONS[name]} "
                "and the connector's jars.",
            )


def _has_connector(spark: SparkSession, name: str) -> bool:
    if name == HIVE:
        return spark.conf.get(CATALOG, "") == "hive"
    if EXTENSIONS[name] in (spark.conf.get("spark.sql.extensions", "") or ""):
        return True
    # Databricks has Delta built in and does not list it.
    tag = "spark.databricks.clusterUsageTags.sparkVersion"
    return name == "delta" and bool(spark.conf.get(tag, ""))


def refuse_missing_jar(jar: str) -> str:
    """Spark warns about a jar that is not there and goes on without it."""
    if "://" not in jar and not os.path.isfile(jar.removeprefix("file:")):
        raise UsageError(
            "SP-S03",
            f"The jar {jar} is not there.",
            why="[spark] jars names it, and Spark would go on without it.",
            state=UNTOUCHED,
            next="Put it there, or correct [spark] jars of the configuration.",
        )
    return jar


def _not_started(where: str, error: Exception, secrets: Iterable[Secret]) -> SetpointError:
    # A server that restarts and a cluster without room are no mistakes of the caller.
    kind = TransientError if is_passing(error) else UsageError
    return kind(
        "SP-S01",
        f"No Spark session could be made {where}.",
        why=scrubbed(root_cause(error), secrets),
        state=UNTOUCHED,
        next="Check the [spark] section. See: setpoint doctor",
    )


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _is_running(spark: SparkSession) -> bool:
    if _is_connect(spark):
        return not spark.is_stopped  # type: ignore[attr-defined]
    return spark._sc._jsc is not None and jvm_runs()
