"""The log of Varnish. Unless named, its lines are read as `combined`, with the whole address as the path."""

from tidemark.parse.layout import Layout

FORMAT = Layout(
    name="varnishncsa",
    about="Varnish's `varnishncsa`: combined with absolute URLs. Detected as `combined`, with the URL as the path.",
    docs="https://varnish-cache.org/docs/trunk/reference/varnishncsa.html",
    examples=(
        '203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET http://www.example.org/docs/?page=2 HTTP/1.1" 200 512'
        ' "https://example.org/a" "curl/8.5.0"',
    ),
    pattern=r'\] "',
    layouts=(
        '$client_ip $_ident $remote_user [$time] "$request" $status $bytes "$referrer" "$user_agent"$_rest',
    ),
    detected=False,
)
