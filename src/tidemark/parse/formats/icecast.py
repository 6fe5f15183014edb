"""Icecast's access log. Unless named, its lines are read as `combined` with trailing fields."""

from tidemark.parse.layout import Layout

FORMAT = Layout(
    name="icecast",
    about="Icecast: combined, then the seconds of listening. Detected as `combined`.",
    docs="https://www.icecast.org/docs/",
    examples=(
        '203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET /stream.ogg?page=2 HTTP/1.1" 200 512 "https://example.org/a"'
        ' "curl/8.5.0" 1807',
    ),
    pattern=r'\] "',
    layouts=(
        '$client_ip $_ident $remote_user [$time] "$request" $status $bytes "$referrer" "$user_agent" $duration_s',
    ),
    detected=False,
)
