"""Keys of an API on their way from the environment into a request, and nowhere else."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from setpoint.model.http import HOLE_ENV, Http
from setpoint.model.secret import ENV, Secret, scrubbed
from setpoint.model.window import Window
from setpoint.sources.http import refusals

_QUERY = re.compile(r"\?\S+")
_SENDABLE = re.compile(r"[\x20-\x7e]*")


def first_page(
    origin: Http, environment: Mapping[str, str], window: Window
) -> tuple[str, dict[str, str]]:
    """The address and the parameters of the first page, with the secrets that they name.

    They are put in here, once: an address or a token that a server names is sent as it came.
    """
    for variable in HOLE_ENV.findall(origin.url):
        _require(environment, variable, origin.label, "address")
    url = origin.url_of(window)
    url = HOLE_ENV.sub(lambda found: quote(environment[found[1]], safe=""), url)
    params = origin.params_of(window)
    for name, text in origin.params.items():
        if (found := ENV.fullmatch(text)) is not None:
            _require(environment, found[1], origin.label, f"parameter {name}")
            params[name] = environment[found[1]]
    return url, params


def headers_of(origin: Http, environment: Mapping[str, str]) -> dict[str, str]:
    """The headers with their secrets."""
    filled = {}
    for name, text in origin.headers.items():
        for variable in ENV.findall(text):
            _require(environment, variable, origin.label, f"header {name}")
        # One pass: what a variable holds is not searched for further names.
        filled[name] = ENV.sub(lambda found: environment[found[1]], text)
        if not _SENDABLE.fullmatch(filled[name]):
            raise refusals.unfit_secret(origin.label, name)
    return filled


def _require(environment: Mapping[str, str], variable: str, label: str, place: str) -> None:
    if not environment.get(variable):
        raise refusals.unset(label, place, variable)


class Quiet(logging.Filter):
    """Keeps keys out of what httpx logs about the addresses that it asks."""

    def __init__(self, secrets: Sequence[Secret]) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        # Of a query nothing is known for sure: a key may stand in the code under any name.
        record.msg, record.args = _QUERY.sub("?...", scrubbed(said, self._secrets)), ()
        return True
