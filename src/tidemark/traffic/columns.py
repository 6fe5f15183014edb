"""The columns of hits, of which the formats' declarations write lines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from tidemark.traffic.robots import Hit
from tidemark.traffic.site import HOST

COLUMNS = (
    "host", "client_ip", "event_time", "method", "path", "query", "protocol", "request", "status", "bytes", "referrer",
    "user_agent", "duration_us",
)  # fmt: skip
_TIME = pa.timestamp("us", tz="UTC")


class _Exchange(NamedTuple):
    """The parts of a request and its response; those of a request that is not HTTP are None."""

    method: str | None
    path: str | None
    query: str | None
    protocol: str | None
    request: str
    status: int
    bytes: int


def columns_of(hits: Sequence[Hit], seconds: Sequence[int]) -> dict[str, pa.Array]:
    """The columns COLUMNS of hits at these epoch seconds, as `tidemark.parse.values.READ` types them, and `request`."""
    exchanges = [_exchange(request.text) for _, request, _ in hits]
    columns = [pa.array(column) for column in zip(*exchanges, strict=True)]
    method, path, query, protocol, request, status, size = columns
    texts = {"method": method, "path": path, "query": query, "protocol": protocol, "request": request}
    return {
        **{name: text.cast(pa.string()) for name, text in texts.items()},
        "host": pa.repeat(HOST, len(hits)),
        "client_ip": pa.array([visitor.ip for visitor, _, _ in hits]),
        "event_time": pa.array(seconds, pa.timestamp("s", tz="UTC")).cast(_TIME),
        "status": status.cast(pa.int32()),
        "bytes": size,
        "referrer": pa.array([_present(referrer.decode()) for _, _, referrer in hits], pa.string()),
        "user_agent": pa.array([_present(visitor.agent) for visitor, _, _ in hits], pa.string()),
        "duration_us": pa.array([_micros(request.seconds) for _, request, _ in hits]),
    }


@lru_cache(maxsize=100_000)
def _exchange(text: bytes) -> _Exchange:
    request, _, result = text.decode().rpartition('" ')
    status, size = result.split()
    words = request.split(" ")
    http = len(words) == 3 and words[2].startswith("HTTP/")
    method, target, protocol = words if http else (None, None, None)
    path, mark, query = (target or "").partition("?")
    return _Exchange(
        method,
        path if http else None,
        query if mark else None,
        protocol,
        _plain(request),
        int(status),
        0 if size == "-" else int(size),
    )


@lru_cache(maxsize=100_000)
def _plain(text: str) -> str:
    """A text without the escapes of the combined format."""
    return text.replace("\\\\", "\x02").replace('\\"', '"').replace("\x02", "\\")


def _present(text: str) -> str | None:
    return None if text in ("", "-") else _plain(text)


@lru_cache(maxsize=100_000)
def _micros(seconds: bytes) -> int:
    return int(seconds.replace(b".", b"")) * 1_000
