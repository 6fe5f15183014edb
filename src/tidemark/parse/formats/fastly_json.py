"""Fastly's JSON, as its documentation recommends it."""

from tidemark.parse.formats.nginx_json import KEYS, refined
from tidemark.parse.objects import JsonFormat

FORMAT = JsonFormat(
    name="fastly_json",
    about="JSON with the names that Fastly recommends.",
    docs="https://www.fastly.com/documentation/guides/integrations/logging/",
    examples=(
        '{"timestamp": "2026-11-21T10:00:00", "client_ip": "203.0.113.7", "geo_country": "germany", "host":'
        ' "www.example.org", "url": "/docs/?page=2", "request_method": "GET", "request_protocol": "HTTP/2",'
        ' "request_referer": "https://example.org/a", "request_user_agent": "curl/8.5.0", "response_state": "MISS",'
        ' "response_status": 200, "response_body_size": 512, "fastly_server": "cache-fra-1", "fastly_is_edge": true}',
    ),
    marks=("fastly_server",),
    keys=KEYS,
    refine=refined,
)
