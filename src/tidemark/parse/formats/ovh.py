"""Logs of OVHcloud's web hosting. Unless named, its lines are read as `combined`, without the host."""

from tidemark.parse.layout import Layout

FORMAT = Layout(
    name="ovh",
    about="OVHcloud's web hosting: combined with the host as ident. Detected as `combined`, without the host.",
    docs="https://help.ovhcloud.com/csm/en-gb-web-hosting-statistics-logs",
    examples=(
        '203.0.113.7 www.example.org - [21/Nov/2026:10:00:00 +0000] "GET /docs/?page=2 HTTP/1.1" 200 512'
        ' "https://example.org/a" "curl/8.5.0"',
    ),
    pattern=r'\] "',
    layouts=(
        '$client_ip $host $remote_user [$time] "$request" $status $bytes "$referrer" "$user_agent"$_rest',
    ),
    detected=False,
)
