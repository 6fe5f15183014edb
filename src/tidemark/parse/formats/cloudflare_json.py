"""Cloudflare's Logpush."""

from tidemark.parse.objects import JsonFormat

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
        "protocol": ("ClientRequestProtocol",),
        "status": ("EdgeResponseStatus",),
        "bytes": ("EdgeResponseBytes",),
        "referrer": ("ClientRequestReferer",),
        "user_agent": ("ClientRequestUserAgent",),
        "host": ("ClientRequestHost",),
        "duration_ms": ("EdgeTimeToFirstByteMs", "OriginResponseDurationMs"),
        "duration_ns": ("OriginResponseTime",),
        "edge_country": ("ClientCountry",),
    },
)
