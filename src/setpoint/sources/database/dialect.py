"""How databases behind JDBC write names and constants; the standard, and who departs from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from setpoint.errors import NOTHING_STARTED, DefinitionError

_BACKTICKS = ("mysql", "mariadb", "databricks", "hive2", "spark", "clickhouse", "bigquery")
# Their drivers do not know JDBC's own spelling of dates, {d '...'}; they know that of SQL.
_SQL_DATES = ("duckdb", "snowflake", "databricks", "hive2", "spark", "trino", "presto", "bigquery")
# A moment in UTC where the cast of the standard is not known, or drops the offset without a word.
_MOMENTS = {
    "bigquery": "TIMESTAMP '{text}'",
    "clickhouse": "toDateTime({seconds})",
    "databricks": "TIMESTAMP '{text}'",
    "hive2": "TIMESTAMP '{text}'",
    "mariadb": "FROM_UNIXTIME({seconds})",
    "mysql": "FROM_UNIXTIME({seconds})",
    "oracle": "TIMESTAMP '{text}'",
    "snowflake": "CAST('{text}' AS TIMESTAMP_TZ)",
    "spark": "TIMESTAMP '{text}'",
    "sqlite": "'{text}'",
    "sqlserver": "CAST('{text}' AS datetimeoffset)",
}
# A driver in a jar of [spark] jars is not found by the URL alone.
_DRIVERS = {
    "clickhouse": "com.clickhouse.jdbc.ClickHouseDriver",
    "db2": "com.ibm.db2.jcc.DB2Driver",
    "duckdb": "org.duckdb.DuckDBDriver",
    "h2": "org.h2.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "oracle": "oracle.jdbc.OracleDriver",
    "postgresql": "org.postgresql.Driver",
    "redshift": "com.amazon.redshift.Driver",
    "snowflake": "net.snowflake.client.jdbc.SnowflakeDriver",
    "sqlite": "org.sqlite.JDBC",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "teradata": "com.teradata.jdbc.TeraDriver",
    "trino": "io.trino.jdbc.TrinoDriver",
}
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
# What a URL may show: hosts with their ports, a database or a path, and nothing that has a value.
_HOSTS = re.compile(r"//(?P<hosts>[\w.\-\[\]:,]*)(?P<path>/[\w.$\-/]*)?")
_PORT = re.compile(r"[\w.\-]*(:\d+)?|\[[\w:.]+\](:\d+)?")
_HOST_PROPERTY = re.compile(r"host\s*=\s*([\w.\-]+)", re.IGNORECASE)
_WORD = re.compile(r"[\w.\-/:$ ~]*")


@dataclass(frozen=True)
class Dialect:
    """The database that a JDBC URL names."""

    name: str

    @classmethod
    def of(cls, url: str) -> Dialect:
        return cls(url.split(":", 2)[1].lower() if url.count(":") >= 2 else "")

    @property
    def driver(self) -> str:
        """The class of the driver; empty if the URL has to be enough."""
        return _DRIVERS.get(self.name, "")

    def quote(self, name: str) -> str:
        """An identifier that is taken literally."""
        if self.name in _BACKTICKS:
            return "`" + name.replace("`", "``") + "`"
        if self.name == "sqlserver":
            return "[" + name.replace("]", "]]") + "]"
        return '"' + name.replace('"', '""') + '"'

    def table(self, text: str) -> str:
        """A table's name, quoted: `table`, `schema.table` or `"sche.ma"."table"`."""
        parts, position = [], 0
        while (found := _PART.match(text, position)) is not None:
            parts.append((found[1] or found[2]).replace('""', '"'))
            position = found.end() + 1
            if text[found.end() : position] != ".":
                break
        if found is None or position <= len(text) or len(parts) > 3:
            raise DefinitionError(
                "SP-D07",
                f"jdbc({text!r:.80}) does not name one table.",
                why="Dots separate the catalog, the schema and the table.",
                state=NOTHING_STARTED,
                next='Write "SCHEMA.TABLE"; put names with dots of their own into double quotes: '
                '\'"my.schema"."my.table"\'.',
            )
        return ".".join(self.quote(part) for part in parts)

    def constant(self, kind: str, value: Any) -> str:
        """A value of a column's kind."""
        match kind:
            case "integer" | "long":
                return str(int(value))
            case "string":
                return "'" + str(value).replace("'", "''") + "'"
            case "date":
                return self._time("d", "DATE", value.isoformat())
            case "timestamp":
                text = value.strftime("%Y-%m-%d %H:%M:%S") + "+00:00"
                form = _MOMENTS.get(self.name, "CAST('{text}' AS TIMESTAMP WITH TIME ZONE)")
                return form.format(text=text, seconds=int(value.timestamp()))
            case _:
                return self._time("ts", "TIMESTAMP", value.strftime("%Y-%m-%d %H:%M:%S"))

    def _time(self, short: str, long: str, text: str) -> str:
        if self.name == "sqlite":
            return f"'{text}'"
        return f"{long} '{text}'" if self.name in _SQL_DATES else f"{{{short} '{text}'}}"


def shown(url: str) -> str:
    """A JDBC URL with nothing but what it certainly is: the kind, the hosts, the database."""
    kind, _, rest = url.removeprefix("jdbc:").partition(":")
    place = re.split(r"[?;]", rest, maxsplit=1)[0]
    login, at, bare = place.rpartition("@")
    if not at and "@" in rest and "/" not in place.removeprefix("//"):
        place = ""  # a login with a mark that ends it too early
    prefix = f"jdbc:{kind}:"
    if at and "//" not in login and ":" in login:
        prefix += f"{login.partition(':')[0]}:"  # the driver of Oracle, as in thin:
    elif at and "//" in login:
        bare = f"//{bare}"
    place = _plain(bare if at else place)
    return f"{prefix}{place}"


def _plain(place: str) -> str:
    if (found := _HOSTS.match(place)) is not None and found["hosts"]:
        # A name that is followed by = is that of a property, not of a host or the database.
        named, path = place[found.end() :].startswith("="), found["path"] or ""
        known = all(_PORT.fullmatch(host) for host in found["hosts"].split(","))
        if known and (path or not named):
            return f"//{found['hosts']}{'' if named else path}"
    if hosts := _HOST_PROPERTY.findall(place):
        return f"//{','.join(hosts)}"
    return place if _WORD.fullmatch(place) else "..."
