"""A real HTTP API on this machine that misbehaves to order.

It lists payments, newest first, page by page: `/cursor`, `/page`, `/token`, `/link`, `/next`
and `/one`. `plan` says what becomes of the coming requests, in their order; after that it
answers as it should.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

Misbehaviour = Callable[["Handler", "Api"], None]


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    path: str
    params: dict[str, str]
    headers: dict[str, str]


@dataclass
class Api:
    """The server: its payments, what it was asked, and how it will misbehave."""

    items: list[dict[str, Any]] = field(default_factory=list)
    plan: list[Misbehaviour | None] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    size: int = 2
    overlap: int = 0
    keeps_bounds: bool = True
    total_is_off: int = 0
    closed: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Api:
        api = self

        class Bound(Handler):
            served = api

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *ended: object) -> None:
        self.closed.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def fill(self, number: int, start: int, step: int = 60) -> None:
        """Payments from a time on, one every `step` seconds."""
        self.items = [
            {"id": f"ch_{n}", "amount": 100 + n, "created": start + n * step, "note": f"ä {n}"}
            for n in range(number)
        ]

    def answer(self, path: str, params: dict[str, str]) -> tuple[Any, dict[str, str]]:
        """A page as it should be."""
        listed = sorted(self._within(params), key=lambda item: -item["created"])
        headers: dict[str, str] = {}
        start = int(params.get("page", params.get("token", "1" if path != "/token" else "0")))
        match path:
            case "/cursor":
                ids = [item["id"] for item in listed]
                after = params.get("starting_after")
                begin = ids.index(after) + 1 - self.overlap if after else 0
                page = listed[max(begin, 0) : max(begin, 0) + self.size]
                more = max(begin, 0) + self.size < len(listed)
                return {"data": page, "has_more": more}, headers
            case "/page" | "/pages":
                begin = (start - 1) * (self.size - self.overlap)
                page = listed[begin : begin + self.size]
                total = len(listed) + self.total_is_off
                return {"data": page, "meta": {"total": total}}, headers
            case "/token":
                page, end = listed[start : start + self.size], start + self.size
                return {"data": page, "next": str(end) if end < len(listed) else None}, headers
            case "/link" | "/next":
                begin = (start - 1) * self.size
                page = listed[begin : begin + self.size]
                query = urlencode({**params, "page": start + 1})
                following = f"{path}?{query}" if begin + self.size < len(listed) else None
                if path == "/next":
                    return {"data": page, "links": {"next": following}}, headers
                if following:
                    headers["Link"] = f'<{self.url}{following}>; rel="next"'
                return page, headers
            case "/one":
                return {"data": listed}, headers
            case _:
                return None, headers

    def _within(self, params: dict[str, str]) -> list[dict[str, Any]]:
        if not self.keeps_bounds:
            return self.items
        low, high = int(params.get("created[gte]", 0)), int(params.get("created[lt]", 2**40))
        return [item for item in self.items if low <= item["created"] < high]


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    served: Api
    protocol_version = "HTTP/1.1"
    # Head and body are two writes; without this each answer would wait 40 ms for the first one.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        api, parts = self.served, urlsplit(self.path)
        params = dict(parse_qsl(parts.query))
        headers = {name.lower(): value for name, value in self.headers.items()}
        api.requests.append(Request(parts.path, params, headers))
        misbehave = api.plan.pop(0) if api.plan else None
        if misbehave is not None:
            misbehave(self, api)
            return
        self.answer()

    def answer(self) -> None:
        """What the server should say to the request at hand."""
        parts = urlsplit(self.path)
        body, headers = self.served.answer(parts.path, dict(parse_qsl(parts.query)))
        self.send(404 if body is None else 200, json.dumps(body).encode(), headers)

    def send(
        self,
        status: int,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        promised: int = 0,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(promised or len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *words: Any) -> None:
        return None


def status(code: int, **headers: str) -> Misbehaviour:
    """Answer with a status and headers (underscores stand for dashes)."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, api: handler.send(code, b"{}", named)


def body(text: str, code: int = 200) -> Misbehaviour:
    """Answer with this body."""
    return lambda handler, api: handler.send(code, text.encode())


def redirect(address: str) -> Misbehaviour:
    return lambda handler, api: handler.send(302, b"", {"Location": address})


def reset(handler: Handler, api: Api) -> None:
    """Break the connection."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()


def hang(handler: Handler, api: Api) -> None:
    """Say nothing until the server is closed."""
    handler.close_connection = True
    api.closed.wait(20)


def truncated(handler: Handler, api: Api) -> None:
    """Promise more than is sent."""
    handler.send(200, b'{"data": [{"id": "ch_', promised=500)
    handler.close_connection = True


def garbled(handler: Handler, api: Api) -> None:
    """Claim a compression that it is not."""
    handler.send(200, b"no zip", {"Content-Encoding": "gzip"})


def bomb(unpacked: int) -> Misbehaviour:
    """Answer with a little gzip that holds a lot of blanks, and no end of them."""

    def explode(handler: Handler, api: Api) -> None:
        packer = zlib.compressobj(1, wbits=31)
        blanks = b" " * 1_000_000
        parts = [packer.compress(blanks) for _ in range(unpacked // len(blanks))]
        packed = b"".join([*parts, packer.flush()])
        handler.send(200, packed, {"Content-Encoding": "gzip"})

    return explode


def endless(handler: Handler, api: Api) -> None:
    """Answer with blanks until the other side has enough."""
    handler.send_response(200)
    handler.end_headers()
    handler.close_connection = True
    with suppress(OSError):
        while not api.closed.is_set():
            handler.wfile.write(b" " * 65_536)


def drip(handler: Handler, api: Api) -> None:
    """Answer with a blank now and then, and never with all of it."""
    handler.send_response(200)
    handler.end_headers()
    _dripping(handler, api, b" ")


def drip_headers(handler: Handler, api: Api) -> None:
    """Never come to the end of the headers."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    _dripping(handler, api, b"x")


def _dripping(handler: Handler, api: Api, what: bytes) -> None:
    handler.close_connection = True
    with suppress(OSError):
        while not api.closed.wait(0.02):
            handler.wfile.write(what)
            handler.wfile.flush()


def repeated(handler: Handler, api: Api) -> None:
    """Answer with the page before this one once more."""
    now = api.requests[-1]
    before = next(item for item in reversed(api.requests) if item.params != now.params)
    found, headers = api.answer(before.path, before.params)
    handler.send(200, json.dumps(found).encode(), headers)


def change(how: Callable[[Api], None]) -> Misbehaviour:
    """Change the payments, then answer as it should be."""

    def changed(handler: Handler, api: Api) -> None:
        how(api)
        handler.answer()

    return changed
