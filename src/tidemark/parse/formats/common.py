"""The Common Log Format, the oldest of web servers."""

from tidemark.parse.clf import Clf

FORMAT = Clf(
    name="common",
    about="The Common Log Format, with or without trailing fields without quotes.",
    docs="https://httpd.apache.org/docs/2.4/logs.html#common",
    examples=(
        '203.0.113.7 - alice [21/Nov/2026:10:00:00 +0000] "GET /docs/?page=2 HTTP/1.1" 200 512',
        '203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET /docs/?page=2 HTTP/1.1" 304 - 1042',
    ),
    layout='$client_ip $_ident $remote_user [$time] "$request" $status $bytes',
)
