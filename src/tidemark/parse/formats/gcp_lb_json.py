"""Google Cloud's load balancers, and other services whose log entries have an `httpRequest`."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.parse.objects import JsonFormat


def _refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    return texts | {"duration_s": pc.utf8_rtrim(texts["latency"], "s")}


FORMAT = JsonFormat(
    name="gcp_lb_json",
    about="Log entries of Google Cloud with an `httpRequest`, such as those of its load balancers.",
    docs="https://cloud.google.com/load-balancing/docs/https/https-logging-monitoring",
    examples=(
        '{"httpRequest":{"requestMethod":"GET","requestUrl":"https://www.example.org/docs/?page=2","requestSize":"312",'
        '"status":200,"responseSize":"512","userAgent":"curl/8.5.0","remoteIp":"203.0.113.7","referer":'
        '"https://example.org/a","latency":"0.012s"},"resource":{"type":"http_load_balancer"},"timestamp":'
        '"2026-11-21T10:00:00.123456Z","logName":"projects/example/logs/requests"}',
    ),
    marks=("httpRequest.requestUrl",),
    keys={
        "client_ip": ("httpRequest.remoteIp",),
        "time": ("timestamp",),
        "method": ("httpRequest.requestMethod",),
        "target": ("httpRequest.requestUrl",),
        "protocol": ("httpRequest.protocol",),
        "status": ("httpRequest.status",),
        "bytes": ("httpRequest.responseSize",),
        "referrer": ("httpRequest.referer",),
        "user_agent": ("httpRequest.userAgent",),
        "latency": ("httpRequest.latency",),
        "edge_country": ("jsonPayload.clientCountry", "jsonPayload.client_region"),
    },
    refine=_refined,
)
