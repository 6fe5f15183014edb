"""JSON as people configure it in nginx and other servers: keys by a table of synonyms."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import flags_of, where
from tidemark.parse.objects import JsonFormat

KEYS = {
    "client_ip": (
        "remote_addr", "remote_ip", "client_ip", "clientip", "clientIp", "clientIP", "remoteIP", "remoteIp",
        "remote_address", "remote_host", "downstream_remote_address", "client.ip", "client.address", "source.ip",
        "source.address", "network.client.ip", "src_ip", "source_ip", "client", "remote", "ip", "addr",
        "c-ip",
    ),
    "remote_user": ("remote_user", "remoteuser", "auth_user", "user.name", "username", "user"),
    "time": (
        "time_iso8601", "time_local", "start_time", "@timestamp", "timestamp", "time", "msec", "ts", "datetime", "date",
    ),
    "request": ("request", "request_line", "requestLine"),
    "method": (
        "request_method", "requestMethod", "method", "http_method", "httpMethod", "http.request.method", "http.method",
        "verb", "cs-method",
    ),
    "target": (
        "request_uri", "requestUri", "request_url", "url.original", "http.url_details.path", "http.url", "url", "uri",
        "url.path", "request_path", "path", "cs-uri-stem",
        "x-envoy-origin-path", "x-envoy-original-path",
    ),
    "query": (
        "query_string", "querystring", "args", "query", "request_query", "url.query", "queryString", "cs-uri-query",
    ),
    "protocol": (
        "server_protocol", "request_protocol", "protocol", "http_version", "httpversion", "httpVersion",
        "http.version", "request_proto", "proto",
    ),
    "status": (
        "status", "status_code", "statusCode", "http_status", "response_status", "response_code", "responseCode",
        "http.response.status_code", "http.status_code", "response", "code", "sc-status",
    ),
    "bytes": (
        "body_bytes_sent", "bytes_sent", "bytesSent", "bytes", "response_size", "responseSize", "response_body_size",
        "response_length", "http.response.body.bytes", "http.response.bytes", "network.bytes_written", "size",
        "length", "body_bytes", "sc-bytes",
    ),
    "referrer": (
        "http_referer", "http_referrer", "referer", "referrer", "request_referer", "httpReferer",
        "http.request.referrer", "http.referer", "cs-referer",
    ),
    "user_agent": (
        "http_user_agent", "user_agent.original", "user_agent", "useragent", "userAgent", "request_user_agent",
        "httpUserAgent", "http.useragent", "agent", "user-agent", "ua",
        "cs-user-agent",
    ),
    "host": (
        "vhost", "virtual_host", "http_host", "authority", ":authority", "request_host", "url.domain", "domain",
        "server_name", "host",
    ),
    "duration_s": (
        "request_time", "requestTime", "request_time_s", "request_duration_seconds", "duration_seconds", "duration_s",
        "http.server.request.duration", "time_taken_s",
    ),
    "duration_ms": (
        "request_time_ms", "duration_ms", "durationMs", "response_time_ms", "latency_ms", "elapsed_ms", "time_ms",
    ),
    "duration_us": (
        "duration_us", "request_time_us", "response_time_us", "time_us", "elapsed_us", "microseconds", "durationMicros",
        "duration_usec", "time_elapsed",
    ),
    "duration_ns": ("event.duration", "duration_ns", "durationNanos"),
    "duration": ("duration",),
    "milliseconds": ("response_flags", "upstream_cluster", "controller"),
    "edge_country": (
        "geoip_country_code", "geoip2_country_code", "country_code", "geo_country_code", "http_cf_ipcountry",
        "cf_ipcountry",
    ),
    "forwarded": ("http_x_forwarded_for", "x_forwarded_for", "xForwardedFor", "x-forwarded-for", "forwarded_for"),
}  # fmt: skip


def refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    """A duration without a unit in its name is in milliseconds in the JSON of Envoy and Rails, and otherwise in seconds
    if it has decimals. Others could be in any unit, and are left out."""
    milli = flags_of(pc.is_valid(texts["milliseconds"]))
    seconds = ~milli & flags_of(pc.match_substring(texts["duration"], "."))
    return texts | {
        "duration_s": pc.coalesce(texts["duration_s"], where(seconds, texts["duration"], None)),
        "duration_ms": pc.coalesce(texts["duration_ms"], where(milli, texts["duration"], None)),
    }


FORMAT = JsonFormat(
    name="nginx_json",
    about="A JSON object per line, as `log_format ... escape=json` writes it, with any usual names.",
    docs="https://nginx.org/en/docs/http/ngx_http_log_module.html#log_format",
    examples=(
        '{"time_iso8601": "2026-11-21T10:00:00+00:00", "remote_addr": "203.0.113.7", "remote_user": "", "request":'
        ' "GET /docs/?page=2 HTTP/1.1", "status": "200", "body_bytes_sent": "512", "request_time": "0.012",'
        ' "http_referer": "https://example.org/a", "http_user_agent": "curl/8.5.0", "host": "www.example.org"}',
        '{"msec": 1795255200.123, "remote_addr": "203.0.113.7", "request_method": "GET", "request_uri":'
        ' "/docs/?page=2",'
        ' "server_protocol": "HTTP/2.0", "status": 200, "bytes_sent": 512, "http_user_agent": "curl/8.5.0"}',
    ),
    marks=(),
    keys=KEYS,
    refine=refined,
)
