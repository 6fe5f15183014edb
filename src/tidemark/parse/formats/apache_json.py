"""JSON as people configure it in Apache's `LogFormat`. Its lines are detected as `nginx_json`, by the same names."""

from tidemark.parse.formats.nginx_json import KEYS, refined
from tidemark.parse.objects import JsonFormat

FORMAT = JsonFormat(
    name="apache_json",
    about="A JSON object per line, as an Apache `LogFormat` writes it; detected as `nginx_json`.",
    docs="https://httpd.apache.org/docs/2.4/mod/mod_log_config.html",
    examples=(
        '{"time": "[21/Nov/2026:10:00:00 +0000]", "remoteIP": "203.0.113.7", "host": "www.example.org", "request":'
        ' "/docs/", "query": "?page=2", "method": "GET", "status": "200", "userAgent": "curl/8.5.0", "referer": "-"}',
    ),
    marks=(),
    keys=KEYS,
    refine=refined,
    detected=False,
)
