"""The body of an answer, unpacked, and never larger or later than permitted."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterable, Iterator

ENCODINGS = "gzip"
_PIECE = 65_536
_GZIP = 31


class TooLarge(Exception):
    """A body that is larger than permitted, packed or unpacked."""


def whole(chunks: Iterable[bytes], encoding: str, most: int) -> bytes:
    """The body in these chunks; `ValueError` for one that cannot be unpacked.

    It is unpacked piece by piece: a kilobyte of gzip may hold a megabyte of blanks.
    """
    match encoding.strip().lower():
        case "" | "identity":
            pieces = iter(chunks)
        case "gzip" | "x-gzip":
            pieces = _unzipped(chunks)
        case other:
            raise ValueError(f"its encoding {other!r:.20} was not asked for")
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > most:
            raise TooLarge
    return bytes(body)


def _unzipped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    inflater, begun = zlib.decompressobj(_GZIP), False
    try:
        for chunk in chunks:
            while chunk:
                begun = True
                yield inflater.decompress(chunk, _PIECE)
                chunk = inflater.unconsumed_tail
                if inflater.eof:
                    chunk, begun = inflater.unused_data, False
                    inflater = zlib.decompressobj(_GZIP)
        yield inflater.flush()
    except zlib.error as error:
        raise ValueError("its compression is broken") from error
    if begun and not inflater.eof:
        raise ValueError("its compression breaks off")


class Deadline:
    """Calls `end` when its time is up: a server that sends a byte now and then never times out."""

    def __init__(self, seconds: float, end: Callable[[], None]) -> None:
        self.passed = False
        self._end = end
        self._timer = threading.Timer(seconds, self._pass)
        self._timer.daemon = True

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._timer.cancel()
        # If it is about to end things, it has to be done with that before others begin.
        self._timer.join()

    def _pass(self) -> None:
        self.passed = True
        self._end()
