"""PostgreSQL URLs: as SQLAlchemy takes them, where it does not read them as libpq does.

And what every connection asks of libpq, unless its URL says otherwise.
"""

from __future__ import annotations

import re

_HOSTS = re.compile(
    r"(?P<scheme>postgres[a-z+]*)://(?P<user>[^/@]*@)?(?P<hosts>[^/?@]*,[^/?@]*)"
    r"(?P<database>/[^?]*)?(?:\?(?P<query>.*))?"
)
# A server that is gone, or cannot be reached any more, is noticed within about a minute.
KEPT_ALIVE = {
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
PERCENT_ENCODE = "Percent-encode @ : / # ? % in the password (@ is %40)"


def several_hosts(url: str) -> str:
    """The URL with its hosts, if there are several, where SQLAlchemy looks for them."""
    found = _HOSTS.fullmatch(url)
    if found is None:
        return url
    hosts = [host if ":" in host else f"{host}:5432" for host in found["hosts"].split(",")]
    query = "&".join([*(f"host={host}" for host in hosts), *filter(None, [found["query"]])])
    return f"{found['scheme']}://{found['user'] or ''}{found['database'] or '/'}?{query}"


def is_ambiguous(url: str) -> bool:
    """Whether an @ or / of the password would be taken for the end of it, and the rest shown."""
    scheme, separator, rest = url.partition("://")
    if not separator or not scheme.removeprefix("jdbc:").startswith("postgres"):
        return False
    place = rest.partition("?")[0]
    authority, _, database = place.partition("/")
    return authority.count("@") > 1 or "@" in database
