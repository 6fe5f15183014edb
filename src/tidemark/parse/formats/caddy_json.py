"""Caddy's access log."""

from tidemark.parse.objects import JsonFormat

# Caddy logs a request that fails twice: here, and as an error, which also has the request and a status.
NO_ERRORS = {"logger": "http.log.error"}

FORMAT = JsonFormat(
    name="caddy_json",
    about="Caddy's access log, a JSON object per request.",
    docs="https://caddyserver.com/docs/logging#structured-logs",
    examples=(
        '{"level":"info","ts":1795255200.123456,"logger":"http.log.access.log0","msg":"handled request","request":'
        '{"remote_ip":"203.0.113.7","remote_port":"41342","client_ip":"203.0.113.7","proto":"HTTP/2.0","method":"GET",'
        '"host":"www.example.org","uri":"/docs/?page=2","headers":{"User-Agent":["curl/8.5.0"],"Referer":'
        '["https://example.org/a"]}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":512,"status":200,'
        '"resp_headers":{"Server":["Caddy"]}}',
    ),
    marks=("request.uri",),
    unless=NO_ERRORS,
    keys={
        # `client_ip` is `remote_ip` unless Caddy has trusted proxies configured.
        "client_ip": ("request.client_ip", "request.remote_ip", "request.remote_addr"),
        "remote_user": ("user_id",),
        "time": ("ts", "time", "timestamp"),
        "method": ("request.method",),
        "target": ("request.uri",),
        "protocol": ("request.proto",),
        "status": ("status",),
        "bytes": ("size",),
        "referrer": ("request.headers.Referer",),
        "user_agent": ("request.headers.User-Agent",),
        "host": ("request.host",),
        "duration_s": ("duration", "latency"),
        "forwarded": ("request.headers.X-Forwarded-For",),
    },
)
