"""The columns of hits, of which the formats' declarations write lines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from tidemark.traffic.robots import Hit
from tidemark.traffic.site import HOST

COLUMNS = (
    "host", "client_ip", "event_time", "method", "path", "query", "protocol", "request", "status", "bytes", "referrer",
    "user_agent", "duration_us",
)  # fmt: skip
_TIME = pa.timestamp("us", tz="UTC")


def columns_of(hits: Sequence[Hit], seconds: Sequence[int]) -> dict[str, pa.Array]:
    """The columns COLUMNS of hits at these epoch seconds, as `tidemark.parse.values.READ` types them, and `request`."""
    visitors, requests, referrers = zip(*hits, strict=True)
    texts = {
        name: [getattr(each, name) for each in requests] for name in ("method", "path", "query", "protocol")
    }
    texts |= {
        "client_ip": [visitor.ip for visitor in visitors],
        "request": [_plain(each.line) for each in requests],
        "referrer": [_present(referrer.decode()) for referrer in referrers],
        "user_agent": [_present(visitor.agent) for visitor in visitors],
    }
    return {
        **{name: pa.array(values, pa.string()) for name, values in texts.items()},
        "host": pa.repeat(HOST, len(hits)),
        "event_time": pa.array(seconds, pa.timestamp("s", tz="UTC")).cast(_TIME),
        "status": pa.array([each.status for each in requests], pa.int32()),
        "bytes": pa.array([each.size or 0 for each in requests]),
        "duration_us": pa.array([_micros(each.seconds) for each in requests]),
    }


@lru_cache(maxsize=100_000)
def _plain(text: str) -> str:
    """A text without the escapes of the combined format."""
    return text.replace("\\\\", "\x02").replace('\\"', '"').replace("\x02", "\\")


def _present(text: str) -> str | None:
    return None if text in ("", "-") else _plain(text)


@lru_cache(maxsize=100_000)
def _micros(seconds: bytes) -> int:
    return int(seconds.replace(b".", b"")) * 1_000
