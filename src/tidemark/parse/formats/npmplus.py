"""The log of NPMplus."""

from tidemark.parse.layout import Layout

FORMAT = Layout(
    name="npmplus",
    about="NPMplus, a variant of Nginx Proxy Manager.",
    docs="https://github.com/ZoeyVid/NPMplus",
    examples=(
        '[21/Nov/2026:10:00:00 +0000] www.example.org 203.0.113.7 0.012 "GET /docs/?page=2 HTTP/2.0" 200 512 935'
        " https://example.org/a curl/8.5.0",
    ),
    pattern=r'^\[[^\]]*\] [^ ]+ [0-9A-Fa-f.:]+ [0-9.]+ "',
    layouts=('[$time] $host $client_ip $duration_s "$request" $status $bytes $_sent $referrer $user_agent',),
)
