"""A small payment provider: pages, a rate limit, errors now and then, refunds.

python server.py 8765 serves it on http://127.0.0.1:8765. Like the real ones it lists newest
first, by cursor, and a payment that is refunded looks different from then on.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse

KEY = "sk_test_example"
FIRST_DAY, DAYS, PER_DAY = datetime(2026, 4, 23, tzinfo=timezone.utc), 4, 230
MOST_PER_PAGE = 100
TOO_MANY, BROKEN = 5, 7  # every fifth request is one too many, every seventh hits a bug


def made_payments() -> list[dict[str, Any]]:
    """The same payments whenever the server starts; many share a second."""
    payments = []
    for number in range(DAYS * PER_DAY):
        day, place = divmod(number, PER_DAY)
        moment = FIRST_DAY + timedelta(days=day, seconds=place // 3 * 1_100)
        payments.append(
            {
                "id": f"pay_{number:05d}",
                "created": int(moment.timestamp()),
                "customer": f"cus_{number * 7 % 40:02d}",
                "amount": 500 + number * 37 % 20_000,
                "amount_refunded": 0,
                "currency": "eur",
                "status": "succeeded",
            }
        )
    return payments


class Provider(ThreadingHTTPServer):
    """The provider's state: payments, messages to the chat, and how often it was asked."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.payments = {item["id"]: item for item in made_payments()}
        self.messages: list[str] = []
        self.asked = itertools.count(1)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def refund(self, payment: str) -> None:
        """Pay a payment back in full: it stays in its day and is another from now on."""
        item = self.payments[payment]
        item.update(amount_refunded=item["amount"], status="refunded")

    def listed(self, query: dict[str, list[str]]) -> dict[str, Any]:
        """One page of payments."""
        first, after = (int(query.get(f"created[{name}]", ["0"])[0]) for name in ("gte", "lt"))
        limit = min(int(query.get("limit", ["10"])[0]), MOST_PER_PAGE)
        found = [
            item
            for item in sorted(
                self.payments.values(), key=lambda p: (p["created"], p["id"]), reverse=True
            )
            if item["created"] >= first and (not after or item["created"] < after)
        ]
        if "starting_after" in query:
            ids = [item["id"] for item in found]
            found = found[ids.index(query["starting_after"][0]) + 1 :]
        return {"object": "list", "data": found[:limit], "has_more": len(found) > limit}


class Handler(BaseHTTPRequestHandler):
    """GET /v1/payments, POST /v1/refunds and POST /hooks/chat."""

    server: Provider

    def do_GET(self) -> None:
        number = next(self.server.asked)
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            self._answer(401, {"error": "no such key"})
        elif number % TOO_MANY == 0:
            self._answer(429, {"error": "slow down"}, {"Retry-After": "0"})
        elif number % BROKEN == 0:
            self._answer(500, {"error": "try again"})
        else:
            self._answer(200, self.server.listed(parse_qs(urlparse(self.path).query)))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path == "/v1/refunds":
            self.server.refund(body["payment"])
        else:
            self.server.messages.append(body["text"])
        self._answer(200, {})

    def _answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: what counts is what the tables hold."""


def serving(port: int = 0) -> Provider:
    """A provider that answers from a thread of this process."""
    provider = Provider(port)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    return provider


if __name__ == "__main__":
    with Provider(int(sys.argv[1]) if len(sys.argv) > 1 else 8765) as running:
        print(f"payments at {running.url}/v1/payments, key {KEY}")
        running.serve_forever()
