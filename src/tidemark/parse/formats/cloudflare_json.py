"""Cloudflare's Logpush."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import matches, where
from tidemark.parse.logtime import any_time
from tidemark.parse.objects import JsonFormat


def _refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    """Takes the time between the first and the last byte at the edge for the duration, where the job logs both to a
    fraction of a second, and none is logged."""
    start, end = texts["time"], texts.pop("end")
    exact = matches(start, r"\.\d{3}|^\d{16}|^\d{19}$")
    exact &= matches(end, r"\.\d{3}|^\d{16}|^\d{19}$")
    if not exact.any():
        return texts
    times = (any_time(where(exact, each, None))[0].cast(pa.int64()) for each in (end, start))
    return texts | {"duration_us": pc.subtract(*times).cast(pa.string())}


FORMAT = JsonFormat(
    name="cloudflare_json",
    about="HTTP requests of Cloudflare's Logpush.",
    docs="https://developers.cloudflare.com/logs/logpush/logpush-job/datasets/zone/http_requests/",
    examples=(
        '{"ClientIP":"203.0.113.7","ClientRequestHost":"www.example.org","ClientRequestMethod":"GET",'
        '"ClientRequestURI":"/docs/?page=2","ClientRequestProtocol":"HTTP/2","ClientRequestReferer":'
        '"https://example.org/a","ClientRequestUserAgent":"curl/8.5.0","ClientCountry":"de","EdgeEndTimestamp":'
        '"2026-11-21T10:00:01Z","EdgeResponseBytes":512,"EdgeResponseStatus":200,"EdgeStartTimestamp":'
        '"2026-11-21T10:00:00Z","RayID":"3a6050bcbe121a87"}',
    ),
    marks=("EdgeResponseStatus",),
    keys={
        "client_ip": ("ClientIP",),
        "time": ("EdgeStartTimestamp", "EdgeEndTimestamp"),
        "method": ("ClientRequestMethod",),
        "target": ("ClientRequestURI", "ClientRequestPath"),
        "query": ("ClientRequestQuery",),
        "protocol": ("ClientRequestProtocol",),
        "status": ("EdgeResponseStatus",),
        "bytes": ("EdgeResponseBytes",),
        "referrer": ("ClientRequestReferer",),
        "user_agent": ("ClientRequestUserAgent",),
        "host": ("ClientRequestHost",),
        "end": ("EdgeEndTimestamp",),
        "duration_ms": ("EdgeTimeToFirstByteMs", "OriginResponseDurationMs"),
        "duration_ns": ("OriginResponseTime",),
        "edge_country": ("ClientCountry",),
    },
    refine=_refined,
)
