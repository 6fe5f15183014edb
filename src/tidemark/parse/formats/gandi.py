"""Logs of Gandi's web hosting."""

from tidemark.parse.layout import Layout

FORMAT = Layout(
    name="gandi",
    about="Gandi's web hosting: a virtual host, then combined with a duration before the request.",
    docs="https://docs.gandi.net/en/web_hosting/",
    examples=(
        'www.example.org 203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] (0 s) "GET /docs/?page=2 HTTP/1.1" 200 512'
        ' "https://example.org/a" "curl/8.5.0"',
    ),
    pattern=r'\] \(\d+ s\) "',
    layouts=(
        '$host $client_ip $_ident $remote_user [$time] ($duration_s s) "$request" $status $bytes "$referrer"'
        ' "$user_agent"',
    ),
)
