"""A quick server of S3 for measurements: a bucket `logs` whose objects are made as they are asked for.

`python -m benchmarks.object_server OBJECTS LINES` prints its address and serves until it is stopped. Object number n
has the lines of `object_lines(n, LINES)`, compressed.
"""

from __future__ import annotations

import asyncio
import gzip
import sys
from functools import lru_cache
from typing import cast
from urllib.parse import parse_qs, urlsplit

BUCKET = "logs"
_PAGE = 1000
_LINE = (
    '192.0.2.%d - - [21/Nov/2026:10:%02d:%02d +0000] "GET /page/%d?from=search HTTP/1.1" 200 %d'
    ' "https://example.org/start" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/142.0 Safari/537.36"\n'
)
_VARIANTS = 64


def object_lines(number: int, lines: int) -> bytes:
    """The lines of an object. Objects repeat after _VARIANTS, so that compression is not what is measured."""
    first = number % _VARIANTS * lines
    return "".join(
        _LINE % (n % 250, n // 60 % 60, n % 60, n, n % 9000) for n in range(first, first + lines)
    ).encode()


def key_of(number: int) -> str:
    return f"cdn/E1.{number:09d}.gz"


@lru_cache(_VARIANTS)
def _body(variant: int, lines: int) -> bytes:
    return gzip.compress(object_lines(variant, lines))


def _number(key: str) -> int:
    return int(key.rpartition("/")[2].split(".")[1]) if key.startswith("cdn/E1.") else -1


def _page(after: str, objects: int, lines: int) -> bytes:
    first = _number(after) + 1 if after else 0
    numbers = range(first, min(objects, first + _PAGE))
    entries = "".join(
        f"<Contents><Key>{key_of(n)}</Key><LastModified>2026-11-21T10:00:00.000Z</LastModified>"
        f"<ETag>&quot;{n:032x}&quot;</ETag><Size>{len(_body(n % _VARIANTS, lines))}</Size></Contents>"
        for n in numbers
    )
    more = numbers.stop < objects
    token = f"<NextContinuationToken>{key_of(numbers.stop - 1)}</NextContinuationToken>" if more else ""
    return (
        f"<ListBucketResult><Name>{BUCKET}</Name><KeyCount>{len(numbers)}</KeyCount>"
        f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{entries}</ListBucketResult>"
    ).encode()


def _answer(target: str, objects: int, lines: int) -> bytes:
    parts = urlsplit(target)
    key = parts.path.removeprefix(f"/{BUCKET}").lstrip("/")
    if not key:
        query = parse_qs(parts.query)
        body = _page((query.get("continuation-token") or query.get("start-after") or [""])[0], objects, lines)
        head = "Content-Type: application/xml"
    else:
        number = _number(key)
        body = _body(number % _VARIANTS, lines)
        head = f'Last-Modified: Sat, 21 Nov 2026 10:00:00 GMT\r\nETag: "{number:032x}"'
    return f"HTTP/1.1 200 OK\r\n{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class _Connection(asyncio.Protocol):
    """A connection whose requests have no bodies."""

    def __init__(self, objects: int, lines: int) -> None:
        self._objects, self._lines = objects, lines
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        *requests, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for request in requests:
            self._transport.write(_answer(request.split(b" ", 2)[1].decode(), self._objects, self._lines))


async def _serve(objects: int, lines: int) -> None:
    for variant in range(min(_VARIANTS, objects)):  # Not while somebody waits for an answer.
        _body(variant, lines)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(objects, lines), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(f"http://127.0.0.1:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(*map(int, sys.argv[1:3])))
